"""How the bytes of a log become lines, and a line its parts: instants, ranks, prefixes of many kinds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

LINE_LIMIT_BYTES = 32_768
"""A longer line is known by its first bytes: some servers print whole requests."""
_PREFIX_DEPTH = 6

_ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][0-9A-B]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)")
_UNPRINTABLE = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]+")
_INSTANT = re.compile(
    rb"(20\d\d)-([01]\d)-([0-3]\d)[T ]([0-2]\d):([0-5]\d):([0-6]\d)(?:[.,](\d{1,6})\d*)?(Z|[+-]\d\d:?\d\d)?"
)
_INSTANT_WITHIN_BYTES = 200
_RANK = r"(?:[ ][A-Z][A-Z_]*[\dO]+)"
_STAMP = r"\[20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?"
_SEGMENT = re.compile(rf"(?<!^)(?={_STAMP}{_RANK}*\])|(?<=it/s\])(?=\S)|(?<=s/it\])(?=\S)")
_PREFIX = re.compile(
    rf"""
    {_STAMP}(?P<rank>{_RANK}*)\]\s?(?:(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\s[\w.]+\.py:\d+:\s)?
    | \[gpu(?:_id)?=\s?(?P<gpu>\d+)\]\s?
    | \[(?:\d\d-\d\d\s)?\d\d:\d\d:\d\d(?P<short>{_RANK}*)\]\s?
    | {_STAMP}(?:Z|[+-]\d\d:?\d\d)\]\s?
    | [\w.-]{{1,120}}\s>>\s
    | (?P<level>\[(?:INFO|DEBUG|WARNING|ERROR|CRITICAL)\]\s)
    | \[(?:[a-z_][\w.]*|__main__)\]\s
    | \[pod/[\w./-]+\]\s
    | \[rank(?P<torch>\d+)\]:(?=\[[EWIF])
    | \[rank\d+\]:\s
    | \[\d+,\d+\]<std(?:out|err)>:\s?
    | \([\w.]+\s(?:pid=|\d+)[^)]{{0,80}}\)\s
    | 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\s(?:std(?:out|err)\s[FP]\s)?
      (?:[\w.-]+\s[\w./@-]+\[\d+\]:\s)?
    | 20\d\d-\d\d-\d\d\s\d\d:\d\d:\d\d(?:[.,]\d+)?\s(?:-\s[\w.]+\s-\s)?
      (?:[\[|(-]?\s?(?:INFO|WARN(?:ING)?|ERROR|DEBUG)[\]|):]?\s(?:-\s)?)?
    | [A-Z][a-z]{{2}}\s[\s\d]\d\s\d\d:\d\d:\d\d\s[\w.-]+\s[\w./@-]+(?:\[\d+\])?:\s
    | (?:INFO|WARN(?:ING)?|ERROR|DEBUG|CRITICAL)\s\d\d-\d\d\s\d\d:\d\d:\d\d\s\[?[\w./]+\.(?:py|cpp):\d+\]\s
    | (?:INFO|WARNING|ERROR|DEBUG|CRITICAL):[\w.]+:
    | [\w.-]+\s{{1,40}}\|(?:\s|$)
    | \d{{1,7}}[:\-](?={_STAMP}|\s\s?\S)
    | \^M
    """,
    re.VERBOSE,
)


_REPEATED = re.compile(r" ?\[repeated \d+x across cluster\]$")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One thing that was logged: its text without prefixes, and the rank it came from ("" for the parent).

    `is_stamped`: the stamp of the engine stood right before it: it begins something new. `whole` is the physical line.
    """

    text: str
    whole: str = ""
    rank: str = ""
    is_stamped: bool = False


