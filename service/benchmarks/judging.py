"""The judgement of one metric over the runs of two sides: ratio, interval, verdict (facts: benchmarks §6)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from service.benchmarks.finite import divided
from service.benchmarks.metrics import Direction, Metric
from service.benchmarks.noise import coefficient_of_variation, known_noise_ratio, mann_whitney_p, welch_ratio
from service.benchmarks.results import Result

THRESHOLD = 0.02
"""A smaller change does not matter, however certain it is."""
SIGNIFICANCE = 0.05
DEFAULT_REPEATS = 5
MAX_MORE_REPEATS = 200


class Verdict(StrEnum):
    """What a comparison comes to."""

    IMPROVED = "improved"
    REGRESSED = "regressed"
    EQUIVALENT = "equivalent"
    """The whole interval lies within the threshold."""
    INCONCLUSIVE = "inconclusive"
    """Neither a change nor its absence is shown; `more_repeats` says how many runs a side would do."""
    NOT_COMPARABLE = "not_comparable"


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of both sides. `ratio` is candidate over baseline, of the geometric means of the runs."""

    metric: str
    unit: str
    direction: Direction
    verdict: Verdict
    baseline_values: tuple[float, ...]
    candidate_values: tuple[float, ...]
    baseline_mean: float | None = None
    candidate_mean: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    threshold: float = THRESHOLD
    p: float | None = None
    """Of Welch's test on the logarithms; for secondary metrics corrected by Holm."""
    rank_p: float | None = None
    """Of the exact rank test, as a check that assumes nothing of the shape of the noise."""
    more_repeats: int | None = None
    reason: str | None = None
    is_by_start: bool = False
    """The means of several starts of the server were tested, not the runs."""

    @property
    def change_percent(self) -> float | None:
        """Return the change in percent, positive when the candidate's number is larger."""
        return None if self.ratio is None else 100 * (self.ratio - 1)


def measure(
    definition: Metric,
    baseline: Sequence[Result],
    candidate: Sequence[Result],
    *,
    threshold: float = THRESHOLD,
    noise: float | None = None,
) -> MetricComparison:
    """Return a metric with its numbers; `judge` gives the verdict, once all p values are known.

    `noise` is the known spread between runs as a share; it stands in where the runs are too few to show theirs.
    """
    first = [value for result in baseline if (value := definition.read(result)) is not None]
    second = [value for result in candidate if (value := definition.read(result)) is not None]
    item = MetricComparison(
        metric=definition.name,
        unit=definition.unit,
        direction=definition.direction,
        verdict=Verdict.INCONCLUSIVE,
        baseline_values=tuple(first),
        candidate_values=tuple(second),
        baseline_mean=sum(first) / len(first) if first else None,
        candidate_mean=sum(second) / len(second) if second else None,
        threshold=threshold,
    )
    if not first or not second:
        return replace(item, verdict=Verdict.NOT_COMPARABLE, reason=f"{definition.name} was not measured on both sides")
    if definition.name.startswith("itl_") and _itl_kinds(baseline) != _itl_kinds(candidate):
        reason = "the gaps between tokens were measured in different ways"
        return replace(item, verdict=Verdict.NOT_COMPARABLE, reason=reason)
    return _estimated(replace(item, rank_p=mann_whitney_p(first, second)), definition, (baseline, candidate), noise)


def judge(item: MetricComparison) -> MetricComparison:
    """Return a measured metric with its verdict.

    Changed: p below 5 % and the change larger than the threshold. Equivalent: the interval lies within the threshold.
    Else inconclusive, with the repeats that would tell.
    """
    if item.verdict is Verdict.NOT_COMPARABLE:
        return item
    if item.p is None or item.ratio is None or item.ratio_low is None or item.ratio_high is None:
        return _without_ratio(item)
    if item.p < SIGNIFICANCE and abs(item.ratio - 1) > item.threshold:
        change = f"{item.metric} changed by {100 * (item.ratio - 1):+.1f} %"
        reason = f"{change}, but neither direction is better" if item.direction is Direction.NEITHER else None
        return replace(item, verdict=_better_or_worse(item, is_larger=item.ratio > 1), reason=reason)
    if item.ratio_low > 1 - item.threshold and item.ratio_high < 1 + item.threshold:
        return replace(item, verdict=Verdict.EQUIVALENT)
    more = _more_repeats(item)
    interval = f"the ratio lies between {item.ratio_low:.3f} and {item.ratio_high:.3f}"
    return replace(item, more_repeats=more, reason=f"{interval}: about {more} more repeats a side would tell")


