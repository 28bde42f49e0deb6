"""The processes that simulated nodes started, found by the marker in their environment, and ended by it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

NODE_MARKER = "SIMULATED_NODE"
"""The name of the node a process belongs to."""
HOME_MARKER = "SIMULATED_HOME"
"""The home directory of that node: two fleets may have nodes of the same name."""

PROC = Path("/proc")
KILL_DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """One process of a node."""

    pid: int
    command: str


def find_processes(root: Path) -> list[NodeProcess]:
    """Return the living processes whose node's home is `root` or lies below it.

    They are known by the marker in their environment, or, where another program started them (systemd-run does), by
    a command that lies in a home. A process whose title replaced its environment (SGLang's titles do so without
    SPT_NOENV) is known by its session, if the session's leader is known or gone.
    """
    sessions = {pid: session for pid in _pids() if (session := _session_of(pid)) is not None}
    known = {pid for pid in sessions if _is_known(pid, root)}
    owned = {sessions[pid] for pid in known if sessions[pid] in known or sessions[pid] not in sessions}
    known |= {pid for pid, session in sessions.items() if session in owned and pid != os.getpid()}
    return [NodeProcess(pid, " ".join(_words_of(pid))) for pid in sorted(known)]


def kill_processes(root: Path) -> int:
    """Kill every process below `root`, again until none is left, and return how many were killed.

    Raises TimeoutError when some survive for ten seconds, which only happens to a process stuck in the kernel.
    """
    deadline = time.monotonic() + KILL_DEADLINE_S
    killed: set[int] = set()
    while found := find_processes(root):
        for process in found:
            killed.add(process.pid)
            _kill(process.pid)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes survive SIGKILL: {found}")
        time.sleep(0.01)
    return len(killed)


def _pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]


def _is_known(pid: int, root: Path) -> bool:
    """Tell whether a process is marked as one of a home at or below `root`, or runs a command that lies there."""
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    prefix = f"{HOME_MARKER}=".encode()
    for variable in environment.split(b"\0"):
        if variable.startswith(prefix):
            return Path(os.fsdecode(variable[len(prefix) :])).is_relative_to(root)
    words = _words_of(pid)
    named = words[1:2] if words and Path(words[0]).name == "sh" else words[:1]
    return any(Path(word).is_relative_to(root) for word in named)


def _session_of(pid: int) -> int | None:
    """Return the session of a living process; a zombie has none, it only waits to be collected."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[3])


def _words_of(pid: int) -> list[str]:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return []
    return [os.fsdecode(word) for word in words]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
