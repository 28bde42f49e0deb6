"""The shape of a rule, and of what comes of it: a diagnosis with its evidence."""

import re
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from service.sglang.failures.codes import Code
from service.sglang.faults import Entry, Fault, FaultKind
from service.sglang.phases import Phase
from service.sglang.versions import Version

NEAR_FRAMES = 6


class Confidence(StrEnum):
    """How far the code may be trusted."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Role(Enum):
    """What a fault is to the failure: the first CAUSE is the root."""

    CAUSE = auto()
    COLLATERAL = auto()
    """A cause only if nothing else is found: ranks say it when another one has failed."""
    CONSEQUENCE = auto()
    """Never a cause: what the rest of the engine says and does after a failure."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of the log that proves a diagnosis: its number, as an editor counts, and its text."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why it failed or serves badly, and what mends it. `evidence` begins with the line that proves it."""

    code: Code
    summary: str
    remedy: str
    confidence: Confidence
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of a fault for a code to be its cause; the first rule that holds is taken.

    `says` is searched in each exception of the chain, `unless` must be nowhere in it. `within` and `also` are searched
    in the stack: the line that announces it, the frames and the last source line; `near` only in the innermost frames.
    `since` and `before` bound the engine's version, where it is known. `summary` and `remedy` replace the code's own
    where the phase changes them.
    """

    code: Code
    says: re.Pattern[str]
    confidence: Confidence = Confidence.HIGH
    role: Role = Role.CAUSE
    kinds: frozenset[FaultKind] = frozenset({FaultKind.EXCEPTION})
    unless: re.Pattern[str] | None = None
    within: re.Pattern[str] | None = None
    also: re.Pattern[str] | None = None
    near: re.Pattern[str] | None = None
    phases: frozenset[Phase | None] | None = None
    since: Version | None = None
    before: Version | None = None
    summary: str = ""
    remedy: str = ""
    example: str = ""

    def entry_of(self, fault: Fault, phase: Phase | None, version: Version | None) -> Entry | None:
        """Return the statement of a fault that the rule holds of, None when it does not hold."""
        if fault.kind not in self.kinds or not self._fits(phase, version):
            return None
        entry = self._spoken(fault)
        if entry is None or (self.unless is not None and self.unless.search(fault.text)):
            return None
        stack = _stack((fault.head, *fault.frames), fault.code)
        if any(pattern is not None and not pattern.search(stack) for pattern in (self.within, self.also)):
            return None
        if self.near is not None and not self.near.search(_stack(_innermost(fault), fault.code)):
            return None
        return entry

    def _spoken(self, fault: Fault) -> Entry | None:
        """Return the line that `says` matches, of the last exception of the chain that it matches."""
        for entry in reversed(fault.entries):
            if match := self.says.search(entry.text):
                return entry.narrowed(match.start())
        return None

    def _fits(self, phase: Phase | None, version: Version | None) -> bool:
        if self.phases is not None and phase not in self.phases:
            return False
        if version is None:
            return True
        return (self.since is None or self.since <= version) and (self.before is None or version < self.before)


def _innermost(fault: Fault) -> tuple[str, ...]:
    """Return the frames next to the failure: a traceback ends there, a native stack begins there."""
    return fault.frames[:NEAR_FRAMES] if fault.kind is FaultKind.NATIVE else fault.frames[-NEAR_FRAMES:]


def _stack(frames: tuple[str, ...], code: str) -> str:
    return "\n".join((*frames, f"> {code}"))