def repeats_needed(noise: float, change: float) -> int:
    """Return how many runs a side find a change of this share at this spread, four times in five (at 5 %)."""
    return math.ceil(2 * min(2.8 * noise / change, MAX_MORE_REPEATS) ** 2) if change > 0 else MAX_MORE_REPEATS


def _estimated(
    item: MetricComparison, definition: Metric, sides: tuple[Sequence[Result], Sequence[Result]], noise: float | None
) -> MetricComparison:
    first, second, is_by_start = _units(definition, *sides)
    estimate = welch_ratio(first, second)
    if estimate is None and noise:
        estimate = known_noise_ratio(first, second, noise)
    item = replace(item, is_by_start=is_by_start)
    if estimate is None:
        return replace(item, ratio=divided(item.candidate_mean, item.baseline_mean))
    return replace(item, ratio=estimate.ratio, ratio_low=estimate.low, ratio_high=estimate.high, p=estimate.p)


def _itl_kinds(side: Sequence[Result]) -> set[str | None]:
    return {result.latencies.itl_kind for result in side}


def _units(
    definition: Metric, baseline: Sequence[Result], candidate: Sequence[Result]
) -> tuple[list[float], list[float], bool]:
    """Return the numbers to test: the runs, or the mean of each start of the server where both sides have several.

    A restart is a source of noise of its own: runs of one start are more alike than runs of two.
    """
    first, second = (_by_start(definition, side) for side in (baseline, candidate))
    if len(first) > 1 and len(second) > 1:
        return list(map(_geometric_mean, first)), list(map(_geometric_mean, second)), True
    return [value for start in first for value in start], [value for start in second for value in start], False


def _by_start(definition: Metric, side: Sequence[Result]) -> list[list[float]]:
    starts: dict[str | None, list[float]] = {}
    for result in side:
        value = definition.read(result)
        if value is not None:
            starts.setdefault(result.server.server_instance_id, []).append(value)
    return list(starts.values())


def _geometric_mean(values: Sequence[float]) -> float:
    return 0.0 if min(values) <= 0 else math.exp(math.fsum(map(math.log, values)) / len(values))


def _without_ratio(item: MetricComparison) -> MetricComparison:
    """Judge where no ratio can be tested: by ranks when there is a zero, not at all when there is no noise estimate."""
    values = (*item.baseline_values, *item.candidate_values)
    if min(values) > 0:
        more = max(DEFAULT_REPEATS - min(len(item.baseline_values), len(item.candidate_values)), 1)
        reason = f"no noise estimate: too few runs to know how much they differ by themselves, {more} more a side"
        return replace(item, more_repeats=more, reason=reason)
    if len(set(values)) == 1:
        return replace(item, verdict=Verdict.EQUIVALENT, reason="zero on both sides")
    first, second = item.baseline_mean or 0.0, item.candidate_mean or 0.0
    if item.rank_p is not None and item.rank_p < SIGNIFICANCE and first != second:
        verdict = _better_or_worse(item, is_larger=second > first)
        return replace(item, verdict=verdict, reason=f"a value is zero: judged by ranks alone (p {item.rank_p:.3f})")
    more = max(DEFAULT_REPEATS - min(len(item.baseline_values), len(item.candidate_values)), 1)
    return replace(item, more_repeats=more, reason="a value is zero: judged by ranks alone, which need more repeats")


def _better_or_worse(item: MetricComparison, *, is_larger: bool) -> Verdict:
    if item.direction is Direction.NEITHER:
        return Verdict.INCONCLUSIVE
    return Verdict.IMPROVED if is_larger == (item.direction is Direction.HIGHER) else Verdict.REGRESSED


def _more_repeats(item: MetricComparison) -> int:
    """Return how many more runs a side would show a change as large as the threshold, or as the one seen."""
    spreads = [coefficient_of_variation(side) for side in (item.baseline_values, item.candidate_values)]
    known = [spread for spread in spreads if spread is not None]
    noise = math.sqrt(sum(spread**2 for spread in known) / len(known)) if known else item.threshold
    change = max(item.threshold, abs((item.ratio or 1.0) - 1))
    present = min(len(item.baseline_values), len(item.candidate_values))
    return min(max(repeats_needed(noise, change) - present, 1), MAX_MORE_REPEATS)
