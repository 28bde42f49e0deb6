"""What went wrong in a log, as values: tracebacks with their chain and frames, native crashes, and telling lines.

Nothing is judged here: that is the business of `failures`.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from service.sglang.phases import Phase

TEXT_LIMIT = 4_000
WHOLE_LIMIT = 600
BURST_GAP_S = 60.0
QUIET_S = 300.0
"""What was not said again for so long is over; said later, it begins anew."""


class FaultKind(Enum):
    """How a fault showed itself."""

    EXCEPTION = auto()
    NATIVE = auto()
    """The interpreter or a C++ library reported a crash, with the stack of the thread that crashed."""
    NOTICE = auto()
    """A line that stands for itself."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where the start was when a line was written."""

    line: int
    at: datetime | None
    phase: Phase | None
    was_ready: bool
    was_stopping: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One statement of a fault: what it says, with the lines of its message, and the physical line it begins on."""

    line: int
    text: str
    whole: str
    numbers: tuple[int, ...] = ()
    """The lines of the further lines of `text`."""

    def narrowed(self, position: int) -> "Entry":
        """Return the one line of the statement that holds the character at `position`."""
        index = self.text.count("\n", 0, position)
        if not 0 < index <= len(self.numbers):
            return self
        text = self.text.split("\n")[index]
        return Entry(self.numbers[index - 1], text, text)

    def last(self) -> "Entry":
        """Return the last line of the statement."""
        return self.narrowed(len(self.text))


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that went wrong; `entries` are the exceptions of a chain, the deepest first."""

    kind: FaultKind
    scene: Scene
    rank: str
    entries: tuple[Entry, ...]
    frames: tuple[str, ...] = ()
    head: str = ""
    """The line that announced it."""
    code: str = ""
    """The source line of the last frame: all that a bare AssertionError tells."""
    is_fatal: bool = False
    """A process of the engine ended by it, in the engine's own words."""
    count: int = 1
    """How often it was said since `began_at`."""
    began_at: datetime | None = None
    """The first time since the last silence of QUIET_S; None where that is not counted, or the log tells no time."""
    last_line: int = 0
    last_at: datetime | None = None
    burst: int = 1
    """How many distinct instants the longest run of repetitions since `began_at` had, each within BURST_GAP_S of the
    one before."""
    is_cut: bool = False
    """Its exception never came: another process wrote over it, or the log ends."""

    @property
    def text(self) -> str:
        """All that it says."""
        return "\n".join(entry.text for entry in self.entries)
