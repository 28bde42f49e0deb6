"""Whole logs in one piece: exports that list the newest line first are turned round before they are read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from service.sglang.startup_log import StartupLog

SAMPLE_BYTES = 262_144
MIN_STEPS = 3
MAJORITY = 4
_STAMP = re.compile(rb"^.{0,120}?(20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d)")
_CLOCK = re.compile(rb"^.{0,60}?\b(\d\d:\d\d:\d\d)\b")
_FRAME = re.compile(rb'^.{0,120}?\s{2,}File "')
_HEADER = b"Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class CompleteLog:
    """A log that was read to its end. `numbers`: where each line stands in the file, when it was turned round."""

    log: StartupLog
    numbers: Sequence[int] = ()

    def line_in_file(self, line: int) -> int:
        """Return the number that a line of the reading has in the file."""
        return self.numbers[line - 1] if 0 < line <= len(self.numbers) else line


def read_in_order(data: bytes) -> CompleteLog:
    """Return a complete log as read from its oldest line on, whichever end the file begins with."""
    if not is_newest_first(data):
        return CompleteLog(StartupLog().feed(data))
    lines = data.split(b"\n")
    order = _oldest_first(lines)
    log = StartupLog().feed(b"\n".join(lines[index] for index in order))
    return CompleteLog(log, [index + 1 for index in order])


def is_newest_first(data: bytes) -> bool:
    """Return whether the stamps of a log run backwards, by far more often than forwards.

    Where they hardly run at all, tracebacks that end in their heading tell.
    """
    lines = data[:SAMPLE_BYTES].split(b"\n")
    stamps: list[bytes] = [match[1] for line in lines if (match := _STAMP.match(line))]
    if not stamps:
        stamps = [match[1] for line in lines if (match := _CLOCK.match(line))]
    steps = [(before, after) for before, after in pairwise(stamps) if before != after]
    backward = sum(before > after for before, after in steps)
    if backward >= MIN_STEPS:
        return backward > MAJORITY * (len(steps) - backward)
    return backward == len(steps) and _are_tracebacks_turned(lines)


def _oldest_first(lines: list[bytes]) -> list[int]:
    """Return the indexes of newest-first lines from the oldest on.

    Lines without a stamp stay with the record they belong to. Whether they follow or precede its first line is told by
    the frames of a traceback.
    """
    if _is_turned_within_records(lines):
        return list(range(len(lines) - 1, -1, -1))
    records: list[list[int]] = [[]]
    for index, line in enumerate(lines):
        if _STAMP.match(line):
            records.append([])
        records[-1].append(index)
    return [index for record in reversed(records) for index in record]


def _is_turned_within_records(lines: list[bytes]) -> bool:
    if any(_HEADER in line for line in lines):
        return _are_tracebacks_turned(lines)
    return all(_STAMP.match(line) for line in lines if line.strip())


def _are_tracebacks_turned(lines: Sequence[bytes]) -> bool:
    """Return whether most headings of tracebacks come behind their frames."""
    headings = [index for index, line in enumerate(lines) if _HEADER in line]
    before = sum(index > 0 and _FRAME.match(lines[index - 1]) is not None for index in headings)
    behind = sum(_FRAME.match(line) is not None for index in headings for line in lines[index + 1 : index + 2])
    return before > behind
