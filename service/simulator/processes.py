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
    home: str
    command: str


def find_processes(root: Path) -> list[NodeProcess]:
    """Return the living processes whose node's home is `root` or lies below it.

    A process whose title replaced its environment (SGLang's titles do so without SPT_NOENV) is found by its session:
    each command of a node leads a session of its own, and an engine's children stay in their parent's.
    """
    marked: dict[int, NodeProcess] = {}
    homes_by_session: dict[int, str] = {}
    unmarked: list[tuple[int, int]] = []
    for pid in _pids():
        home = _home_of(pid, root)
        session = _session_of(pid)
        if session is None:
            continue
        if home is None:
            unmarked.append((pid, session))
        else:
            homes_by_session[session] = home
            marked[pid] = NodeProcess(pid, home, _command_of(pid))
    for pid, session in unmarked:
        if session in homes_by_session and pid != os.getpid():
            marked[pid] = NodeProcess(pid, homes_by_session[session], _command_of(pid))
    return list(marked.values())


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


def _home_of(pid: int, root: Path) -> str | None:
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    prefix = f"{HOME_MARKER}=".encode()
    for variable in environment.split(b"\0"):
        if variable.startswith(prefix):
            home = os.fsdecode(variable[len(prefix) :])
            return home if Path(home).is_relative_to(root) else None
    return None


def _session_of(pid: int) -> int | None:
    """Return the session of a living process; a zombie has none, it only waits to be collected."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[3])


def _command_of(pid: int) -> str:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    return os.fsdecode(b" ".join(words))


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
