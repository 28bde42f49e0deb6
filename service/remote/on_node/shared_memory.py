"""Which entries of /dev/shm are a launch's: those that its processes had open or mapped, and those named after them.

SGLang leaves `sglang_loads_*`, `sgl_shm_<kind>_<pid>_*`, `multi_tokenizer_args_<pid>`, `sem.mp-*`, `psm_*`,
`nccl-*` and `cuda.shm.*` behind when it is killed, and the next start dies of a full tmpfs (facts: SGLang section 6).
"""

from __future__ import annotations

import os
import re
import stat as modes
from contextlib import suppress
from typing import Iterable, List, NamedTuple, Optional, Set, Tuple

from . import proc
from .places import SHM, append_private_file, read_file

CLOCK_SLACK_S = 2.0
_MAPPED = re.compile(rb" (\d+) +%b/" % SHM.encode("ascii"))
_USUAL = re.compile(
    r"(sglang_loads_|sgl_shm_|multi_tokenizer_args_|psm_|nccl-|cuda\.shm\.|sem\.|torch_|__KMP_REGISTERED_LIB_).+"
)
"""What engines and their libraries leave; by its name alone such an entry may be any launch's, or any program's."""


class Entry(NamedTuple):
    """One file of /dev/shm."""

    inode: int
    name: str


class Verdict(NamedTuple):
    """`removed` is gone now; `left` is the launch's and could not be removed; `unproven` may be somebody else's."""

    removed: List[str]
    left: List[str]
    unproven: List[str]


def record_shared_memory(directory: str, pids: Iterable[int]) -> None:
    """Note what these processes have open or mapped in /dev/shm: the only proof of whose a `psm_1a2b3c` is."""
    known = set(recorded_shared_memory(directory))
    used = inodes_used_by(pids)
    new = [
        entry for entry, _ in _own_entries() if entry.inode in used and entry not in known and "\n" not in entry.name
    ]
    if new:
        lines = "".join("%d %s\n" % entry for entry in sorted(new))
        append_private_file(os.path.join(directory, "shm"), lines.encode("utf-8", "surrogateescape"))


def recorded_shared_memory(directory: str) -> List[Entry]:
    """Return the entries that were ever noted as the launch's."""
    text = (read_file(os.path.join(directory, "shm")) or b"").decode("utf-8", "surrogateescape")
    rows = (line.partition(" ") for line in text.split("\n"))
    return [Entry(int(inode), name) for inode, _, name in rows if inode.isdecimal() and name]


def clear_shared_memory(directory: str, pids: Set[int], window: Tuple[float, float], *, may_remove: bool) -> Verdict:
    """Remove what is provably the launch's, and say what stays.

    Proof is: noted as used by one of its processes; or named after one of its `pids`, in the usual way, and written
    within `window`. Whatever a living process still uses stays. Another user's entries are not looked at.
    """
    recorded = set(recorded_shared_memory(directory))
    proven, unproven = [], []
    for entry, facts in _own_entries():
        is_in_window = window[0] - CLOCK_SLACK_S <= facts.st_mtime <= window[1] + CLOCK_SLACK_S
        is_usual = is_in_window and _USUAL.fullmatch(entry.name) is not None
        if entry in recorded or (is_usual and _pids_in(entry.name) & pids):
            proven.append(entry)
        elif is_usual:
            unproven.append(entry)
    used = inodes_used_by(proc.pids()) if proven or unproven else set()
    verdict = Verdict([], [], [entry.name for entry in unproven if entry.inode not in used])
    for entry in proven:
        is_gone = may_remove and entry.inode not in used and _remove(entry)
        (verdict.removed if is_gone else verdict.left).append(entry.name)
    return verdict


def inodes_used_by(pids: Iterable[int]) -> Set[int]:
    """Return the files of /dev/shm that processes have open or mapped, as far as this user may see.

    By inode, since the name of a semaphore is given to it only after it is mapped.
    """
    found: Set[int] = set()
    for pid in pids:
        for descriptor, target in proc.open_files(pid):
            if target.startswith(SHM + "/"):
                with suppress(OSError):
                    found.add(os.stat(descriptor).st_ino)
        maps = read_file("/proc/%d/maps" % pid) or b""
        found.update(int(inode) for inode in _MAPPED.findall(maps))
    return found


def _own_entries() -> List[Tuple[Entry, os.stat_result]]:
    found = []
    try:
        names = sorted(os.listdir(SHM))
    except OSError:
        return []
    for name in names:
        facts = _facts(name)
        if facts and facts.st_uid == os.geteuid():
            found.append((Entry(facts.st_ino, name), facts))
    return found


def _facts(name: str) -> Optional[os.stat_result]:
    try:
        facts = os.lstat(os.path.join(SHM, name))
    except OSError:
        return None
    return facts if modes.S_ISREG(facts.st_mode) else None


def _remove(entry: Entry) -> bool:
    facts = _facts(entry.name)
    if facts is None or facts.st_ino != entry.inode:
        return facts is None
    try:
        os.unlink(os.path.join(SHM, entry.name))
    except OSError:
        return False
    return True


def _pids_in(name: str) -> Set[int]:
    """Return the numbers that stand as whole words in a name; CUDA writes them in hexadecimal."""
    words = re.split(r"[._-]", name)
    numbers = {int(word) for word in words if word.isdecimal()}
    if name.startswith("cuda.shm."):
        numbers.update(int(word, 16) for word in words if re.fullmatch(r"[0-9a-f]+", word))
    return numbers
