"""A metric over time: where it changed for good, after the e-divisive method with a t test (facts: benchmarks §6)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

from service.benchmarks.metrics import Direction, metric
from service.benchmarks.noise import bounded_exp, t_two_sided_p

MIN_RUNS = 8
"""With fewer runs of one comparability key nothing is said of changes; a comparison with repeats can."""
MIN_SEGMENT = 2
"""A single odd run is an outlier, no change."""
WINDOW = 50
CANDIDATE_P = 0.01
MAX_P = 0.001
"""The largest of many differences is tested: at 0.001 some 2 in 100 steady series show a change."""
MIN_CHANGE = 0.02


class ChangeKind(StrEnum):
    """What a change was."""

    IMPROVED = "improved"
    REGRESSED = "regressed"
    SHIFTED = "shifted"
    """The metric has no better direction."""


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One run in a history."""

    run_id: str
    at: datetime
    value: float
    version: str = ""
    """What ran, in short: engine and profile version."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """From this run on the metric is another."""

    index: int
    run_id: str
    at: datetime
    kind: ChangeKind
    before: float
    """The mean from the change before, or the beginning."""
    after: float
    """The mean to the next change, or the end."""
    ratio: float
    p: float
    version_before: str
    version_after: str


@dataclass(frozen=True, slots=True)
class History:
    """A series of runs, oldest first, and its changes."""

    metric: str
    points: tuple[HistoryPoint, ...]
    changes: tuple[ChangePoint, ...]
    reason: str | None = None
    """Why no changes are told."""


def history(metric_name: str, points: Sequence[HistoryPoint]) -> History:
    """Return the series with its change points.

    All points must be of one comparability key, oldest first; values that are not positive are refused by ValueError,
    as is another order. Costs time in proportion to the number of points.
    """
    direction = metric(metric_name).direction
    if any(later.at < earlier.at for earlier, later in pairwise(points)):
        raise ValueError("a history is given oldest first")
    if any(point.value <= 0 for point in points):
        raise ValueError("a history holds positive values only")
    if len(points) < MIN_RUNS:
        reason = f"{len(points)} runs: changes are told from {MIN_RUNS} on"
        return History(metric_name, tuple(points), (), reason)
    values = [math.log(point.value) for point in points]
    indexes = _pruned(values, sorted(_candidates(values)))
    bounds = [0, *indexes, len(points)]
    changes = [
        _change(points, values, (start, index, end), direction)
        for start, index, end in zip(bounds, bounds[1:], bounds[2:], strict=False)
    ]
    return History(metric_name, tuple(points), tuple(changes))


def _candidates(values: Sequence[float]) -> set[int]:
    """Return indexes where a change may begin, from windows that overlap by half."""
    found: set[int] = set()
    last_start = max(len(values) - WINDOW, 0)
    starts = [*range(0, last_start, WINDOW // 2), last_start]
    for start in starts:
        window = values[start : start + WINDOW]
        found |= {start + index for index in _split(window, 0, len(window))}
    return found


def _split(values: Sequence[float], start: int, end: int) -> set[int]:
    """Return the splits of values[start:end]: the strongest one, and those of both its sides."""
    split = _strongest_split(values[start:end])
    if split is None or _p(values[start : start + split], values[start + split : end]) > CANDIDATE_P:
        return set()
    middle = start + split
    return {middle, *_split(values, start, middle), *_split(values, middle, end)}


def _strongest_split(values: Sequence[float]) -> int | None:
    """Return the split with the largest energy distance between its sides, None when there are too few values.

    Distance sums are carried from one split to the next, so that all splits together cost the square of the length.
    """
    n = len(values)
    if n < 2 * MIN_SEGMENT:
        return None
    left = 0.0
    right = sum(abs(a - b) for i, a in enumerate(values) for b in values[:i])
    total = right
    best: tuple[float, int] | None = None
    for size in range(1, n - MIN_SEGMENT + 1):
        moved = values[size - 1]
        left += sum(abs(moved - other) for other in values[: size - 1])
        right -= sum(abs(moved - other) for other in values[size:])
        if size < MIN_SEGMENT:
            continue
        rest = n - size
        between = total - left - right
        energy = 2 * between / (size * rest) - 2 * left / size**2 - 2 * right / rest**2
        strength = size * rest / n * energy
        if best is None or strength > best[0]:
            best = (strength, size)
    return None if best is None else best[1]


def _pruned(values: Sequence[float], indexes: list[int]) -> list[int]:
    """Return the candidates that stand against their neighbours: the weakest is taken away until all do."""
    while indexes:
        bounds = [0, *indexes, len(values)]
        weakness = [
            _weakness(values[start:index], values[index:end])
            for start, index, end in zip(bounds, bounds[1:], bounds[2:], strict=False)
        ]
        worst = max(range(len(indexes)), key=lambda place: weakness[place])
        if weakness[worst] <= MAX_P:
            return indexes
        indexes = indexes[:worst] + indexes[worst + 1 :]
    return indexes


def _weakness(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the p of a change; 1 and more for what is too short or too small to be one."""
    if min(len(before), len(after)) < MIN_SEGMENT:
        return 2.0
    change = abs(_ratio(before, after) - 1)
    return 1.0 + (MIN_CHANGE - change) if change < MIN_CHANGE else _p(before, after)


def _p(before: Sequence[float], after: Sequence[float]) -> float:
    """Return Student's p with the spread of both sides pooled: two values have no spread of their own to trust."""
    first, second = _mean(before), _mean(after)
    freedom = len(before) + len(after) - 2
    spread = math.fsum((v - first) ** 2 for v in before) + math.fsum((v - second) ** 2 for v in after)
    error = math.sqrt(spread / freedom * (1 / len(before) + 1 / len(after)))
    if error == 0:
        return 1.0 if first == second else 0.0
    return t_two_sided_p((second - first) / error, freedom)


def _ratio(before: Sequence[float], after: Sequence[float]) -> float:
    """Return how many times the later values are the earlier ones, of logarithms."""
    return bounded_exp(_mean(after) - _mean(before))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _change(
    points: Sequence[HistoryPoint], values: Sequence[float], bounds: tuple[int, int, int], direction: Direction
) -> ChangePoint:
    start, index, end = bounds
    before, after = math.exp(_mean(values[start:index])), math.exp(_mean(values[index:end]))
    return ChangePoint(
        index=index,
        run_id=points[index].run_id,
        at=points[index].at,
        kind=_kind(direction, is_larger=after > before),
        before=before,
        after=after,
        ratio=_ratio(values[start:index], values[index:end]),
        p=_p(values[start:index], values[index:end]),
        version_before=points[index - 1].version,
        version_after=points[index].version,
    )


def _kind(direction: Direction, *, is_larger: bool) -> ChangeKind:
    if direction is Direction.NEITHER:
        return ChangeKind.SHIFTED
    return ChangeKind.IMPROVED if is_larger == (direction is Direction.HIGHER) else ChangeKind.REGRESSED
