"""Whole runs compared: point with point, one verdict over all, corrected for the number of points."""

import random

import pytest

from service.benchmarks.comparison import Policy
from service.benchmarks.judging import Verdict
from service.benchmarks.results import HostProvenance, ResultStatus, WorkloadFacts
from service.benchmarks.run_comparison import compare_runs
from tests.benchmarks.made import result, results

BASE = [90.0, 90.4, 89.7, 90.2, 89.9]
SLOW = [24.8, 24.9, 24.7, 24.8, 24.6]


def test_one_point_is_the_comparison_itself() -> None:
    made = compare_runs(results(BASE, accept_length=3.1), results(SLOW, accept_length=1.0))
    (point,) = made.points
    assert (made.verdict, point.load) == (Verdict.REGRESSED, "C=16")
    assert point.comparison.metrics[0].ratio == pytest.approx(24.8 / 90, rel=0.01)
    context = point.comparison.context[0]
    assert (context.metric, round(context.baseline or 0, 6), context.candidate) == ("accept_length", 3.1, 1.0)


def test_points_of_a_sweep_are_told_apart_by_their_key() -> None:
    base = [*results(BASE), *results(BASE, concurrency=64)]
    made = compare_runs(base, [*results(SLOW, concurrency=64), *results(BASE)])
    assert [(p.load, p.comparison.verdict) for p in made.points] == [
        ("C=16", Verdict.EQUIVALENT),
        ("C=64", Verdict.REGRESSED),
    ]
    assert made.verdict is Verdict.REGRESSED


def test_a_point_that_only_one_side_has_is_named() -> None:
    made = compare_runs([*results(BASE), *results(BASE, concurrency=64)], results(BASE))
    assert (made.verdict, made.only_baseline, made.only_candidate) == (Verdict.EQUIVALENT, ("C=64",), ())


def test_points_of_the_same_load_and_another_key_are_set_side_by_side() -> None:
    other = results(BASE, model_id="other")
    made = compare_runs([*results(BASE), *results(BASE, concurrency=64)], [*other, *results(BASE, concurrency=64)])
    assert [(p.load, p.comparison.verdict) for p in made.points] == [
        ("C=64", Verdict.EQUIVALENT),
        ("C=16", Verdict.NOT_COMPARABLE),
    ]
    assert made.points[1].comparison.reasons == ("model differs: kimi-k2 against other",)
    assert made.verdict is Verdict.EQUIVALENT
    seen = compare_runs(results(BASE), other, policy=Policy(accepted_differences=frozenset({"model"})))
    assert seen.verdict is Verdict.EQUIVALENT


def test_two_single_points_are_compared_whatever_their_load() -> None:
    made = compare_runs(results(BASE), results(BASE, concurrency=64))
    assert made.verdict is Verdict.NOT_COMPARABLE
    assert "max_concurrency differs" in made.points[0].comparison.reasons[0]


def test_nothing_shared_is_not_comparable() -> None:
    base = [*results(BASE), *results(BASE, concurrency=2)]
    made = compare_runs(base, results(BASE, concurrency=64))
    assert (made.verdict, made.points) == (Verdict.NOT_COMPARABLE, ())
    assert (made.only_baseline, made.only_candidate) == (("C=16", "C=2"), ("C=64",))


def test_an_empty_side_is_refused() -> None:
    with pytest.raises(ValueError, match="no result"):
        compare_runs(results(BASE), [])


def test_a_sweep_of_many_points_does_not_cry_wolf() -> None:
    """Twenty steady points at 5 % noise: without the correction about two sweeps in five would tell a change."""
    dice = random.Random(7)  # noqa: S311
    alarms = 0
    for _ in range(40):
        sides = [
            [result(90 * dice.lognormvariate(0, 0.05), concurrency=c) for c in range(1, 21) for _ in range(5)]
            for _ in range(2)
        ]
        made = compare_runs(*sides, policy=Policy(metrics=()))
        alarms += made.verdict in {Verdict.REGRESSED, Verdict.IMPROVED}
    assert alarms <= 5


def test_a_point_that_may_not_be_compared_is_no_test_to_correct_for() -> None:
    base, slow = [100.0, 102.0, 98.0, 101.0, 99.0], [97.5, 99.45, 95.55, 98.475, 96.525]
    alone = compare_runs(results(base), results(slow))
    assert (alone.verdict, 0.025 < (alone.points[0].comparison.metrics[0].p or 0) < 0.05) == (Verdict.REGRESSED, True)
    broken = [item.model_copy(update={"status": ResultStatus.DEGRADED}) for item in results(base, concurrency=64)]
    among = compare_runs([*results(base), *results(base, concurrency=64)], [*results(slow), *broken])
    assert [point.comparison.verdict for point in among.points] == [Verdict.REGRESSED, Verdict.NOT_COMPARABLE]


def test_of_points_of_one_load_the_most_alike_are_set_side_by_side() -> None:
    """Two lengths of prompts at one load, measured in the other order on other GPUs."""
    short, long = (
        [item.model_copy(update={"workload": WorkloadFacts(input_tokens_asked=length)}) for item in results(BASE)]
        for length in (1024, 8192)
    )
    moved = [
        item.model_copy(update={"host": HostProvenance(gpu_model="H200", gpu_count_used=8)}) for item in (*long, *short)
    ]
    accepted = Policy(accepted_differences=frozenset({"gpu_model"}))
    made = compare_runs([*short, *long], moved, policy=accepted)
    assert [point.comparison.verdict for point in made.points] == [Verdict.EQUIVALENT] * 2
