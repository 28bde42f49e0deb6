"""How long a start will still take, from what is left of earlier starts at the same place.

Each earlier start that became ready says how long it took from here on; the answer is the spread of what they say, so
phases that are long together stay together. Within a phase the n of m of this start refines it, the more the further
it is. Without an earlier start there is no answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from service.servers.progress.samples import History, HistoryLevel, PhaseSample, complete_starts, quantile
from service.sglang.phases import Phase
from service.sglang.startup_log import LogReading, Progress

RECENT_STARTS = 20
FEW_STARTS = 5
FEW_SPREAD = 1.25
"""So few starts have not shown their spread: p90 lies at least this much above p50."""
OVERDUE_SHARE = 0.5
"""A phase that took longer than ever may take half as long again: nothing better is known of it."""


@dataclass(frozen=True, slots=True)
class PhaseEta:
    """What is left of one phase, or all of it when it is still to come."""

    phase: Phase
    remaining_p50_s: float
    remaining_p90_s: float


@dataclass(frozen=True, slots=True)
class Eta:
    """The seconds until ready. `is_overdue`: the present phase took longer than in any of the earlier starts."""

    remaining_p50_s: float
    remaining_p90_s: float
    phases: tuple[PhaseEta, ...]
    start_count: int
    level: HistoryLevel
    is_overdue: bool


@dataclass(frozen=True, slots=True)
class _Here:
    """The place of this start."""

    stays: tuple[Phase, ...]
    elapsed_s: float
    progress: Progress | None


def eta(reading: LogReading, history: History, now: datetime, *, phase_since: datetime | None = None) -> Eta | None:
    """Return the time that is left, None without an earlier start to tell or when the start is over.

    `phase_since`: when the phase was seen to begin, by the clock of `now`; the log's own stamps are by the node's.
    """
    if reading.is_ready or reading.has_failed:
        return None
    here = _here(reading, now, phase_since)
    for level, samples in history.levels():
        starts = complete_starts(samples)[:RECENT_STARTS]
        if starts:
            return _eta(here, starts, level)
    return None


def _here(reading: LogReading, now: datetime, phase_since: datetime | None) -> _Here:
    stays = tuple(span.phase for span in reading.phases)
    begun_at = (phase_since or reading.phases[-1].started_at) if reading.phases else None
    elapsed_s = max(0.0, (now - begun_at).total_seconds()) if begun_at else 0.0
    return _Here(stays, elapsed_s, reading.progress)


def _eta(here: _Here, starts: Sequence[tuple[PhaseSample, ...]], level: HistoryLevel) -> Eta:
    alike = [rest for start in starts if (rest := _left_of(start, here)) is not None]
    left = alike or [_left_when_overdue(start, here) for start in starts]
    p50_s, p90_s = _spread([sum(seconds for _, seconds in rest) for rest in left])
    return Eta(p50_s, p90_s, _by_phase(left), len(starts), level, is_overdue=not alike)


def _left_of(start: tuple[PhaseSample, ...], here: _Here) -> list[tuple[Phase, float]] | None:
    """Return what was left of an earlier start at this place, stay by stay; None if it was further by now."""
    present, rest = _matched(start, here)
    if present is None:
        return rest
    left_s = _left_of_stay(present, here)
    return [(present.phase, left_s), *rest] if left_s is not None else None


def _left_when_overdue(start: tuple[PhaseSample, ...], here: _Here) -> list[tuple[Phase, float]]:
    present, rest = _matched(start, here)
    return [(present.phase, here.elapsed_s * OVERDUE_SHARE), *rest] if present else rest


def _matched(start: tuple[PhaseSample, ...], here: _Here) -> tuple[PhaseSample | None, list[tuple[Phase, float]]]:
    """Return the stay of an earlier start that the present one corresponds to, and what came after it.

    Phases that the earlier start did not have, such as a compilation, are passed over.
    """
    position, present = 0, None
    for phase in here.stays:
        found = next((index for index in range(position, len(start)) if start[index].phase is phase), None)
        present = found
        if found is not None:
            position = found + 1
    rest = [(stay.phase, stay.duration_s) for stay in start[position:]]
    return (None if present is None else start[present]), rest


def _left_of_stay(stay: PhaseSample, here: _Here) -> float | None:
    """Return what is left of the present stay, if it goes as an earlier one and as it has gone so far."""
    share = _share_done(here.progress)
    is_same_count = here.progress is not None and stay.total == here.progress.total
    if share is None or not is_same_count:
        left_s = stay.duration_s - here.elapsed_s
        return left_s if left_s >= 0 else None
    as_before_s = stay.duration_s * (1 - share)
    as_so_far_s = here.elapsed_s * (1 - share) / share
    return share * as_so_far_s + (1 - share) * as_before_s


def _share_done(progress: Progress | None) -> float | None:
    if progress is None or progress.total <= 0 or progress.done <= 0:
        return None
    return min(1.0, progress.done / progress.total)


def _by_phase(left: Sequence[list[tuple[Phase, float]]]) -> tuple[PhaseEta, ...]:
    """Return the spread of each phase over the starts that have it ahead; one that lacks it counts as none."""
    order = dict.fromkeys(phase for rest in left for phase, _ in rest)
    found = []
    for phase in order:
        seconds = [sum(each for mine, each in rest if mine is phase) for rest in left]
        found.append(PhaseEta(phase, *_spread(seconds)))
    return tuple(found)


def _spread(seconds: Sequence[float]) -> tuple[float, float]:
    p50_s, p90_s = quantile(seconds, 0.5), quantile(seconds, 0.9)
    return p50_s, max(p90_s, p50_s * FEW_SPREAD) if len(seconds) < FEW_STARTS else p90_s
