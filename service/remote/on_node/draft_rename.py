"""How a checkpoint is written again under other tensor names: into a new directory, whole or not at all.

The data of every tensor is copied as it is; only headers and index change. The source is never written to.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import tempfile
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from .answering import Refused, write_all
from .model_files import INDEX_LIMIT, INDEX_NAME, parse_index
from .safetensors import Header, Unsound, fits_a_name, header_bytes, header_of, open_regular, read_at, read_header

ROOM_SPARED = 64 << 20
"""So many bytes of the disk stay free."""
PIECE = 4 << 20
RENAMES_LIMIT = 100000
NOTE_NAME = "vigil-rename.json"
"""What was renamed, kept beside the weights; no loader reads it."""
_IGNORED = (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".incomplete")
"""Weights of other formats: where there is safetensors the engine reads nothing else, and they keep the old names."""


class Interrupted(Exception):
    """A signal came before the new directory was complete; nothing of it is left."""


class _Part(NamedTuple):
    """One weight file of the source with the header that it gets."""

    name: str
    header: Header
    new_header: bytes
    renamed: int


def rename_draft(request: Dict[str, Any]) -> Dict[str, Any]:
    """Write `source` to `destination` with its tensors renamed as `renames` says: {old name: new name}.

    Refused, with nothing left behind: when the destination exists, when there is no room, when a file of the source is
    not sound or changes meanwhile, when a name to change is not there, or when two tensors would have one name.
    """
    source, destination = _places(request["source"], request["destination"])
    renames = _renames(request["renames"])
    parts = _parts(source, renames)
    others, left_out = _others(source)
    needed = sum(part.header.size + len(part.new_header) for part in parts)
    needed += sum(os.stat(os.path.join(source, name)).st_size for name in others) + INDEX_LIMIT // 8
    _check_room(os.path.dirname(destination), needed)
    with _interruptible(), _staging(destination) as staging:
        for part in parts:
            _copy_weights(os.path.join(source, part.name), os.path.join(staging, part.name), part)
        for name in others:
            _copy_file(os.path.join(source, name), os.path.join(staging, name))
        if os.path.lexists(os.path.join(source, INDEX_NAME)):
            _write_index(source, staging, renames)
        _write_text(os.path.join(staging, NOTE_NAME), {"source": source, "renames": renames})
        _prove(staging, parts, renames)
        _publish(staging, destination)
    return {
        "destination": destination,
        "weight_files": [part.name for part in parts],
        "renamed": sum(part.renamed for part in parts),
        "bytes": sum(part.header.size for part in parts),
        "left_out": left_out,
    }


def _places(source: Any, destination: Any) -> Tuple[str, str]:
    """Return both directories without links; the second does not exist, what it shall lie in does."""
    for path in (source, destination):
        if not isinstance(path, str) or not os.path.isabs(path) or "\0" in path:
            raise Refused("order_invalid", "not an absolute path: %a" % (path,))
    real_source = os.path.realpath(source)
    parent, name = os.path.split(os.path.normpath(destination))
    place = os.path.join(os.path.realpath(parent), name)
    if not os.path.isdir(real_source):
        raise Refused("order_invalid", "there is no directory %s" % source)
    if not os.path.isdir(os.path.dirname(place)):
        raise Refused("order_invalid", "there is no directory %s to write into" % os.path.dirname(place))
    if os.path.lexists(place):
        raise Refused("destination_exists", "%s is there already: give a new name" % destination)
    if place.startswith(real_source + os.sep):
        raise Refused("order_invalid", "%s lies inside the checkpoint itself" % destination)
    return real_source, place


def _renames(renames: Any) -> Dict[str, str]:
    if not isinstance(renames, dict) or not 0 < len(renames) <= RENAMES_LIMIT:
        raise Refused("order_invalid", "there is nothing to rename, or too much")
    for old, new in renames.items():
        if not isinstance(new, str) or not fits_a_name(new) or not fits_a_name(old):
            raise Refused("order_invalid", "not a tensor's name: %a" % (new,))
    return renames


def _parts(source: str, renames: Dict[str, str]) -> List[_Part]:
    """Read every header, and make sure that the names of the whole checkpoint stay different from each other."""
    parts: List[_Part] = []
    seen: Dict[str, str] = {}
    found = set()
    for name in sorted(os.listdir(source)):
        if not name.endswith(".safetensors"):
            continue
        header = _sound_header(os.path.join(source, name))
        for tensor in header.tensors:
            new = renames.get(tensor.name, tensor.name)
            if new in seen:
                raise Refused("order_invalid", "%s and %s would both be %s" % (seen[new], tensor.name, new))
            seen[new] = tensor.name
            found.add(tensor.name)
        changed = [tensor._replace(name=renames.get(tensor.name, tensor.name)) for tensor in header.tensors]
        renamed = sum(1 for tensor in header.tensors if tensor.name in renames)
        parts.append(_Part(name, header, header_bytes(changed, header.metadata), renamed))
    absent = sorted(old for old in renames if old not in found)
    if absent:
        raise Refused("order_invalid", "%d names are not in the checkpoint: %s" % (len(absent), ", ".join(absent[:5])))
    return parts


def _sound_header(path: str) -> Header:
    try:
        return read_header(path)
    except Unsound as unsound:
        raise Refused("checkpoint_unsound", "%s: %s" % (path, unsound.detail)) from unsound


def _others(source: str) -> Tuple[List[str], List[str]]:
    """Return the other files that belong to the checkpoint, and the names that are left out."""
    kept: List[str] = []
    left_out: List[str] = []
    for name in sorted(os.listdir(source)):
        if name in (INDEX_NAME, NOTE_NAME) or name.endswith(".safetensors"):
            continue
        path = os.path.join(source, name)
        is_ours = os.path.isfile(path) and not name.endswith(_IGNORED) and not name.endswith(".index.json")
        (kept if is_ours else left_out).append(name)
    return kept, left_out


def _check_room(directory: str, needed: int) -> None:
    facts = os.statvfs(directory)
    free = facts.f_bavail * facts.f_frsize
    if free < needed + ROOM_SPARED:
        wanted = (needed + ROOM_SPARED) >> 20
        raise Refused("no_room", "%d MiB are free in %s, %d MiB are needed" % (free >> 20, directory, wanted))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let a signal that would end this process be an error instead, so that nothing half-written stays behind."""

    def stop(number: int, _: Any) -> None:
        raise Interrupted("by signal %d; nothing was written" % number)

    numbers = (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)


