"""The verdict on a start: progressing, slow or suspected hung, from when something that counts last moved.

- `suspected_hung`: nothing that counts has moved for the deadline of the phase. Decisive marks re-arm it without end.
  The others do so without end while a model may be downloading; after the weights they put it off to at most so many
  deadlines after the last decisive mark as CARRIES says: a compilation ends, the talk of a frozen start does not.
- `slow`: half of the deadline has passed so, or the phase takes longer than usual.
- A connection that was lost is watched for SETTLE_S before what stood still meanwhile is held against the start: GPUs
  are asked every 15 s. What had stood still long enough before the gap needs no second look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from service.servers.progress.deadlines import DeadlineSource, Expectation, Expected
from service.servers.progress.marks import REJOIN_S, Grade, Mark, Marks, Spent, spoken
from service.servers.progress.sight import MarkSource
from service.sglang.phase_defaults import OPEN_ENDED_PHASES, PHASE_DEFAULTS
from service.sglang.phases import Phase
from service.sglang.startup_log import Progress

CARRIES: Mapping[Grade, float] = {Grade.SUPPORTING: 3.0, Grade.TALK: 1.5}
"""Up to how many deadlines after the last decisive mark the other marks put the verdict off."""
QUIET_SHARE = 0.5
"""Of the deadline: after so much of it without a mark a start is slow."""
SETTLE_S = 45.0
"""Three looks at the GPUs, twenty at the processes."""
_TICKS_PER_S = 100
"""USER_HZ, the unit of CPU time in /proc: 100 on every platform that SGLang runs on."""


class Verdict(StrEnum):
    """What a start is doing."""

    PROGRESSING = "progressing"
    SLOW = "slow"
    SUSPECTED_HUNG = "suspected_hung"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with everything it rests on, as of `judged_at`.

    `hung_at`: when it will be suspected_hung, or became so, if nothing that counts moves. `expected_s`: p50 and p90 of
    the phase, from `sample_count` earlier stays (none: the shipped table). `spent`: since the last mark that counts.
    """

    verdict: Verdict
    judged_at: datetime
    phase: Phase | None
    phase_since: datetime
    progress: Progress | None
    progress_at: datetime | None
    """When this phase, or this n of m in it, was reached."""
    last_mark: Mark | None
    last_mark_at: datetime
    """When something that counts last moved; when watching began, if nothing did."""
    still_since: Mapping[MarkSource, datetime]
    hung_at: datetime
    deadline_s: float
    deadline_source: DeadlineSource
    deadline_why: str
    expected_s: tuple[float, float]
    sample_count: int
    spent: Spent

    @property
    def message(self) -> str:
        """Return the verdict's grounds in a sentence for people."""
        parts = [f"{self.phase or 'before its first line'} for {_seconds(self.phase_since, self.judged_at):.0f} s"]
        still_s = _seconds(self.last_mark_at, self.judged_at)
        if self.last_mark is None:
            parts.append(f"no mark in {still_s:.0f} s")
        else:
            when = f"{self.last_mark_at:%H:%M:%S}, {still_s:.0f} s ago"
            parts.append(f"last mark {self.last_mark.source} {self.last_mark.value} at {when}")
        is_named = self.last_mark is not None and self.last_mark.source is MarkSource.PROGRESS
        if self.progress is not None and self.progress_at is not None and not is_named:
            parts.append(f"{spoken(self.progress)} since {self.progress_at:%H:%M:%S}")
        if self.verdict is not Verdict.PROGRESSING:
            parts += self._grounds()
        return "; ".join(parts)

    def _grounds(self) -> list[str]:
        whose = f"{self.sample_count} earlier stays" if self.sample_count else "the shipped table"
        cpu_s, read_mib = self.spent.cpu_ticks / _TICKS_PER_S, self.spent.read_bytes / 2**20
        return [
            f"since then {cpu_s:.0f} s of CPU, {read_mib:.0f} MiB read, {self.spent.log_lines:.0f} log lines",
            f"usually {self.expected_s[0]:.0f} to {self.expected_s[1]:.0f} s by {whose}",
            f"deadline {self.deadline_s:.0f} s: {self.deadline_why}",
        ]


