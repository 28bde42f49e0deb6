"""Which launch a process belongs to: the one it is marked with, or the adopted one that it descends from."""

from __future__ import annotations

from typing import Callable, Dict, Optional

from . import proc
from .main_process import MainProcess
from .members import Identity, is_descendant
from .places import is_adopted, launch_directory, launch_ids
from .proc import Stat


def adopted_launches() -> Dict[Identity, str]:
    """Return the launches of this user that were adopted in this boot, by their main processes."""
    found: Dict[Identity, str] = {}
    for launch_id in launch_ids():
        directory = launch_directory(launch_id)
        if is_adopted(directory):
            main = MainProcess(directory)
            if main.identity and main.boot_id == proc.boot_id():
                found[main.identity] = launch_id
    return found


def launch_finder(read: Callable[[int], Optional[Stat]] = proc.read_stat) -> Callable[[int], Optional[str]]:
    """Return what tells the launch of a pid, None for whatever is no launch's, by the adopted ones of this moment.

    The processes of an adopted launch carry no mark: `read` says their parents.
    """
    adopted = adopted_launches()

    def launch_of(pid: int) -> Optional[str]:
        mark = proc.mark_of(pid)[0]
        stat = read(pid) if adopted and mark is None else None
        if stat is None:
            return mark
        return next((launch for main, launch in adopted.items() if is_descendant(stat, {main}, read=read)), None)

    return launch_of
