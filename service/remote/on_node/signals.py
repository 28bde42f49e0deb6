"""How a launch is asked to end, and how it is made to: no signal reaches a process that is not provably its own."""

from __future__ import annotations

import contextlib
import os
import signal as signals
import time
from typing import Any, Dict, List, Optional, Tuple

from . import proc
from .main_process import MainProcess
from .members import find_members, record_members
from .places import forbid_start, is_adopted, launch_directory
from .proc import Stat
from .shared_memory import record_shared_memory

FREEZE_PATIENCE_S = 2.0
KILL_PATIENCE_S = 2.0
"""How long the sweep goes on; what is left then is in an uninterruptible wait and no signal ends it."""


def signal(request: Dict[str, Any]) -> Dict[str, Any]:
    """Send SIGTERM to the main process, or SIGKILL to everything of the launch, and say who got it.

    With the main process gone, SIGTERM goes to what it left; after a reboot there is nothing to signal. What the launch
    has in shared memory is noted first: once its processes are dead, nothing tells whose it was. A launch that was not
    started yet is forbidden to start.
    """
    directory = launch_directory(request["launch"])
    main = MainProcess(directory)
    if forbid_start(directory):
        return {"pids": [], "process": dict(main.look(time.monotonic()), members=0)}
    if main.boot_id != proc.boot_id():
        return {"pids": [], "process": dict(main.settled(), members=0)}
    members = find_members(request["launch"], main.identity)
    with contextlib.suppress(OSError):  # a full disk must not keep anything from being stopped
        record_members(directory, members)
        record_shared_memory(directory, [stat.pid for stat in members])
    if request["step"] == "kill":
        reached = _kill(request["launch"], main, members)
    else:
        first = [stat for stat in members if (stat.pid, stat.start_ticks) == main.identity]
        reached = [stat.pid for stat in first or members if send(stat, signals.SIGTERM)]
    process = main.settled()
    process["members"] = len(find_members(request["launch"], main.identity))
    return {"pids": sorted(set(reached)), "process": process}


def send(stat: Stat, number: int) -> bool:
    """Send a signal to exactly this process and tell whether it was there.

    With a pidfd (Linux 5.3, Python 3.9) the process cannot be replaced between the check and the signal; without one
    the check comes right before it.
    """
    with contextlib.suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            return _is_same(stat) and _kill_now(stat.pid, number)
        descriptor = os.pidfd_open(stat.pid)
        try:
            if _is_same(stat):
                signals.pidfd_send_signal(descriptor, number)
                return True
        finally:
            os.close(descriptor)
    return False


def _kill(launch_id: str, main: MainProcess, members: List[Stat]) -> List[int]:
    """Kill the group at once while its leader is there, so that it cannot fork out of reach, then sweep the rest.

    The group of an adopted launch may be a shell's: its processes are frozen one by one, until no new one comes.
    """
    reached = []
    if is_adopted(main.directory):
        members = _frozen(launch_id, main, members)
    elif _leads_group(main.identity):
        with contextlib.suppress(OSError):
            os.killpg(main.identity[0] if main.identity else 0, signals.SIGKILL)
            reached = [stat.pid for stat in members if main.identity and stat.group == main.identity[0]]
    deadline = time.monotonic() + KILL_PATIENCE_S
    while members and time.monotonic() < deadline:
        reached += [stat.pid for stat in members if send(stat, signals.SIGKILL)]
        time.sleep(0.02)
        members = find_members(launch_id, main.identity)
    return reached


def _frozen(launch_id: str, main: MainProcess, members: List[Stat]) -> List[Stat]:
    """Stop every process and then those that they started meanwhile: what a dead parent left could not be told."""
    frozen: List[Stat] = []
    deadline = time.monotonic() + FREEZE_PATIENCE_S
    while members and time.monotonic() < deadline:
        for stat in members:
            send(stat, signals.SIGSTOP)
        frozen += members
        known = {(stat.pid, stat.start_ticks) for stat in frozen}
        found = find_members(launch_id, main.identity)
        members = [stat for stat in found if (stat.pid, stat.start_ticks) not in known]
    return frozen + members


def _leads_group(identity: Optional[Tuple[int, int]]) -> bool:
    if identity is None:
        return False
    stat = proc.read_stat(identity[0])
    return stat is not None and (stat.start_ticks, stat.group) == (identity[1], identity[0])


def _is_same(stat: Stat) -> bool:
    return proc.is_running(stat.pid, stat.start_ticks)


def _kill_now(pid: int, number: int) -> bool:
    os.kill(pid, number)
    return True
