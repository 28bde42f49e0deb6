"""Process matters that the real engine has too: titles, dying with the parent, ending a tree."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Iterable, List, Optional

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
ARGUMENTS_START = 48
"""Fields 48 to 51 of /proc/PID/stat, counted from 1: where arguments and environment lie (man 5 proc)."""


def set_title(title: str) -> None:
    """Change what ps shows, as setproctitle does: the name, and the memory of the arguments.

    Without SPT_NOENV the real library takes the memory of the environment as well, so that /proc/PID/environ is lost;
    so does this.
    """
    ctypes.CDLL(None).prctl(PR_SET_NAME, ctypes.c_char_p(title.encode()), 0, 0, 0)
    fields = _stat(os.getpid())
    start, end, environment_start, environment_end = (
        int(field) for field in fields[ARGUMENTS_START - 3 : ARGUMENTS_START + 1]
    )
    if end > start:
        data = title.encode()[: end - start - 1]
        ctypes.memmove(start, data.ljust(end - start, b"\0"), end - start)
    if not os.environ.get("SPT_NOENV") and environment_end > environment_start:
        ctypes.memset(environment_start, 0, environment_end - environment_start)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent ends, and end now if it has ended already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process that may be gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def kill_self() -> None:
    """End this process by SIGKILL, the engine's usual end after a failure."""
    os.kill(os.getpid(), signal.SIGKILL)


def start_ticks(pid: int) -> Optional[int]:
    """Return the start time of a process in clock ticks, or None when it has ended, collected or not."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def is_any_stopped(pids: Iterable[int]) -> bool:
    """Tell whether a process is stopped by a signal: the others of its group then wait for it."""
    states = [fields[0] for fields in map(_stat, pids) if fields]
    return "T" in states or "t" in states


def _stat(pid: int) -> List[str]:
    """Return the fields of /proc/PID/stat from the state on, or none when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
