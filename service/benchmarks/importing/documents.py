"""Bytes of unknown origin to JSON documents, with bounds on memory and time that are kept before anything is parsed."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from service.benchmarks.importing.rejection import RejectionReason, ResultFileRejected

Json = str | int | float | bool | None | Mapping[str, "Json"] | Sequence["Json"]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What a file may ask of us. With these a hostile file costs at most some 300 MiB while it is read."""

    max_bytes: int = 32 * 1024 * 1024
    max_depth: int = 40
    max_containers: int = 250_000
    max_values: int = 2_000_000
    max_documents: int = 1000


DEFAULT_LIMITS = ReadLimits()


@dataclass(slots=True)
class Upload:
    """Collects a body that arrives in pieces, and refuses it at the piece that makes it too large."""

    limits: ReadLimits = DEFAULT_LIMITS
    _content: bytearray = field(default_factory=bytearray)

    def add(self, piece: bytes) -> None:
        """Add a piece; raise `ResultFileRejected` when there are more bytes than the limit."""
        if len(self._content) + len(piece) > self.limits.max_bytes:
            self._content.clear()
            raise _too_large(self.limits)
        self._content += piece

    @property
    def content(self) -> bytes:
        """Return what was collected."""
        return bytes(self._content)


def parse_documents(content: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> tuple[Json, ...]:
    """Return the JSON document of a file, or one a line.

    NaN and Infinity, which are no JSON but which Python's tools write, become None. Size, nesting and number of values
    are bounded before the parser sees the text: it recurses and multiplies. Raises `ResultFileRejected`.
    """
    if len(content) > limits.max_bytes:
        raise _too_large(limits)
    _refuse_other_formats(content)
    shape = _measure(content, limits)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ResultFileRejected(RejectionReason.NOT_TEXT, f"byte {error.start} is not UTF-8 text") from None
    del content
    documents = tuple(_documents(text, limits, is_cut=shape.is_cut))
    if not documents:
        raise ResultFileRejected(RejectionReason.EMPTY, "the file holds only white space")
    return documents


_MAGIC = (
    (b"\x1f\x8b", RejectionReason.COMPRESSED, "gzip"),
    (b"PK\x03\x04", RejectionReason.COMPRESSED, "zip"),
    (b"(\xb5/\xfd", RejectionReason.COMPRESSED, "zstd"),
    (b"SQLite format 3\x00", RejectionReason.DATABASE, "an SQLite database"),
)
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?P<end>"?)|(?P<open>[\[{])|(?P<close>[\]}])|,', re.DOTALL)
"""A string (also one without an end, so that no byte is looked at twice), a bracket or a comma."""


@dataclass(frozen=True, slots=True)
class _Shape:
    is_cut: bool
    """A string or bracket is open at the end."""


def _too_large(limits: ReadLimits) -> ResultFileRejected:
    mib = limits.max_bytes / 1024 / 1024
    return ResultFileRejected(RejectionReason.TOO_LARGE, f"the file is larger than {mib:g} MiB")


def _refuse_other_formats(content: bytes) -> None:
    if not content:
        raise ResultFileRejected(RejectionReason.EMPTY, "the file is empty")
    for magic, reason, name in _MAGIC:
        if content.startswith(magic):
            raise ResultFileRejected(reason, f"the file is {name}, not JSON")
    start = content[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"<"):
        raise ResultFileRejected(RejectionReason.HTML, "the file is HTML or XML, not JSON")
    if b"\x00" in content[:4096]:
        raise ResultFileRejected(RejectionReason.NOT_TEXT, "the file holds NUL bytes: it is not UTF-8 text")


def _measure(content: bytes, limits: ReadLimits) -> _Shape:
    """Refuse what nests too deeply or holds too many values; tell whether the end is missing."""
    depth = containers = commas = 0
    has_open_string = False
    for token in _TOKENS.finditer(content):
        kind = token.lastgroup
        if kind == "open":
            depth += 1
            containers += 1
            if depth > limits.max_depth:
                raise ResultFileRejected(
                    RejectionReason.TOO_DEEP, f"the file nests more than {limits.max_depth} levels deep"
                )
        elif kind == "close":
            depth -= 1
        elif kind is None:
            commas += 1
        else:
            has_open_string = not token["end"]
        if containers > limits.max_containers or commas > limits.max_values:
            raise ResultFileRejected(
                RejectionReason.TOO_MANY_VALUES,
                f"the file holds more than {limits.max_containers} objects and arrays or {limits.max_values} values",
            )
    return _Shape(is_cut=has_open_string or depth > 0)


def _documents(text: str, limits: ReadLimits, *, is_cut: bool) -> Iterator[Json]:
    try:
        yield _parse(text)
    except json.JSONDecodeError as error:
        if not text.strip():
            return
        if not error.msg.startswith("Extra data"):
            raise _unreadable(error, is_cut=is_cut) from None
    else:
        return
    yield from _lines(text, limits, is_cut=is_cut)


def _lines(text: str, limits: ReadLimits, *, is_cut: bool) -> Iterator[Json]:
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > limits.max_documents:
        detail = f"the file holds {len(lines)} lines, more than {limits.max_documents} results"
        raise ResultFileRejected(RejectionReason.TOO_MANY_VALUES, detail)
    for number, line in enumerate(lines, start=1):
        try:
            yield _parse(line)
        except json.JSONDecodeError as error:
            raise _unreadable(error, is_cut=is_cut and number == len(lines), line=number) from None


def _parse(text: str) -> Json:
    try:
        document: Json = json.loads(text, parse_constant=lambda _name: None)
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        raise ResultFileRejected(RejectionReason.NOT_JSON, f"a number cannot be read: {str(error)[:200]}") from None
    return document


def _unreadable(error: json.JSONDecodeError, *, is_cut: bool, line: int | None = None) -> ResultFileRejected:
    place = f"line {line or error.lineno}, column {error.colno}"
    if is_cut:
        return ResultFileRejected(RejectionReason.TRUNCATED, f"the file ends in the middle of a value ({place})")
    return ResultFileRejected(RejectionReason.NOT_JSON, f"the file is not JSON: {error.msg} ({place})")