class LineSplitter:
    """Cuts a stream into lines at newlines and carriage returns; `number` counts newlines, as an editor does.

    Whatever the pieces, the same lines come out. A line beyond LINE_LIMIT_BYTES keeps its first bytes, so a stream
    without any line end takes constant memory.
    """

    __slots__ = ("_is_number_due", "number", "pending")

    def __init__(self) -> None:
        self.number = 1
        """The number of the line that `pending` belongs to."""
        self.pending = b""
        """What came after the last line end."""

    def lines(self, data: bytes) -> Iterator[tuple[int, list[bytes]]]:
        """Yield (number of the first, lines) in runs; the lines of a run are numbered one by one.

        NULs are dropped at once: a machine that lost power leaves them, and UTF-16 has one in every other place.
        """
        *whole, rest = data.replace(b"\0", b"").split(b"\n")
        if whole:
            whole[0] = self.pending + whole[0]
            first, self.number = self.number, self.number + len(whole)
            self.pending = b""
            if b"\r" in data or b"\r" in whole[0]:
                yield from ((number, parts) for number, line in enumerate(whole, first) for parts in _redrawn(line))
            else:
                yield first, _clipped(whole) if len(data) + len(whole[0]) > LINE_LIMIT_BYTES else whole
        *drawn, last = rest.split(b"\r")
        if drawn:
            drawn[0] = self.pending + drawn[0]
            self.pending = b""
            yield from ((self.number, parts) for line in drawn for parts in _redrawn(line))
        self.pending = (self.pending + last)[:LINE_LIMIT_BYTES]


def _redrawn(line: bytes) -> Iterator[list[bytes]]:
    """Yield what a line was redrawn as, each by itself: they have one number."""
    return (_clipped([part]) for part in line.split(b"\r") if part)


def _clipped(lines: list[bytes]) -> list[bytes]:
    return [line[:LINE_LIMIT_BYTES] for line in lines]


def plain(raw: bytes) -> bytes:
    """Return a line without colours and control characters."""
    if b"\x1b" in raw:
        raw = _ANSI.sub(b"", raw)
    return _UNPRINTABLE.sub(b"", raw)


def segments(text: str) -> list[str]:
    """Return the things that share one physical line: a bar, then what another process wrote behind it."""
    return [part for part in _SEGMENT.split(text) if part]


def peel(text: str, whole: str) -> LogLine:
    """Return a line without the prefixes of engine, harness, container or journal, and the rank they named."""
    rank = ""
    is_stamped = False
    position = 0
    for _ in range(_PREFIX_DEPTH):
        match = _PREFIX.match(text, position)
        if match is None or match.end() == position:
            break
        position = match.end()
        is_stamp = any(match[name] is not None for name in ("rank", "short", "torch"))
        is_stamped = is_stamp or (is_stamped and match["level"] is not None)
        named = match["rank"] or match["short"] or match["gpu"] or match["torch"]
        if named:
            rank = named.strip()
    said = _REPEATED.sub("", text[position:]) if text.endswith("across cluster]") else text[position:]
    return LogLine(said, whole, rank, is_stamped)


def instant_of(raw: bytes, *, utc_offset_s: int) -> datetime | None:
    """Return the instant that a line carries near its beginning; one without a zone is local to the node."""
    match = _INSTANT.search(raw, 0, _INSTANT_WITHIN_BYTES)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        found = datetime(  # noqa: DTZ001 - the zone is set below
            int(year),
            int(month),
            int(day),
            int(hour),
            int(minute),
            min(59, int(second)),
            int((fraction or b"0").ljust(6, b"0")),
        )
    except ValueError:
        return None
    return found.replace(tzinfo=_zone(zone, utc_offset_s)).astimezone(UTC)


def _zone(text: bytes | None, utc_offset_s: int) -> timezone:
    if text is None:
        return timezone(timedelta(seconds=utc_offset_s))
    if text == b"Z":
        return UTC
    sign = -1 if text[:1] == b"-" else 1
    return timezone(sign * timedelta(hours=min(23, int(text[1:3])), minutes=min(59, int(text[-2:]))))
