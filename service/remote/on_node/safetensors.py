"""The header of a safetensors file, read without trusting it: lengths, offsets and shapes may be lies.

Format and limits as in the reference reader: 8 bytes of header length, that much JSON, then the data, which the tensors
must cover exactly once (facts: drafts 1.1). Memory is bounded: at most HEADER_LIMIT bytes are read, and each entry is
parsed alone, from at most ENTRY_LIMIT characters.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .bounded_json import Garbled, Reader

HEADER_LIMIT = 16 << 20
"""Our own limit; a target of 9 * 10^4 tensors has about 75 KB a shard (facts: drafts 1.2)."""
ENTRY_LIMIT = 4096
METADATA_LIMIT = 1 << 20
NAME_LIMIT = 512
TENSOR_LIMIT = 200000
DIMENSION_LIMIT = 16
LENGTH_BYTES = 8
LFS_START = b"version https://git-lfs"
BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Every dtype name there is, with the size of one value."""
METADATA = "__metadata__"


class Unsound(Exception):
    """The file is none that a loader could read; `problem` is one of the core's FileProblem values."""

    def __init__(self, problem: str, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem
        self.detail = detail


class Tensor(NamedTuple):
    """One entry of a header; `begin` and `end` count from the end of the header."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """A header that was found true: its tensors in the order of their data, and where the data begins."""

    tensors: List[Tensor]
    metadata: Dict[str, str]
    data_at: int
    size: int
    duplicates: List[str]
    """Names that come twice; the last entry counts, as in every JSON reader."""


def read_header(path: str) -> Header:
    """Return a file's header; Unsound when it cannot be read or does not describe the file exactly."""
    descriptor = open_regular(path)
    try:
        return header_of(descriptor)
    finally:
        os.close(descriptor)


def open_regular(path: str) -> int:
    """Return a descriptor of a regular file, through any links; never waits for a pipe or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if os.path.islink(path) and not os.path.exists(path):
            raise Unsound("dangling_link", "it is a link to %a, which is not there" % os.readlink(path)) from error
        raise Unsound("unreadable", error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unsound("unreadable", "it is not a regular file")
    return descriptor


def header_of(descriptor: int) -> Header:
    """Return the header of an open file; Unsound when it does not describe the file exactly."""
    size = os.fstat(descriptor).st_size
    start = read_at(descriptor, len(LFS_START), 0)
    if start == LFS_START:
        raise Unsound("lfs_pointer", "it is a Git LFS pointer: the weights themselves were not downloaded")
    if len(start) < LENGTH_BYTES:
        raise Unsound("too_small", "it has %d bytes" % size)
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if length > size - LENGTH_BYTES:
        raise Unsound("header_cut_off", "it says that its header has %d bytes, the file has %d" % (length, size))
    if length > HEADER_LIMIT:
        raise Unsound("header_too_large", "it says that its header has %d bytes" % length)
    raw = read_at(descriptor, length, LENGTH_BYTES)
    if len(raw) < length:
        raise Unsound("unreadable", "its header could not be read whole")
    tensors, metadata, duplicates = _parse(raw)
    data_at = LENGTH_BYTES + length
    _check_cover(tensors, size - data_at)
    return Header(tensors, metadata, data_at, size, duplicates)


def read_at(descriptor: int, length: int, offset: int) -> bytes:
    """Return so many bytes from an offset on, fewer only at the end of the file."""
    parts = []
    while length > 0:
        try:
            part = os.pread(descriptor, length, offset)
        except OSError as error:
            raise Unsound("unreadable", error.strerror or str(error)) from error
        if not part:
            break
        parts.append(part)
        length -= len(part)
        offset += len(part)
    return b"".join(parts)


def fits_a_name(name: str) -> bool:
    """Tell whether a text can be a tensor's name: printable, and not longer than any real one."""
    return 0 < len(name) <= NAME_LIMIT and name.isprintable() and name != METADATA


def header_bytes(tensors: Sequence[Tensor], metadata: Dict[str, str]) -> bytes:
    """Return the length and the JSON that describe these tensors, padded so that the data begins at a multiple of 8."""
    content: Dict[str, Any] = {METADATA: metadata} if metadata else {}
    for tensor in tensors:
        offsets = [tensor.begin, tensor.end]
        content[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": offsets}
    text = json.dumps(content, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % LENGTH_BYTES)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _parse(raw: bytes) -> Tuple[List[Tensor], Dict[str, str], List[str]]:
    found: Dict[str, Tensor] = {}
    metadata: Dict[str, str] = {}
    duplicates: List[str] = []
    try:
        reader = Reader(raw.decode("utf-8"))
        for name in reader.members():
            if name == METADATA:
                metadata = _metadata(reader.value(METADATA_LIMIT))
                continue
            if not fits_a_name(name):
                raise Unsound("name_invalid", "a name is empty, too long or not printable: %s" % ascii(name[:80]))
            if name in found:
                duplicates.append(name)
            found[name] = _tensor(name, reader.value(ENTRY_LIMIT))
            if len(found) > TENSOR_LIMIT:
                raise Unsound("too_many_tensors", "it names more than %d tensors" % TENSOR_LIMIT)
        reader.end()
    except ValueError as error:  # a decoding error is one, and Garbled
        what = str(error) if isinstance(error, Garbled) else "it is not UTF-8"
        raise Unsound("header_not_json", "its header cannot be read: %s" % what) from error
    return sorted(found.values(), key=lambda tensor: (tensor.begin, tensor.end)), metadata, duplicates


def _metadata(value: Any) -> Dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise Unsound("entry_invalid", "__metadata__ is not an object of texts")
    return value


def _tensor(name: str, value: Any) -> Tensor:
    entry = value if isinstance(value, dict) else {}
    dtype, shape, offsets = entry.get("dtype"), _whole(entry.get("shape")), _whole(entry.get("data_offsets"))
    if not isinstance(dtype, str) or shape is None or len(shape) > DIMENSION_LIMIT:
        raise Unsound("entry_invalid", "%s has no dtype and shape that make sense" % name)
    if dtype not in BITS:
        raise Unsound("dtype_unknown", "the dtype of %s is %s" % (name, ascii(dtype[:40])))
    if offsets is None or len(offsets) != 2:  # noqa: PLR2004  # begin and end
        raise Unsound("offset_invalid", "the data_offsets of %s are not two whole numbers" % name)
    begin, end = offsets
    bits = BITS[dtype]
    for extent in shape:
        bits *= extent
    if bits % 8 or end - begin != bits // 8:
        what = "%s %s are %d bits, its data_offsets span %d bytes" % (dtype, shape, bits, end - begin)
        raise Unsound("size_mismatch", "%s: %s" % (name, what[:200]))
    return Tensor(name, dtype, tuple(shape), begin, end)


def _whole(values: Any) -> Optional[List[int]]:
    """Return the values if they are a list of whole numbers that a file offset could be; True is none."""
    if isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 63 for value in values):
        return values
    return None


def _check_cover(tensors: Sequence[Tensor], data_size: int) -> None:
    """Every byte of the data belongs to exactly one tensor: it is how a copy that was cut off shows."""
    reached = 0
    for tensor in tensors:
        if tensor.begin != reached:
            how = "overlaps the one before" if tensor.begin < reached else "leaves a hole before it"
            raise Unsound("offset_invalid", "%s %s: %d instead of %d" % (tensor.name, how, tensor.begin, reached))
        reached = tensor.end
    if reached > data_size:
        raise Unsound("file_cut_off", "its tensors need %d bytes, %d are there" % (reached, data_size))
    if reached < data_size:
        raise Unsound("trailing_bytes", "%d bytes follow its last tensor" % (data_size - reached))
