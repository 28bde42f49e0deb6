"""The statistics against known values and against enumeration."""

# ruff: noqa: S311  noise for tests, no secret

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.benchmarks.noise import (
    EarlierRun,
    coefficient_of_variation,
    holm,
    known_noise,
    known_noise_ratio,
    mann_whitney_p,
    mean_interval,
    t_quantile,
    t_two_sided_p,
    welch_ratio,
)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062), (2, 4.30265), (4, 2.77645), (10, 2.22814), (30, 2.04227), (1000, 1.96234)]
)
def test_the_quantiles_of_the_tables(freedom: int, quantile: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(quantile, rel=1e-5)
    assert t_two_sided_p(quantile, freedom) == pytest.approx(0.05, abs=1e-6)


def test_one_degree_of_freedom_is_the_arc_tangent() -> None:
    for t in (0.1, 1.0, 7.0):
        assert t_two_sided_p(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi)


@pytest.mark.parametrize(
    ("size", "smallest"), [(1, 1.0), (2, 1 / 3), (3, 0.1), (4, 2 / 70), (5, 2 / 252), (10, 2 / 184_756)]
)
def test_the_rank_test_has_a_smallest_p(size: int, smallest: float) -> None:
    assert mann_whitney_p(range(size), range(100, 100 + size)) == pytest.approx(smallest)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
)
def test_the_rank_test_counts_all_arrangements_ties_included(first: list[int], second: list[int]) -> None:
    pool = [*first, *second]

    def rank_sum(chosen: tuple[int, ...]) -> float:
        values = [pool[i] for i in chosen]
        return sum(sum(other < v for other in pool) + sum(other == v for other in pool) / 2 for v in values)

    expected = len(first) * len(pool) / 2
    distance = abs(rank_sum(tuple(range(len(first)))) - expected)
    sums = [rank_sum(chosen) for chosen in itertools.combinations(range(len(pool)), len(first))]
    share = sum(abs(total - expected) >= distance - 1e-9 for total in sums) / len(sums)
    assert mann_whitney_p(first, second) == pytest.approx(share)


def test_many_values_go_by_the_normal_curve() -> None:
    generator = random.Random(1)
    first = [generator.gauss(100, 2) for _ in range(40)]
    second = [value - 3 for value in first]
    assert mann_whitney_p(first, second) < 1e-4
    assert mann_whitney_p(first, first) == pytest.approx(1.0)
    assert mann_whitney_p([1] * 30, [1] * 30) == 1.0


def test_welch_on_logarithms_gives_the_ratio_of_geometric_means() -> None:
    estimate = welch_ratio([100, 104, 98], [50, 51, 49.5])
    assert estimate is not None
    geometric = (50 * 51 * 49.5) ** (1 / 3) / (100 * 104 * 98) ** (1 / 3)
    assert estimate.ratio == pytest.approx(geometric)
    assert estimate.low < estimate.ratio < estimate.high < 1
    assert estimate.p < 0.001


def test_turning_the_sides_round_turns_the_ratio_over() -> None:
    there, back = welch_ratio([100, 104, 98], [90, 93, 89]), welch_ratio([90, 93, 89], [100, 104, 98])
    assert there is not None
    assert back is not None
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)
    assert there.p == pytest.approx(back.p)


@pytest.mark.parametrize(("first", "second"), [([1], [2]), ([1, 1.1], [2]), ([0, 1, 2], [1, 2, 3]), ([], [1, 2, 3])])
def test_without_noise_or_logarithm_there_is_no_estimate(first: list[float], second: list[float]) -> None:
    assert welch_ratio(first, second) is None


def test_one_run_is_judged_by_the_noise_of_the_other_side() -> None:
    near, far = welch_ratio([100, 102, 99, 101], [99]), welch_ratio([100, 102, 99, 101], [90])
    assert near is not None
    assert far is not None
    assert near.p > 0.3
    assert far.p < 0.01
    assert near.high - near.low > 0.05


def test_values_without_any_spread_are_equal_or_not() -> None:
    same, other = welch_ratio([2, 2], [2, 2]), welch_ratio([2, 2], [3, 3])
    assert same is not None
    assert other is not None
    assert (same.p, other.p) == (1.0, 0.0)
    assert [other.low, other.high] == pytest.approx([1.5, 1.5])


def test_a_known_noise_stands_in() -> None:
    small, large = known_noise_ratio([100], [98], 0.02), known_noise_ratio([100], [90], 0.02)
    assert small is not None
    assert large is not None
    assert small.p > 0.4
    assert large.p < 0.01
    assert known_noise_ratio([0], [1], 0.02) is None


def test_holm_multiplies_the_smallest_most_and_keeps_the_order() -> None:
    adjusted = holm({"a": 0.04, "b": 0.01, "c": 0.03, "d": 0.9})
    assert adjusted == {"b": 0.04, "c": pytest.approx(0.09), "a": pytest.approx(0.09), "d": 0.9}
    assert holm({}) == {}


def test_intervals_and_spread() -> None:
    interval = mean_interval([9, 10, 11])
    assert interval is not None
    assert interval[0] == pytest.approx(10 - 4.30265 / math.sqrt(3), rel=1e-5)
    assert mean_interval([9]) is None
    assert coefficient_of_variation([9, 10, 11]) == pytest.approx(0.1)
    assert coefficient_of_variation([1]) is None


def test_the_noise_of_a_metric_is_known_from_twelve_runs() -> None:
    values = [100.0, 102.0] * 6
    earlier = [EarlierRun({"output_throughput_tps": value, "ttft_p50_ms": 7.0}, repeats=4) for value in values]
    noise = known_noise(earlier)["output_throughput_tps"]
    assert noise.between_runs == pytest.approx(math.log(1.02) / 0.954, rel=1e-3)
    assert noise.one_repeat == pytest.approx(2 * noise.between_runs)
    assert noise.runs == 12
    assert "ttft_p50_ms" not in known_noise(earlier)  # equal to the last digit: a spread of zero is no estimate
    assert known_noise(earlier[1:]) == {}
    assert known_noise([]) == {}


def test_a_lasting_change_does_not_pass_for_noise() -> None:
    dice = random.Random(5)
    values = [level * math.exp(dice.gauss(0, 0.01)) for level in [100.0] * 8 + [75.0] * 8]
    assert known_noise([EarlierRun({"m": value}, repeats=1) for value in values])["m"].between_runs < 0.02


def test_a_false_alarm_is_as_rare_with_known_noise_as_it_should_be() -> None:
    """Single runs judged by the spread of twenty earlier ones of five repeats, of which the start is half the noise."""
    dice = random.Random(11)
    alarms = 0
    for _ in range(400):
        earlier = [EarlierRun({"m": sum(_start(dice, 5)) / 5}, repeats=5) for _ in range(20)]
        noise = known_noise(earlier)["m"].one_repeat
        estimate = known_noise_ratio(_start(dice, 1), _start(dice, 1), noise)
        assert estimate is not None
        alarms += estimate.p < 0.05
    assert alarms / 400 <= 0.06


def _start(dice: random.Random, repeats: int) -> list[float]:
    start = dice.gauss(0, 0.02)
    return [100 * math.exp(start + dice.gauss(0, 0.02)) for _ in range(repeats)]
