"""How much of a model's weight files the kernel holds in memory, or that it cannot be known: some ways to ask lie.

cachestat(2) tells the truth or refuses, except where a file's pages belong to another file (overlayfs) or to no page
cache (ZFS): it then counts none. mincore(2) says "all of it" to whoever neither owns the file nor may write it (facts:
GPU node 5.4). So a count of none is believed only after a page that was just read is seen.
"""

from __future__ import annotations

import json
import os
import stat as modes
import time
from contextlib import contextmanager, suppress
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .hub_cache import snapshot_of

try:
    import ctypes

    _LIBC: Optional["ctypes.CDLL"] = ctypes.CDLL(None, use_errno=True)
except (ImportError, OSError):  # a Python without it, as Debian's smallest is
    _LIBC = None

PATIENCE_S = 5.0
FILES_LIMIT = 2000
INDEX_LIMIT = 32 << 20
PART_BYTES = 1 << 30
_KINDS = (".safetensors", ".bin", ".pt")
"""The engine loads the first kind that is there (SGLang 0.5.23, model_loader/loader.py `_prepare_weights`)."""
_NOT_WEIGHTS = frozenset(["training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt"])
"""What training leaves behind and the engine skips (weight_utils.py `filter_files_not_needed_for_inference`)."""
_INDEX = "model.safetensors.index.json"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CACHESTAT = 451
_PROT_READ = 1
_MAP_SHARED = 1
_LOWEST_BIT = bytes(value & 1 for value in range(256))


class _File(NamedTuple):
    path: str
    size: int
    owner: int
    device: int


_Way = Callable[[int, _File, int], Optional[int]]
"""Counts the resident pages in the first so many bytes of an open file; None when it cannot tell."""


def cached_share(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer with the share, 0 to 1, of the bytes of the weights that are in memory; None when that is not known.

    `paths` are directories, files, or hub ids, which are looked for in the cache that `environment` names. Known means:
    of every file, within PATIENCE_S.
    """
    ends_at = time.monotonic() + PATIENCE_S
    files = _files(request["paths"], request["environment"], ends_at)
    total = sum(file.size for file in files)
    if not total:
        return {"share": None}
    resident = 0
    for device in sorted({file.device for file in files}):
        known = _resident_bytes([file for file in files if file.device == device], ends_at)
        if known is None:
            return {"share": None}
        resident += known
    return {"share": resident / total}


def by_cachestat(descriptor: int, _: _File, size: int) -> Optional[int]:
    """Count with cachestat(2), Linux 6.5 and later; it refuses who may not write the file."""
    if _LIBC is None:
        return None
    span = (ctypes.c_uint64 * 2)(0, size)
    counts = (ctypes.c_uint64 * 5)()
    return int(counts[0]) if _LIBC.syscall(_CACHESTAT, descriptor, span, counts, 0) == 0 else None


def by_mincore(descriptor: int, file: _File, size: int) -> Optional[int]:
    """Count with mincore(2), where the kernel does not hide the truth from this user."""
    if _LIBC is None or not (file.owner == os.geteuid() or os.access(file.path, os.W_OK)):
        return None
    count = 0
    for offset in range(0, size, PART_BYTES):
        part = _mincore(descriptor, offset, min(PART_BYTES, size - offset))
        if part is None:
            return None
        count += part
    return count


def _resident_bytes(files: List[_File], ends_at: float) -> Optional[int]:
    """Return the resident bytes of the files of one file system by the first way that is seen to tell the truth."""
    for way in (by_cachestat, by_mincore):
        counted = _counted(files, way, ends_at)
        if counted is not None and (counted or _sees_a_page(files[0], way)):
            return counted
    return None


def _counted(files: List[_File], way: _Way, ends_at: float) -> Optional[int]:
    total = 0
    for file in files:
        pages = None
        if time.monotonic() < ends_at:
            with suppress(OSError), _opened(file) as descriptor:
                pages = way(descriptor, file, file.size)
        if pages is None:
            return None
        total += min(pages * _PAGE, file.size)
    return total


def _sees_a_page(file: _File, way: _Way) -> bool:
    """Read one page, without the kernel's reading ahead, and tell whether it is then counted."""
    with suppress(OSError), _opened(file) as descriptor:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(descriptor, 1, 0)
        return bool(way(descriptor, file, min(_PAGE, file.size)))
    return False


@contextmanager
def _opened(file: _File) -> Iterator[int]:
    """Open a file as a bare descriptor, for as long as it is needed."""
    descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _mincore(descriptor: int, offset: int, length: int) -> Optional[int]:
    if _LIBC is None:
        return None
    mmap = _LIBC.mmap
    mmap.restype = ctypes.c_void_p
    mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
    address = mmap(None, length, _PROT_READ, _MAP_SHARED, descriptor, offset)
    if address == ctypes.c_void_p(-1).value:
        return None
    pages = (ctypes.c_ubyte * ((length + _PAGE - 1) // _PAGE))()
    failed = _LIBC.mincore(ctypes.c_void_p(address), ctypes.c_size_t(length), pages)
    _LIBC.munmap(ctypes.c_void_p(address), ctypes.c_size_t(length))
    return None if failed else bytes(pages).translate(_LOWEST_BIT).count(1)


def _files(paths: List[str], environment: Dict[str, str], ends_at: float) -> List[_File]:
    """Return the regular files to count, each once however many links lead to it."""
    found: List[_File] = []
    seen: Set[Tuple[int, int]] = set()
    for path in _weights(paths, environment):
        if len(found) == FILES_LIMIT or time.monotonic() > ends_at:
            break
        try:
            facts = os.stat(path)
        except OSError:
            continue
        if modes.S_ISREG(facts.st_mode) and facts.st_size and (facts.st_dev, facts.st_ino) not in seen:
            seen.add((facts.st_dev, facts.st_ino))
            found.append(_File(path, facts.st_size, facts.st_uid, facts.st_dev))
    return found


def _weights(paths: List[str], environment: Dict[str, str]) -> Iterator[str]:
    for path in paths:
        place = path if os.path.isabs(path) else snapshot_of(path, None, environment)
        if place is not None:
            try:
                names = sorted(os.listdir(place))
            except NotADirectoryError:
                yield place
                continue
            except OSError:
                continue
            for name in _loaded(place, names):
                yield os.path.join(place, name)


def _loaded(directory: str, names: List[str]) -> List[str]:
    """Return the names that the engine would load: of one kind, and only those of the index where there is one."""
    for kind in _KINDS:
        chosen = [name for name in names if name.endswith(kind) and name not in _NOT_WEIGHTS]
        if chosen:
            listed = _index(directory) if kind == _KINDS[0] and _INDEX in names else set()
            return [name for name in chosen if name in listed] or chosen
    return []


def _index(directory: str) -> Set[str]:
    try:
        with open(os.path.join(directory, _INDEX), "rb") as file:
            places = json.loads(file.read(INDEX_LIMIT))["weight_map"].values()
        return {name for name in places if isinstance(name, str)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return set()
