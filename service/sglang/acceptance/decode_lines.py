"""What the decode lines of a log say of speculation (facts: SGLang §7.1).

A line comes every --decode-log-interval decode iterations (40) and tells of them; each iteration is one verify step of
every request in the batch. How many those were is known for the moment of the line only: the count of verify steps is
an estimate, exact while the batch stays the same.
"""

import re
from dataclasses import dataclass
from math import isfinite

from service.sglang.acceptance.reports import Decoding, Quote

DECODE_LOG_INTERVAL = 40
"""The default of every version that was read."""
INEFFECTIVE_LENGTH = 1.02
"""An accept length of 1.00 means that only the bonus token was produced; the rate is defined differently by version."""
QUOTE_LIMIT = 500
_INTERVAL = re.compile(r"\bdecode_log_interval'?[=:] ?(\d{1,9})\b")
_LENGTH, _RATE, _RUNNING = b"accept len: ", b"accept rate: ", b"#running-req: "


@dataclass(slots=True)
class AcceptanceWatch:
    """All decode lines with an accept length, and the run of those at the floor that is going on."""

    decode_log_interval: int = DECODE_LOG_INTERVAL
    lines: int = 0
    verify_steps: float = 0.0
    tokens: float = 0.0
    rated_steps: float = 0.0
    rate_sum: float = 0.0
    running_requests: int = 0
    """Of the last line."""
    length_sum: float = 0.0
    last_line: int = 0
    last: bytes = b""
    run_lines: int = 0
    """Lines at the floor in a row up to the last one."""
    run_steps: float = 0.0
    run_tokens: float = 0.0
    run_first_line: int = 0
    run_first: bytes = b""

    def note_arguments(self, text: str) -> None:
        """Take over how often decode lines come, from the arguments that the engine prints when it starts."""
        found = _INTERVAL.search(text)
        self.decode_log_interval = max(1, int(found[1])) if found else self.decode_log_interval

    def note(self, raw: bytes, spot: int, line: int) -> None:
        """Fold one batch line in, whose text begins before `spot`; lines without an accept length say nothing."""
        length = _number(raw, _LENGTH, spot)
        if length is None:
            return
        rate = _number(raw, _RATE, spot)
        self.running_requests = int(_number(raw, _RUNNING, spot) or 0)
        steps = float(self.decode_log_interval * max(1, self.running_requests))
        self.lines += 1
        self.length_sum += length
        self.verify_steps += steps
        self.tokens += steps * length
        if rate is not None:
            self.rated_steps += steps
            self.rate_sum += steps * rate
        self.last_line, self.last = line, raw
        if length > INEFFECTIVE_LENGTH:
            self.run_lines, self.run_steps, self.run_tokens = 0, 0.0, 0.0
            return
        if self.run_lines == 0:
            self.run_first_line, self.run_first = line, raw
        self.run_lines += 1
        self.run_steps += steps
        self.run_tokens += steps * length

    @property
    def total(self) -> Decoding:
        """Return the sum of all that was told; it only grows."""
        return Decoding(self.lines, self.verify_steps, self.tokens, self.rated_steps, self.rate_sum)

    @property
    def latest(self) -> Quote:
        """Return the last line that told something."""
        return quoted(self.last_line, self.last)


def quoted(line: int, raw: bytes) -> Quote:
    """Return a line of the log as evidence."""
    return Quote(line, raw[:QUOTE_LIMIT].decode("utf-8", "replace").rstrip())


def _number(raw: bytes, key: bytes, begin: int) -> float | None:
    """Return the number behind a key; None without the key or a number."""
    place = raw.find(key, begin)
    if place < 0:
        return None
    place += len(key)
    end = raw.find(b",", place, place + 12)
    try:
        value = float(raw[place : end if end > 0 else place + 12])
    except ValueError:
        return None
    return value if isfinite(value) else None
