"""Which processes belong to a launch: those that carry its mark, and those of its main process's session or group.

To an adopted launch belong its main process and what descends from it, and nothing else: its session and group may be
those of the shell that somebody started it from.
"""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from . import proc
from .places import append_private_file, is_adopted, launch_directory, read_file
from .proc import Stat

Identity = Tuple[int, int]
Roots = Mapping[str, Set[Identity]]
"""For each adopted launch its main process and everything that was ever noted as its own."""
GENERATIONS_LIMIT = 100


def find_members(launch_id: str, main: Optional[Identity]) -> List[Stat]:
    """Return the live processes of a launch, from a look at every process of the node."""
    return find_all_members({launch_id: main})[launch_id]


def find_all_members(launches: Mapping[str, Optional[Identity]]) -> Dict[str, List[Stat]]:
    """Return the live processes of several launches, given with their main processes, from one look."""
    found: Dict[str, List[Stat]] = {launch_id: [] for launch_id in launches}
    roots = adopted_roots(launches)
    own = os.getpid()
    for pid in proc.pids():
        stat = proc.read_stat(pid) if pid != own else None
        owner = owner_of(stat, launches, roots=roots) if stat and stat.is_alive else None
        if stat and owner:
            found[owner].append(stat)
    return found


def owner_of(stat: Stat, launches: Mapping[str, Optional[Identity]], *, roots: Optional[Roots] = None) -> Optional[str]:
    """Return the launch that a process belongs to: its mark decides where it has one, else the session or group.

    With an adopted launch, one that is in `roots`, descent decides instead.
    """
    mark, is_telling = proc.mark_of(stat.pid)
    if mark is not None:
        return mark if mark in launches else None
    for launch_id, main in launches.items():
        if roots and launch_id in roots:
            if is_descendant(stat, roots[launch_id]):
                return launch_id
        elif main and _is_near(stat, main, is_telling=is_telling):
            return launch_id
    return None


def adopted_roots(launches: Mapping[str, Optional[Identity]]) -> Roots:
    """Return the roots of those launches that were adopted. What was noted is known when its parent is gone, too."""
    found: Dict[str, Set[Identity]] = {}
    for launch_id, main in launches.items():
        directory = launch_directory(launch_id)
        if is_adopted(directory):
            found[launch_id] = set(recorded_members(directory)) | ({main} if main else set())
    return found


def is_descendant(stat: Stat, roots: Set[Identity], *, read: Callable[[int], Optional[Stat]] = proc.read_stat) -> bool:
    """Tell whether a process is one of the roots or descends from one, by the parents that `read` says."""
    seen: Optional[Stat] = stat
    for _ in range(GENERATIONS_LIMIT):
        if seen is None or (seen.pid, seen.start_ticks) in roots:
            break
        seen = read(seen.parent) if seen.parent > 1 else None
    return seen is not None and (seen.pid, seen.start_ticks) in roots


def _is_near(stat: Stat, main: Identity, *, is_telling: bool) -> bool:
    """Tell whether an unmarked process (cleared or overwritten environment) is in the main process's session or group.

    While the main process is there, even unreaped, those numbers are its own. Once it is gone they may have come to
    somebody else: then only a process whose environment tells nothing is taken for ours, and only a later one.
    """
    if (stat.pid, stat.start_ticks) == main:
        return True
    if main[0] not in (stat.session, stat.group) or stat.start_ticks < main[1]:
        return False
    holder = proc.read_stat(main[0])
    return holder.start_ticks == main[1] if holder else not is_telling


def record_members(directory: str, members: Iterable[Stat]) -> None:
    """Note the launch's pids, so that what they leave behind is known to be theirs."""
    known = set(recorded_members(directory))
    new = [stat for stat in members if (stat.pid, stat.start_ticks) not in known]
    if new:
        lines = "".join("%d %d\n" % (stat.pid, stat.start_ticks) for stat in new)
        append_private_file(os.path.join(directory, "members"), lines.encode("ascii"))


def recorded_members(directory: str) -> List[Identity]:
    """Return pid and start time of every process that was ever noted as the launch's."""
    text = read_file(os.path.join(directory, "members")) or b""
    rows = re.findall(rb"^(\d+) (\d+)$", text, re.MULTILINE)
    return [(int(pid), int(start_ticks)) for pid, start_ticks in rows]


class Census:
    """Keeps the members of several launches, looking into each process of the node once and not at every turn.

    A process is judged when it is first seen. What was judged too early (between fork and exec) is put right by
    `forget_strangers`, called now and then.
    """

    def __init__(self) -> None:
        self._strangers: Set[int] = set()
        self._newest_pid = b""
        self._own = os.getpid()

    def forget_strangers(self) -> None:
        """Judge every process anew at the next look."""
        self._strangers.clear()
        self._newest_pid = b""

    def newcomers(self, launches: Mapping[str, Optional[Identity]], known: Iterable[int]) -> Dict[str, List[Stat]]:
        """Return the processes that appeared since the last look and belong to one of the launches.

        Listing /proc takes the kernel milliseconds on a full node; it is not listed when nothing was started since.
        """
        newest_pid = proc.newest_pid()
        if newest_pid == self._newest_pid:
            return {}
        self._newest_pid = newest_pid
        present = set(proc.pids())
        self._strangers &= present
        found: Dict[str, List[Stat]] = {}
        roots = adopted_roots(launches)
        for pid in present.difference(self._strangers, known, (self._own,)):
            stat = proc.read_stat(pid)
            owner = owner_of(stat, launches, roots=roots) if stat else None
            if owner is None or stat is None:
                self._strangers.add(pid)
            elif stat.is_alive:
                found.setdefault(owner, []).append(stat)
        return found
