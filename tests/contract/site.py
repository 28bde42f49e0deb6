"""Where the contract is tested: one node with an engine, and the hands that a fault needs."""

import os
import signal
from pathlib import Path
from typing import Any, Protocol


class Site(Protocol):
    """A node that Vigil reaches over SSH, with an engine and a model on it."""

    name: str
    start_s: float
    """How long a start may take at most."""
    health_timeout_s: float
    """After how long the engine itself says that its scheduler does not answer."""
    hang_after_s: int
    """A deadline that no healthy part of a start comes near."""
    clean_exit_code: int
    """With which code the engine ends after SIGTERM."""

    def node(self) -> dict[str, Any]:
        """Return the body of POST /nodes."""

    def slow(self, recipe: dict[str, Any]) -> dict[str, Any]:
        """Return the recipe of a start that takes seconds."""

    def recipe(self, **server_args: object) -> dict[str, Any]:
        """Return the recipe of a profile that starts well."""


def children_of(pid: int) -> list[int]:
    """Return the pids of a process's children."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def schedulers_of(pid: int) -> list[int]:
    """Return the scheduler processes below an engine's parent process."""
    return [child for child in children_of(pid) if "sglang::schedul" in title(child)]


def title(pid: int) -> str:
    """Return what a process calls itself."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def processes_of_launch(launch_id: str) -> list[int]:
    """Return every live process that carries the mark of a launch."""
    mark = f"VIGIL_LAUNCH_ID={launch_id}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_alive(int(entry.name)):
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def parents_of_launch(launch_id: str) -> list[int]:
    """Return the main processes of a launch's engine, which start the others."""
    marked = {pid: title(pid) for pid in processes_of_launch(launch_id)}
    return [pid for pid, text in marked.items() if "launch_server" in text and "supervisor" not in text]


def end(pid: int, how: signal.Signals) -> None:
    """Send a signal to a process of the test's own engine."""
    os.kill(pid, how)