def judge(marks: Marks, expected: Expected, now: datetime, *, heard_at: datetime | None = None) -> Judgement:
    """Return the verdict at `now`; a node that was last heard at `heard_at` is judged as of then, not later."""
    judged_at = max(min(now, heard_at or now), marks.picture.at)
    expectation = expected.of(marks.phase)
    deadline_s = _deadline_s(marks, expectation)
    armed_at = _armed_at(marks, deadline_s)
    mark, reached = marks.last_mark, marks.picture.reached
    return Judgement(
        verdict=_verdict(marks, expectation, judged_at, armed_at=armed_at, deadline_s=deadline_s),
        judged_at=judged_at,
        phase=marks.phase,
        phase_since=marks.phase_since,
        progress=marks.progress,
        progress_at=reached.at if reached else None,
        last_mark=mark,
        last_mark_at=mark.at if mark else marks.begun_at,
        still_since=marks.still_since(),
        hung_at=armed_at + timedelta(seconds=deadline_s),
        deadline_s=deadline_s,
        deadline_source=expectation.deadline_source,
        deadline_why=expectation.deadline_why,
        expected_s=(expectation.p50_s, expectation.p90_s),
        sample_count=expectation.sample_count,
        spent=marks.picture.spent,
    )


def evidence(judgement: Judgement) -> dict[str, object]:
    """Return a judgement as plain JSON values."""
    mark, spent, progress = judgement.last_mark, judgement.spent, judgement.progress
    return {
        "verdict": judgement.verdict,
        "judged_at": judgement.judged_at.isoformat(),
        "phase": judgement.phase,
        "phase_since": judgement.phase_since.isoformat(),
        "progress": {"done": progress.done, "total": progress.total, "unit": progress.unit} if progress else None,
        "last_mark": {"source": mark.source, "value": mark.value, "gain": mark.gain} if mark else None,
        "last_mark_at": judgement.last_mark_at.isoformat(),
        "still_since": {source: at.isoformat() for source, at in judgement.still_since.items()},
        "hung_at": judgement.hung_at.isoformat(),
        "deadline_s": judgement.deadline_s,
        "deadline_source": judgement.deadline_source,
        "deadline_why": judgement.deadline_why,
        "expected_s": {"p50": judgement.expected_s[0], "p90": judgement.expected_s[1]},
        "sample_count": judgement.sample_count,
        "since_last_mark": {
            "cpu_s": spent.cpu_ticks / _TICKS_PER_S,
            "read_bytes": spent.read_bytes,
            "log_lines": spent.log_lines,
        },
        "message": judgement.message,
    }


def _deadline_s(marks: Marks, expectation: Expectation) -> float:
    phase = marks.phase or Phase.PARSING_ARGUMENTS
    counts_units = PHASE_DEFAULTS[phase].first_unit_hang_s is not None
    is_before_first = marks.progress is None or marks.progress.done == 0
    return expectation.first_unit_deadline_s if counts_units and is_before_first else expectation.deadline_s


def _armed_at(marks: Marks, deadline_s: float) -> datetime:
    """Return from when the deadline counts."""
    last = marks.picture.last
    armed_at = decisive_at = max(last[Grade.DECISIVE].at, marks.begun_at) if Grade.DECISIVE in last else marks.begun_at
    is_open_ended = marks.phase is None or marks.phase in OPEN_ENDED_PHASES
    for grade, deadlines in CARRIES.items():
        if grade in last:
            latest = decisive_at + timedelta(seconds=(deadlines - 1) * deadline_s)
            armed_at = max(armed_at, last[grade].at if is_open_ended else min(last[grade].at, latest))
    return armed_at


def _verdict(
    marks: Marks, expectation: Expectation, judged_at: datetime, *, armed_at: datetime, deadline_s: float
) -> Verdict:
    quiet_s = _seconds(armed_at, judged_at)
    was_hung = marks.lapsed_at is not None and _seconds(armed_at, marks.lapsed_at) >= deadline_s
    settle_s = min(deadline_s, SETTLE_S) + REJOIN_S if marks.lapsed_at is not None else 0.0
    has_settled = _seconds(marks.watched_from, judged_at) >= settle_s
    if quiet_s >= deadline_s and (has_settled or was_hung):
        return Verdict.SUSPECTED_HUNG
    in_phase_s = _seconds(marks.phase_since, judged_at)
    if quiet_s >= deadline_s * QUIET_SHARE or in_phase_s > expectation.slow_after_s:
        return Verdict.SLOW
    return Verdict.PROGRESSING


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()
