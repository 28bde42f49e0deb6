"""Whether a start took as long as the earlier ones of its profile on its node, and which phases made the difference.

Robust by median and median absolute deviation: one strange start among the earlier ones changes neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from service.servers.progress.samples import History, PhaseSample, complete_starts, quantile, seconds_by_phase
from service.sglang.phases import Phase

ENOUGH_STARTS = 3
RECENT_STARTS = 10
DEVIATIONS = 3.0
SIGMA_PER_MAD = 1.4826
"""The median absolute deviation of a normal distribution, times this, is its standard deviation."""
LEAST_SHARE = 0.2
LEAST_S = 3.0
"""Less of a difference is usual, however even the earlier starts were."""
CACHED_DIFFERENCE = 0.2
"""So much of the model's files more or less in the page cache explains a phase that reads them."""
_READING_PHASES = frozenset({Phase.LOADING_WEIGHTS, Phase.LOADING_DRAFT_WEIGHTS})


class StartVerdict(StrEnum):
    """How the time to ready compares."""

    USUAL = "usual"
    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True, slots=True)
class PhaseRatio:
    """One phase against its median; `ratio` is None when it usually takes no time, or did not occur before."""

    phase: Phase
    duration_s: float
    median_s: float
    ratio: float | None
    verdict: StartVerdict


@dataclass(frozen=True, slots=True)
class StartComparison:
    """One start against the earlier ones; `why` names what made the difference, the largest first."""

    verdict: StartVerdict
    duration_s: float
    median_s: float
    start_count: int
    phases: tuple[PhaseRatio, ...]
    why: tuple[str, ...]


def compare_start(
    phases: Sequence[PhaseSample],
    history: History,
    *,
    cached_share: float | None = None,
    earlier_cached_shares: Sequence[float | None] = (),
) -> StartComparison | None:
    """Return how a finished start compares; None with fewer than three earlier ones that became ready.

    `cached_share`: how much of the model's files was in the page cache before it, None where that is not known.
    """
    launch_ids = {stay.launch_id for stay in phases}
    earlier = [
        seconds_by_phase(start)
        for start in complete_starts(history.profile_on_node)
        if start and start[0].launch_id not in launch_ids
    ][:RECENT_STARTS]
    if len(earlier) < ENOUGH_STARTS or not phases:
        return None
    mine = seconds_by_phase(stay for stay in phases if stay.phase is not Phase.SERVING)
    names = dict.fromkeys([*mine, *(phase for start in earlier for phase in start)])
    ratios = tuple(_ratio(phase, mine.get(phase, 0.0), [start.get(phase, 0.0) for start in earlier]) for phase in names)
    totals = [sum(start.values()) for start in earlier]
    duration_s = sum(mine.values())
    verdict = _compared(duration_s, totals)
    why = _why(verdict, ratios, cached_share, _median_of_known(earlier_cached_shares))
    return StartComparison(verdict, duration_s, quantile(totals, 0.5), len(earlier), ratios, why)


def _compared(value: float, earlier: Sequence[float]) -> StartVerdict:
    median = quantile(earlier, 0.5)
    deviation = quantile([abs(each - median) for each in earlier], 0.5)
    margin = max(DEVIATIONS * SIGMA_PER_MAD * deviation, LEAST_SHARE * median, LEAST_S)
    if value > median + margin:
        return StartVerdict.SLOWER
    return StartVerdict.FASTER if value < median - margin else StartVerdict.USUAL


def _ratio(phase: Phase, duration_s: float, earlier: Sequence[float]) -> PhaseRatio:
    median_s = quantile(earlier, 0.5)
    ratio = duration_s / median_s if median_s > 0 else None
    return PhaseRatio(phase, duration_s, median_s, ratio, _compared(duration_s, earlier))


def _why(
    verdict: StartVerdict, ratios: Sequence[PhaseRatio], cached_share: float | None, usual_share: float | None
) -> tuple[str, ...]:
    """Return the phases that differ in the direction of the whole, and the page cache where it fits."""
    if verdict is StartVerdict.USUAL:
        return ()
    guilty = sorted(
        (each for each in ratios if each.verdict is verdict),
        key=lambda each: abs(each.duration_s - each.median_s),
        reverse=True,
    )
    reasons = [f"{each.phase} took {each.duration_s:.0f} s, usually {each.median_s:.0f} s" for each in guilty]
    reads_differ = any(each.phase in _READING_PHASES for each in guilty)
    if reads_differ and cached_share is not None and _explains(verdict, cached_share, usual_share):
        usual = f"usually {usual_share:.0%}" if usual_share is not None else "unknown for the earlier ones"
        reasons.append(f"{cached_share:.0%} of the model's files were in the page cache before it, {usual}")
    return tuple(reasons)


def _explains(verdict: StartVerdict, cached_share: float, usual_share: float | None) -> bool:
    """Return whether the page cache was filled, or empty, out of the ordinary in the direction of the verdict."""
    if usual_share is None:
        usual_share = 0.5
    difference = usual_share - cached_share if verdict is StartVerdict.SLOWER else cached_share - usual_share
    return difference >= CACHED_DIFFERENCE


def _median_of_known(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return quantile(known, 0.5) if known else None
