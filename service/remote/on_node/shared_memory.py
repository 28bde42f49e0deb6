"""Which entries of /dev/shm are a launch's: those its processes had open, those named after them, the engine's own.

SGLang leaves `sglang_loads_*`, `sgl_shm_<kind>_<pid>_*`, `multi_tokenizer_args_<pid>`, `psm_*`, `nccl-*`, `cuda.shm.*`
behind when it is killed, and the next start dies of a full tmpfs (facts: SGLang section 6).
"""

from __future__ import annotations

import os
import re
import stat as modes
from typing import Iterable, List, NamedTuple, Optional, Set, Tuple

from . import proc
from .places import SHM, append_private_file, read_file

CLOCK_SLACK_S = 2.0
_ENGINES_OWN = re.compile(r"sglang_loads_.*\.shm|sgl_shm_.+|multi_tokenizer_args_\d+")
_COMMON = re.compile(r"(psm_|nccl-|cuda\.shm\.|sem\.|torch_|__KMP_REGISTERED_LIB_).+")


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
    new = [entry for entry in _used_by(pids) if entry not in known and "\n" not in entry.name]
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

    Proof is: noted as open in one of its processes; or named after one of its `pids`; or named as only the engine names
    things. The last two must have been written within `window`. Whatever a living process still uses stays, and
    whatever belongs to another user is not looked at.
    """
    recorded = set(recorded_shared_memory(directory))
    proven, unproven = [], []
    for entry, facts in _own_entries():
        is_in_window = window[0] - CLOCK_SLACK_S <= facts.st_mtime <= window[1] + CLOCK_SLACK_S
        is_named = bool(_pids_in(entry.name) & pids) or _ENGINES_OWN.fullmatch(entry.name) is not None
        if entry in recorded or (is_in_window and is_named):
            proven.append(entry)
        elif is_in_window and _COMMON.fullmatch(entry.name):
            unproven.append(entry)
    in_use = _used_by(proc.pids()) if proven or unproven else set()
    verdict = Verdict([], [], [entry.name for entry in unproven if entry not in in_use])
    for entry in proven:
        if entry in in_use and entry not in recorded:
            continue  # another launch's, alive
        is_gone = may_remove and entry not in in_use and _remove(entry)
        (verdict.removed if is_gone else verdict.left).append(entry.name)
    return verdict


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


def _used_by(pids: Iterable[int]) -> Set[Entry]:
    """Return the entries that processes have open or mapped, as far as this user may see."""
    names: Set[str] = set()
    prefix = SHM + "/"
    for pid in pids:
        names.update(target[len(prefix) :] for target in proc.open_files(pid) if target.startswith(prefix))
        maps = read_file("/proc/%d/maps" % pid) or b""
        if prefix.encode("ascii") in maps:
            for line in maps.decode("utf-8", "surrogateescape").split("\n"):
                names.add(line.partition(prefix)[2])
    found = set()
    for name in names:
        facts = _facts(name) if name and "/" not in name else None
        if facts:
            found.add(Entry(facts.st_ino, name))
    return found


def _pids_in(name: str) -> Set[int]:
    """Return the numbers that stand as whole words in a name; CUDA writes them in hexadecimal."""
    words = re.split(r"[._-]", name)
    numbers = {int(word) for word in words if word.isdecimal()}
    if name.startswith("cuda.shm."):
        numbers.update(int(word, 16) for word in words if re.fullmatch(r"[0-9a-f]+", word))
    return numbers
