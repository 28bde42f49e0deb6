"""Statistics for few repeats, in plain Python: Student's t, Welch on logarithms, exact Mann-Whitney, Holm."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from statistics import median

CONFIDENCE = 0.95
MIN_EARLIER_RUNS = 12
"""Fewer earlier runs tell too little of how much a measurement varies by itself: a single run judged by the spread of
eight is called changed in 8 of 100 cases where it is not, by that of twelve in 6, by that of twenty in 4 or 5."""
_MEDIAN_OF_NORMAL = 0.6745
"""The median of the absolute value of a standard normal."""
MAX_EXACT = 20
"""Up to so many values in both samples together the rank test counts all arrangements."""


@dataclass(frozen=True, slots=True)
class RatioEstimate:
    """How many times the candidate is the baseline: ratio of the geometric means, its interval, and p for ratio 1."""

    ratio: float
    low: float
    high: float
    p: float


def welch_ratio(
    baseline: Sequence[float], candidate: Sequence[float], *, confidence: float = CONFIDENCE
) -> RatioEstimate | None:
    """Return the ratio by Welch's t test on the logarithms.

    With a single value on one side, its noise is taken to be that of the other side, which then needs three or more.
    None when the values tell nothing of noise, or one is not positive. At 2 % noise and five repeats a side this gives
    4 % false alarms; bootstrapping the means gives 14 % (facts: benchmarks §6).
    """
    if min(baseline, default=0.0) <= 0 or min(candidate, default=0.0) <= 0:
        return None
    first, second = [math.log(v) for v in baseline], [math.log(v) for v in candidate]
    error = _standard_error(first, second)
    if error is None:
        return None
    standard_error, freedom = error
    difference = _mean(second) - _mean(first)
    reach = t_quantile(0.5 + confidence / 2, freedom) * standard_error
    p = _p_of(difference, standard_error, freedom)
    low, high = difference - reach, difference + reach
    return RatioEstimate(bounded_exp(difference), bounded_exp(low), bounded_exp(high), p)


def known_noise_ratio(
    baseline: Sequence[float], candidate: Sequence[float], noise: float, *, confidence: float = CONFIDENCE
) -> RatioEstimate | None:
    """Return the ratio where the spread between runs is known from elsewhere, as a share.

    That spread is itself an estimate: it is trusted like one from eleven runs. None when a value is not positive.
    """
    if min(baseline, default=0.0) <= 0 or min(candidate, default=0.0) <= 0:
        return None
    difference = _mean([math.log(v) for v in candidate]) - _mean([math.log(v) for v in baseline])
    standard_error = noise * math.sqrt(1 / len(baseline) + 1 / len(candidate))
    reach = t_quantile(0.5 + confidence / 2, 10.0) * standard_error
    low, high = bounded_exp(difference - reach), bounded_exp(difference + reach)
    return RatioEstimate(bounded_exp(difference), low, high, _p_of(difference, standard_error, 10.0))


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """One earlier run of the same thing at one point of load: the mean of each metric over its sound repeats."""

    metrics: Mapping[str, float]
    repeats: int


@dataclass(frozen=True, slots=True)
class KnownNoise:
    """How much a metric varies by itself, as shares, from earlier runs of the same."""

    between_runs: float
    one_repeat: float
    """Of a run of one repeat: never less than the truth, since what a start adds is not averaged away by repeats."""
    runs: int


def known_noise(earlier: Sequence[EarlierRun]) -> dict[str, KnownNoise]:
    """Return the noise of each metric that at least twelve runs have, which come in the order of their time.

    It is read from the steps between neighbours, by their median: a lasting change some time ago, such as a driver that
    made everything slower, is one step among many, and does not pass for noise that hides the next one.
    """
    names = dict.fromkeys(name for run in earlier for name in run.metrics)
    found = {name: _noise_of([run for run in earlier if run.metrics.get(name, 0.0) > 0], name) for name in names}
    return {name: noise for name, noise in found.items() if noise is not None}


def _noise_of(runs: Sequence[EarlierRun], name: str) -> KnownNoise | None:
    if len(runs) < MIN_EARLIER_RUNS:
        return None
    logs = [math.log(run.metrics[name]) for run in runs]
    steps = [abs(after - before) for before, after in pairwise(logs)]
    spread = median(steps) / (_MEDIAN_OF_NORMAL * math.sqrt(2))
    if not spread:
        return None
    return KnownNoise(spread, spread * math.sqrt(_mean([run.repeats for run in runs])), len(runs))


def mean_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return the interval of a mean over runs by Student's t; None for fewer than two values."""
    if len(values) < 2:  # noqa: PLR2004  one value has no spread
        return None
    reach = t_quantile(0.5 + confidence / 2, len(values) - 1) * math.sqrt(_variance(values) / len(values))
    return _mean(values) - reach, _mean(values) + reach


