"""What the decode lines say of speculation: whether any draft token is accepted (facts: SGLang §7)."""

from dataclasses import dataclass, replace

FLOOR = b"1.02"
"""An accept length of 1.00 means that only the bonus token was produced; the rate is defined differently by version."""
_KEY = b"accept len: "


@dataclass(slots=True)
class AcceptanceWatch:
    """The run of decode lines at the floor that is going on: its first and last line, and how many they are."""

    count: int = 0
    first_line: int = 0
    first: bytes = b""
    last_line: int = 0
    last: bytes = b""
    lines: int = 0
    total: float = 0.0
    """The sum of the accept lengths of all `lines`."""

    def note(self, raw: bytes, spot: int, line: int) -> None:
        """Fold one batch line in; lines without an accept length say nothing."""
        place = raw.find(_KEY, spot)
        if place < 0:
            return
        place += len(_KEY)
        length = raw[place : place + 4]
        try:
            self.total += float(length)
        except ValueError:
            return
        self.lines += 1
        if length > FLOOR:
            self.count = 0
            return
        if self.count == 0:
            self.first_line, self.first = line, raw
        self.count += 1
        self.last_line, self.last = line, raw

    def copy(self) -> "AcceptanceWatch":
        """Return an independent watch with the same content."""
        return replace(self)
