"""Change points: found where they are, silent where there are none."""

# ruff: noqa: S311  noise for tests, no secret

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from bench.benchmark_statistics import MAX_FALSE_ALARMS, MIN_FOUND, found_share, verdicts
from service.benchmarks.history import MIN_RUNS, ChangeKind, HistoryPoint, history
from service.benchmarks.judging import Verdict

START = datetime(2026, 1, 1, tzinfo=UTC)
TPS = "output_throughput_tps"


def points(
    values: Sequence[float], version: str = "0.5.16", later: str | None = None, at: int = 0
) -> list[HistoryPoint]:
    return [
        HistoryPoint(f"run-{i}", START + timedelta(days=i), value, later if later and i >= at else version)
        for i, value in enumerate(values)
    ]


def noisy(generator: random.Random, levels: Sequence[tuple[int, float]], noise: float = 0.02) -> list[float]:
    return [level * math.exp(generator.gauss(0, noise)) for count, level in levels for _ in range(count)]


def test_a_step_is_told_with_its_run_and_versions() -> None:
    values = noisy(random.Random(1), [(12, 90.0), (10, 81.0)])
    told = history(TPS, points(values, later="0.5.23", at=12))
    (change,) = told.changes
    assert (change.index, change.run_id, change.at) == (12, "run-12", START + timedelta(days=12))
    assert (change.kind, change.version_before, change.version_after) == (ChangeKind.REGRESSED, "0.5.16", "0.5.23")
    assert change.before == pytest.approx(90, rel=0.02)
    assert change.after == pytest.approx(81, rel=0.02)
    assert change.ratio == pytest.approx(0.9, rel=0.02)
    assert change.p < 0.001


@pytest.mark.parametrize(
    ("metric_name", "kind"),
    [(TPS, ChangeKind.IMPROVED), ("ttft_p99_ms", ChangeKind.REGRESSED), ("accept_length", ChangeKind.SHIFTED)],
)
def test_the_same_step_is_good_or_bad_by_the_metric(metric_name: str, kind: ChangeKind) -> None:
    values = noisy(random.Random(2), [(10, 100.0), (10, 120.0)])
    assert [change.kind for change in history(metric_name, points(values)).changes] == [kind]


def test_several_steps_over_a_long_time() -> None:
    values = noisy(random.Random(3), [(40, 100.0), (60, 92.0), (45, 101.0), (30, 85.0)])
    indexes = [change.index for change in history(TPS, points(values)).changes]
    assert len(indexes) == 3
    assert all(abs(found - true) <= 1 for found, true in zip(indexes, (40, 100, 145), strict=True))


def test_a_single_odd_run_is_no_change() -> None:
    values = noisy(random.Random(4), [(30, 100.0)])
    values[14] = 60.0
    assert history(TPS, points(values)).changes == ()


def test_a_certain_but_small_step_is_no_change() -> None:
    values = noisy(random.Random(5), [(30, 100.0), (30, 99.0)], noise=0.001)
    assert history(TPS, points(values)).changes == ()


def test_too_few_runs_are_shown_without_changes() -> None:
    values = noisy(random.Random(6), [(4, 100.0), (3, 50.0)])
    told = history(TPS, points(values))
    assert (len(told.points), told.changes, told.reason) == (7, (), "7 runs: changes are told from 8 on")
    assert history(TPS, points([*values, 50.0])).changes
    assert history(TPS, []).reason is not None


def test_equal_values_have_no_change() -> None:
    assert history(TPS, points([5.0] * MIN_RUNS)).changes == ()
    assert [change.index for change in history(TPS, points([5.0] * 5 + [9.0] * 5)).changes] == [5]


def test_disorder_and_zeros_are_refused() -> None:
    with pytest.raises(ValueError, match="oldest first"):
        history(TPS, points([1.0, 2.0])[::-1])
    with pytest.raises(ValueError, match="positive"):
        history(TPS, points([1.0, 0.0]))
    with pytest.raises(KeyError):
        history("no_such_metric", [])


def test_a_long_history_takes_time_in_proportion() -> None:
    assert history(TPS, points(noisy(random.Random(7), [(600, 100.0)]))).changes == ()


def test_the_promises_of_the_statistics() -> None:
    """A short run of the simulation in bench/, which prints the whole table."""
    generator = random.Random(8)
    none, worse = verdicts(generator, 5, 0.0, 200), verdicts(generator, 5, -0.05, 100)
    assert (none[Verdict.REGRESSED] + none[Verdict.IMPROVED]) / 200 <= MAX_FALSE_ALARMS
    assert worse[Verdict.REGRESSED] / 100 >= MIN_FOUND
    assert found_share(generator, length=30, step=0.0, at=0, trials=60) <= MAX_FALSE_ALARMS
    assert found_share(generator, length=30, step=-0.05, at=15, trials=30) >= MIN_FOUND


def test_a_step_beyond_all_measures_has_a_finite_ratio() -> None:
    (change,) = history("ttft_p50_ms", points([1e-300] * 6 + [1e15] * 6)).changes
    assert (change.kind, math.isfinite(change.ratio)) == (ChangeKind.REGRESSED, True)