def coefficient_of_variation(values: Sequence[float]) -> float | None:
    """Return the spread of runs as a share of their mean; None for fewer than two values or a mean of zero."""
    if len(values) < 2 or _mean(values) == 0:  # noqa: PLR2004
        return None
    return math.sqrt(_variance(values)) / abs(_mean(values))


def mann_whitney_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p of the rank test: exact for up to 20 values, ties included, else by the normal curve.

    With three a side it cannot go below 0.10, with four below 0.029: it is silent where there are too few repeats.
    """
    if not first or not second:
        return 1.0
    ranks = _doubled_ranks([*first, *second])
    own = sum(ranks[: len(first)])
    if len(ranks) > MAX_EXACT:
        return _normal_rank_p(ranks, own, len(first))
    return _exact_rank_p(tuple(sorted(ranks)), own, len(first))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return the p values corrected for their number by Holm's method, in the order of their size."""
    adjusted: dict[str, float] = {}
    worst = 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        worst = max(worst, min(1.0, (len(p_values) - place) * p))
        adjusted[name] = worst
    return adjusted


def t_two_sided_p(t: float, freedom: float) -> float:
    """Return the probability of a Student's t at least so far from 0."""
    return _regularized_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Return the t below which Student's distribution has this probability, for probabilities of 0.5 and more."""
    low, high = 0.0, 1.0
    tail = 2 * (1 - probability)
    while t_two_sided_p(high, freedom) > tail:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_two_sided_p(middle, freedom) > tail else (low, middle)
    return (low + high) / 2


def _standard_error(first: Sequence[float], second: Sequence[float]) -> tuple[float, float] | None:
    """Return the standard error of a difference of means and its degrees of freedom."""
    smaller, larger = sorted((first, second), key=len)
    if len(smaller) == 1:
        if len(larger) < 3:  # noqa: PLR2004  two runs are no estimate of the noise of a third
            return None
        return math.sqrt(_variance(larger) * (1 + 1 / len(larger))), len(larger) - 1.0
    parts = [_variance(values) / len(values) for values in (first, second)]
    total = sum(parts)
    if total == 0:
        return 0.0, len(first) + len(second) - 2.0
    freedom = total**2 / sum(part**2 / (len(v) - 1) for part, v in zip(parts, (first, second), strict=True))
    return math.sqrt(total), freedom


def _p_of(difference: float, standard_error: float, freedom: float) -> float:
    if standard_error > 0:
        return t_two_sided_p(difference / standard_error, freedom)
    return 1.0 if difference == 0 else 0.0


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    middle = _mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def bounded_exp(value: float) -> float:
    """Return the number of this logarithm, neither zero nor infinite however damaged the logarithm is."""
    return math.exp(min(max(value, -700.0), 700.0))


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, so that tied values have whole numbers too."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    ranks = [0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in range(start, end + 1):
            ranks[order[place]] = start + end + 2
        start = end + 1
    return ranks


@lru_cache(maxsize=256)
def _arrangements(ranks: tuple[int, ...], size: int) -> dict[int, int]:
    """Return how many choices of `size` ranks have each sum."""
    by_size: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for rank in ranks:
        for chosen in range(size - 1, -1, -1):
            for total, ways in by_size[chosen].items():
                by_size[chosen + 1][total + rank] = by_size[chosen + 1].get(total + rank, 0) + ways
    return by_size[size]


def _exact_rank_p(ranks: tuple[int, ...], own: int, size: int) -> float:
    ways = _arrangements(ranks, size)
    expected = size * (len(ranks) + 1)
    distance = abs(own - expected)
    extreme = sum(count for total, count in ways.items() if abs(total - expected) >= distance)
    return extreme / sum(ways.values())


def _normal_rank_p(ranks: Sequence[int], own: int, size: int) -> float:
    n = len(ranks)
    other = n - size
    ties = sum(count**3 - count for count in (ranks.count(rank) for rank in set(ranks)))
    variance = size * other / 12 * ((n + 1) - ties / (n * (n - 1)))
    if variance <= 0:
        return 1.0
    distance = max(abs(own / 2 - size * (n + 1) / 2) - 0.5, 0.0)
    return math.erfc(distance / math.sqrt(2 * variance))


def _regularized_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(a, b, x) / a
    return 1 - front * _beta_fraction(b, a, 1 - x) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1), tiny)
    result = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / _away_from_zero(1 + step * d, tiny)
            c = _away_from_zero(1 + step / c, tiny)
            result *= d * c
        if abs(d * c - 1) < 1e-12:  # noqa: PLR2004  far below what a p needs
            break
    return result


def _away_from_zero(value: float, tiny: float) -> float:
    return tiny if abs(value) < tiny else value