@contextmanager
def _staging(destination: str) -> Iterator[str]:
    """Make a hidden directory beside the destination, and remove it unless it became the destination."""
    parent, name = os.path.split(destination)
    try:
        staging = tempfile.mkdtemp(prefix=".%s.vigil-" % name[:100], dir=parent)
    except OSError as error:
        raise Refused("directory_unusable", "%s: %s" % (parent, error.strerror)) from error
    try:
        yield staging
    except OSError as error:
        code = "no_room" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "directory_unusable"
        raise Refused(code, "%s: %s" % (destination, error.strerror or error)) from error
    except Unsound as unsound:
        raise Refused("checkpoint_unsound", unsound.detail) from unsound
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _copy_weights(source: str, destination: str, part: _Part) -> None:
    with _opened(source) as descriptor:
        before = os.fstat(descriptor)
        with _new_file(destination) as output:
            write_all(output, part.new_header)
            _copy_data(descriptor, output, part.header.data_at)
        after = os.fstat(descriptor)
        if header_of(descriptor) != part.header or before.st_mtime_ns != after.st_mtime_ns:
            raise Refused("checkpoint_unsound", "%s changed while it was copied" % source)


def _copy_file(source: str, destination: str) -> None:
    with _opened(source) as descriptor, _new_file(destination) as output:
        _copy_data(descriptor, output, 0)


def _copy_data(source: int, destination: int, offset: int) -> None:
    """Copy all from an offset on to where the destination stands; what is a hole in the source stays one."""
    while True:
        hole = _hole(source, offset)
        os.lseek(destination, hole, os.SEEK_CUR)
        offset += hole
        piece = read_at(source, PIECE, offset)
        if not piece:
            os.ftruncate(destination, os.lseek(destination, 0, os.SEEK_CUR))
            return
        write_all(destination, piece)
        offset += len(piece)


def _hole(source: int, offset: int) -> int:
    """Return how many bytes from an offset on are a hole; 0 where the file system does not tell."""
    try:
        return os.lseek(source, offset, os.SEEK_DATA) - offset
    except OSError as error:
        return max(os.fstat(source).st_size - offset, 0) if error.errno == errno.ENXIO else 0


def _write_index(source: str, staging: str, renames: Dict[str, str]) -> None:
    """Write the index anew with the new names; what it says of files and sizes stays."""
    path = os.path.join(source, INDEX_NAME)
    with _opened(path) as descriptor:
        raw = read_at(descriptor, INDEX_LIMIT + 1, 0)
    try:
        places, metadata = parse_index(raw[:INDEX_LIMIT].decode("utf-8-sig"))
    except ValueError as error:
        raise Refused("checkpoint_unsound", "%s: %s" % (path, error)) from error
    index = {"metadata": metadata, "weight_map": {renames.get(name, name): file for name, file in places.items()}}
    _write_text(os.path.join(staging, INDEX_NAME), index)


def _prove(staging: str, parts: Sequence[_Part], renames: Dict[str, str]) -> None:
    """Read the new headers back: the same tensors at the same places of the data, under their new names."""
    for part in parts:
        written = _sound_header(os.path.join(staging, part.name))
        wanted = [tensor._replace(name=renames.get(tensor.name, tensor.name)) for tensor in part.header.tensors]
        if written.tensors != wanted:
            raise Refused("checkpoint_unsound", "%s was not written as it was meant" % part.name)


def _publish(staging: str, destination: str) -> None:
    """Give the directory its name.

    Making the destination first claims the name, and fails if anything has it: a rename alone would replace an empty
    directory of somebody else.
    """
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(staging, 0o777 & ~mask)
    try:
        os.mkdir(destination)
    except FileExistsError as error:
        raise Refused("destination_exists", "%s is there already: give a new name" % destination) from error
    try:
        os.rename(staging, destination)
    except OSError:
        os.rmdir(destination)
        raise
    descriptor = os.open(os.path.dirname(destination), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_text(path: str, content: Any) -> None:
    with _new_file(path) as output:
        write_all(output, json.dumps(content, indent=1).encode("ascii"))


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = open_regular(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _new_file(path: str) -> Iterator[int]:
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        yield output
        os.fsync(output)
    finally:
        os.close(output)
