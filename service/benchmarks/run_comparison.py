"""Whole runs compared: point of load with point of load, and one verdict over all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from service.benchmarks.comparability import comparability_key, key_differences
from service.benchmarks.comparison import Comparison, Policy, compare
from service.benchmarks.judging import Verdict, judge
from service.benchmarks.noise import KnownNoise, holm
from service.benchmarks.points import load_label
from service.benchmarks.results import Result

NoiseByKey = Mapping[str, Mapping[str, KnownNoise]]
"""The noise of each metric by the comparability key of the point."""
NO_NOISE_KNOWN: NoiseByKey = MappingProxyType({})
_DECISIVE_FIRST = (Verdict.REGRESSED, Verdict.IMPROVED, Verdict.INCONCLUSIVE, Verdict.EQUIVALENT)


@dataclass(frozen=True, slots=True)
class PointComparison:
    """One point of load, compared."""

    load: str
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class RunComparison:
    """All points that two sides share."""

    verdict: Verdict
    """`regressed` when one point regressed; else `improved` when one improved; else `inconclusive` when one is."""
    points: tuple[PointComparison, ...]
    only_baseline: tuple[str, ...]
    """Loads that only the baseline was measured at."""
    only_candidate: tuple[str, ...]


def compare_runs(
    baseline: Sequence[Result],
    candidate: Sequence[Result],
    *,
    policy: Policy | None = None,
    noise: NoiseByKey = NO_NOISE_KNOWN,
) -> RunComparison:
    """Compare the results of two sides, each of any number of points and repeats.

    Points with one comparability key belong together; of the others, those of the same load are set side by side, so
    that it is told what keeps them from being compared. The primary metrics of several points are corrected by Holm for
    their number: a sweep is many tests. ValueError when a side has no result.
    """
    if not baseline or not candidate:
        raise ValueError("a side of a comparison has no result")
    pairs, only_baseline, only_candidate = _paired(_by_key(baseline), _by_key(candidate))
    points = [_compared(first, second, policy or Policy(), noise) for first, second in pairs]
    points = _corrected(points)
    return RunComparison(
        verdict=_together([point.comparison.verdict for point in points]),
        points=tuple(points),
        only_baseline=tuple(load_label(results[0]) for results in only_baseline),
        only_candidate=tuple(load_label(results[0]) for results in only_candidate),
    )


def _compared(
    baseline: Sequence[Result], candidate: Sequence[Result], policy: Policy, noise: NoiseByKey
) -> PointComparison:
    known = noise.get(comparability_key(baseline[0]), {})
    return PointComparison(load_label(baseline[0]), compare(baseline, candidate, policy=replace(policy, noise=known)))


_Groups = dict[str, list[Result]]
_Pair = tuple[list[Result], list[Result]]


def _by_key(results: Iterable[Result]) -> _Groups:
    groups: _Groups = {}
    for result in results:
        groups.setdefault(comparability_key(result), []).append(result)
    return groups


def _paired(first: _Groups, second: _Groups) -> tuple[list[_Pair], list[list[Result]], list[list[Result]]]:
    """Return which groups are set side by side, and which are left over on either side.

    Of several groups of one load, such as other lengths of prompts, the one that differs in the fewest fields is taken.
    """
    pairs = [(first[key], second[key]) for key in first if key in second]
    left = [group for key, group in first.items() if key not in second]
    right = [group for key, group in second.items() if key not in first]
    for group in list(left):
        same = [other for other in right if load_label(other[0]) == load_label(group[0])]
        others = same or (right if len(left) == len(right) == 1 else [])
        if others:
            nearest = min(others, key=lambda other: len(key_differences(group[0], other[0])))
            pairs.append((group, nearest))
            left.remove(group)
            right.remove(nearest)
    return pairs, left, right


def _corrected(points: Sequence[PointComparison]) -> list[PointComparison]:
    """Return the points judged by p values that are corrected for their number; what is not judged is no test."""
    primary = {str(i): point.comparison.metrics[0] for i, point in enumerate(points)}
    known = {
        place: item.p
        for place, item in primary.items()
        if item.p is not None and item.verdict is not Verdict.NOT_COMPARABLE
    }
    adjusted = holm(known) if len(known) > 1 else {}
    return [_judged_again(point, adjusted[str(i)]) if str(i) in adjusted else point for i, point in enumerate(points)]


def _judged_again(point: PointComparison, p: float) -> PointComparison:
    comparison = point.comparison
    undecided = replace(comparison.metrics[0], p=p, verdict=Verdict.INCONCLUSIVE, more_repeats=None, reason=None)
    primary = judge(undecided)
    changed = replace(
        comparison,
        verdict=primary.verdict,
        reasons=(primary.reason,) if primary.reason else (),
        metrics=(primary, *comparison.metrics[1:]),
        more_repeats=primary.more_repeats,
    )
    return replace(point, comparison=changed)


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    return next((verdict for verdict in _DECISIVE_FIRST if verdict in verdicts), Verdict.NOT_COMPARABLE)
