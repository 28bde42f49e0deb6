"""What an acceptance proves: that speculation works, falls below its floor, or accepts nothing.

It is judged in blocks of at least 200 verify steps and five reports, so an idle server is never judged, and one odd
report changes nothing. A block's mean accept length of 1.02 or less is a speculation that accepts nothing, whatever
the algorithm (facts: SGLang §7.2). A complaint ends with the first block that is better.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from service.clock import to_text
from service.sglang.acceptance.decode_lines import INEFFECTIVE_LENGTH
from service.sglang.acceptance.floors import Terms
from service.sglang.acceptance.reports import Decoding, Quote, Report

BLOCK_STEPS = 200
BLOCK_REPORTS = 5
IDLE_AFTER_S = 120.0
"""Without a verify step for so long, what was judged is not said of now."""


class Judgement(StrEnum):
    """What is thought of a speculation."""

    UNKNOWN = "unknown"
    """Idle, or too few verify steps: nothing is known."""
    EFFECTIVE = "effective"
    BELOW_FLOOR = "below_floor"
    INEFFECTIVE = "ineffective"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Blocks in a row that were judged alike: since when, what they add up to, and what the engine wrote."""

    judgement: Judgement
    began_at: datetime
    decoding: Decoding
    first: Quote
    last: Quote

    @property
    def measured(self) -> str:
        """Return its numbers in words; the counts are estimates."""
        return (
            f"accept length {self.decoding.accept_length:.2f} over about {self.decoding.tokens:.0f} tokens "
            f"({self.decoding.verify_steps:.0f} verify steps) since {to_text(self.began_at)}"
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """A judgement of now, in words too."""

    judgement: Judgement
    message: str


class AcceptanceJudge:
    """Folds the reports of one launch. `stretch` is the judged past, None before the first whole block."""

    def __init__(self, terms: Terms) -> None:
        self.stretch: Stretch | None = None
        self._terms = terms
        self._block: Stretch | None = None
        self._told_at: datetime | None = None

    def fold(self, report: Report, at: datetime) -> None:
        """Fold in what was told at an instant."""
        self._told_at = at
        block = self._block or Stretch(Judgement.UNKNOWN, at, Decoding(), report.quote, report.quote)
        block = replace(block, decoding=block.decoding + report.decoding, last=report.quote)
        said = block.decoding
        if said.verify_steps < BLOCK_STEPS or said.reports < BLOCK_REPORTS:
            self._block = block
            return
        self._block = None
        judged = replace(block, judgement=self._judge(said))
        self.stretch = _continued(self.stretch, judged)

    def drop_open_block(self) -> None:
        """Forget what is not judged yet: it is told again by another source."""
        self._block = None

    def standing(self, now: datetime) -> Standing:
        """Return what is thought now."""
        if self._terms.is_simulated:
            return Standing(Judgement.UNKNOWN, "SGLANG_SIMULATE_ACC_LEN is set: the engine makes its acceptance up")
        if self._told_at is None:
            return Standing(Judgement.UNKNOWN, "no verify step was seen: it is idle, or its metrics and log are off")
        if self.stretch is None:
            return Standing(Judgement.UNKNOWN, f"fewer than {BLOCK_STEPS} verify steps were seen")
        if now - self._told_at > timedelta(seconds=IDLE_AFTER_S):
            told = f"idle since {to_text(self._told_at)}; before that: {self.stretch.measured}"
            return Standing(Judgement.UNKNOWN, told)
        return Standing(self.stretch.judgement, self.stretch.measured)

    def _judge(self, said: Decoding) -> Judgement:
        length = round(said.accept_length, 3)
        if length <= INEFFECTIVE_LENGTH:
            return Judgement.INEFFECTIVE
        floor = self._terms.floor
        is_below = floor is not None and length < floor.accept_length
        return Judgement.BELOW_FLOOR if is_below else Judgement.EFFECTIVE


def _continued(before: Stretch | None, block: Stretch) -> Stretch:
    """Return the stretch that a block goes on with, or begins."""
    if before is None or before.judgement is not block.judgement:
        return block
    return replace(before, decoding=before.decoding + block.decoding, last=block.last)
