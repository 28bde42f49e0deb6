"""Verdicts: what they take, what they refuse, and what stands beside them."""

# ruff: noqa: S311  noise for tests, no secret

import math
import random

import pytest

from service.benchmarks.comparability import comparability_key, key_differences
from service.benchmarks.comparison import Comparison, Policy, compare, interleaved
from service.benchmarks.judging import MAX_MORE_REPEATS, MetricComparison, Verdict, repeats_needed
from service.benchmarks.noise import KnownNoise
from service.benchmarks.results import (
    ClientProvenance,
    Distribution,
    HostProvenance,
    ItlKind,
    LoadFacts,
    LoadMode,
    Rates,
    Result,
    ResultStatus,
    Totals,
    WorkloadFacts,
    status_of,
)
from tests.benchmarks.made import result, results

STEADY = (90.0, 91.5, 89.2, 90.8, 88.9)
FEW = (90.0, 91.5, 89.2)


def of(comparison: Comparison, name: str) -> MetricComparison:
    return next(item for item in comparison.metrics if item.metric == name)


def changed(item: Result, part: str, **changes: object) -> Result:
    """Return a result with fields of one of its parts changed."""
    return item.model_copy(update={part: getattr(item, part).model_copy(update=changes)})


def test_scenario_b_is_regressed_with_the_accept_length_beside_it() -> None:
    baseline = results([90.0, 91.1, 89.5])
    candidate = results(
        [24.8, 25.1, 24.6], accept_length=1.0, launch_argv=("--tp-size", "8", "--speculative-algorithm=EAGLE3")
    )
    comparison = compare(baseline, candidate)
    assert comparison.verdict is Verdict.REGRESSED
    primary = comparison.metrics[0]
    assert primary.metric == "output_throughput_tps"
    assert primary.ratio == pytest.approx(24.8 / 90, rel=0.01)
    assert primary.ratio_high is not None
    assert primary.ratio_high < 0.3
    (accept,) = [value for value in comparison.context if value.metric == "accept_length"]
    assert (accept.baseline, accept.candidate) == (None, 1.0)
    assert [(d.field, d.baseline, d.candidate) for d in comparison.setup_differences] == [
        ("--speculative-algorithm", None, "EAGLE3")
    ]


def test_a_single_run_is_judged_against_a_baseline_with_repeats() -> None:
    assert compare(results(STEADY), [result(24.8)]).verdict is Verdict.REGRESSED
    assert compare(results(STEADY), [result(89.0)]).verdict is Verdict.INCONCLUSIVE


def test_two_single_runs_have_no_noise_estimate_and_get_no_verdict() -> None:
    comparison = compare([result(90.0)], [result(24.8)])
    assert (comparison.verdict, comparison.more_repeats) == (Verdict.INCONCLUSIVE, 4)
    assert "no noise estimate" in comparison.reasons[0]
    assert comparison.metrics[0].ratio == pytest.approx(24.8 / 90)
    assert comparison.metrics[0].ratio_low is None


def test_a_known_noise_lets_single_runs_be_judged() -> None:
    policy = Policy(noise={"output_throughput_tps": KnownNoise(between_runs=0.01, one_repeat=0.02, runs=8)})
    assert compare([result(90.0)], [result(24.8)], policy=policy).verdict is Verdict.REGRESSED
    assert compare([result(90.0)], [result(88.0)], policy=policy).verdict is Verdict.INCONCLUSIVE


def test_better_is_higher_for_throughput_and_lower_for_latency() -> None:
    baseline = results(STEADY, ttft_ms=200.0)
    faster = [result(value * 1.2, ttft_ms=100.0 + i) for i, value in enumerate(STEADY)]
    comparison = compare(baseline, faster)
    assert comparison.verdict is Verdict.IMPROVED
    assert of(comparison, "ttft_p50_ms").verdict is Verdict.IMPROVED
    assert of(comparison, "tpot_p99_ms").verdict is Verdict.IMPROVED
    assert {item.metric for item in compare(faster, baseline).regressions} == {
        *("output_throughput_tps", "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms")
    }


def test_a_certain_but_small_change_is_equivalent() -> None:
    baseline = results([100.0, 100.1, 99.9, 100.05])
    candidate = results([99.0, 99.1, 98.9, 99.05])
    primary = compare(baseline, candidate).metrics[0]
    assert primary.p is not None
    assert primary.p < 0.001
    assert primary.verdict is Verdict.EQUIVALENT


def test_inconclusive_says_how_many_more_repeats() -> None:
    comparison = compare(results([100, 104, 97]), results([99, 96, 103]))
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert comparison.more_repeats is not None
    assert comparison.more_repeats > 10
    assert f"{comparison.more_repeats} more repeats" in comparison.reasons[0]


def test_the_formula_of_the_repeats() -> None:
    assert repeats_needed(0.02, 0.05) == 3
    assert repeats_needed(0.02, 0.02) == 16


def test_known_noise_widens_the_threshold_of_its_metric() -> None:
    baseline, candidate = results([100, 100.5, 99.5, 100.2]), results([95, 95.5, 94.5, 95.2])
    assert compare(baseline, candidate).verdict is Verdict.REGRESSED
    wide = Policy(noise={"output_throughput_tps": KnownNoise(between_runs=0.04, one_repeat=0.08, runs=8)})
    comparison = compare(baseline, candidate, policy=wide)
    assert comparison.verdict is Verdict.EQUIVALENT
    assert any("8 earlier runs of the same" in caution and "8.0%" in caution for caution in comparison.cautions)


@pytest.mark.parametrize(
    ("part", "change", "says"),
    [
        ("load", {"max_concurrency": 8}, "max_concurrency differs: 16 against 8"),
        ("host", {"gpu_model": "H200"}, "gpu_model differs: B200 against H200"),
        ("host", {"gpu_count_used": 4}, "gpu_count_used differs"),
        ("server", {"model_id": "qwen"}, "model differs: kimi-k2 against qwen"),
        ("server", {"model_fingerprint": "abc"}, "model differs: kimi-k2 against weights abc"),
        ("workload", {"dataset_sha256": "1" * 64}, "dataset_sha256 differs: unknown against 111"),
    ],
)
def test_another_question_is_not_comparable_and_says_why(part: str, change: dict[str, object], says: str) -> None:
    candidate = [changed(item, part, **change) for item in results(FEW)]
    comparison = compare(results(FEW), candidate)
    assert comparison.verdict is Verdict.NOT_COMPARABLE
    assert any(says in reason for reason in comparison.reasons)
    assert {item.verdict for item in comparison.metrics} == {Verdict.NOT_COMPARABLE}
    assert comparison.key_differences
    assert comparability_key(candidate[0]) != comparability_key(result())


def test_a_difference_that_is_accepted_becomes_a_caution() -> None:
    candidate = [changed(item, "host", gpu_model="H200") for item in results([60.0, 61.0, 59.5])]
    accepting = Policy(accepted_differences=frozenset({"gpu_model"}))
    comparison = compare(results(FEW), candidate, policy=accepting)
    assert comparison.verdict is Verdict.REGRESSED
    assert comparison.cautions[0] == "gpu_model differs: B200 against H200: accepted by who asked"
    both = [changed(item, "load", max_concurrency=8) for item in candidate]
    assert compare(results(FEW), both, policy=accepting).verdict is Verdict.NOT_COMPARABLE


def test_the_seed_and_the_engine_do_not_change_the_key() -> None:
    other = changed(changed(result(), "workload", seed=7), "server", engine_version="0.6.0", quantization="fp8")
    assert comparability_key(other) == comparability_key(result())
    assert key_differences(result(), other) == ()


def test_sizes_that_only_the_server_told_are_among_what_was_changed() -> None:
    """An imported file has no arguments of the server, but its sizes."""
    four, eight = (results(FEW, launch_argv=(), tp=size, dp=1) for size in (4, 8))
    told = [(item.field, item.baseline, item.candidate) for item in compare(four, eight).setup_differences]
    assert told == [("tp", 4, 8)]


def test_failed_requests_block_the_verdict() -> None:
    bad = changed(result(91.0), "totals", requests_completed=97, requests_failed=3)
    bad = bad.model_copy(update={"status": status_of(bad.totals)})
    assert bad.status is ResultStatus.DEGRADED
    comparison = compare(results(FEW), [*results([90.0, 90.5]), bad])
    assert comparison.verdict is Verdict.NOT_COMPARABLE
    assert comparison.reasons == ("1 of 3 runs of the candidate are degraded or failed (3 requests failed)",)
    assert comparison.metrics[0].ratio is not None


def test_other_output_lengths_block_the_verdict() -> None:
    longer = [changed(item, "workload", output_tokens_mean=260.0) for item in results(FEW)]
    assert "other lengths: 256.0 against 260.0" in compare(results(FEW), longer).reasons[0]
    nearly = [changed(item, "workload", output_tokens_mean=257.0) for item in results(FEW)]
    assert compare(results(FEW), nearly).reasons != compare(results(FEW), longer).reasons


def test_gaps_measured_in_other_ways_are_left_alone() -> None:
    candidate = [changed(item, "latencies", itl_kind=ItlKind.CHUNK_GAP) for item in results(FEW)]
    comparison = compare(results(FEW), candidate, policy=Policy(metrics=["itl_p50_ms"]))
    assert of(comparison, "itl_p50_ms").verdict is Verdict.NOT_COMPARABLE
    assert comparison.verdict is not Verdict.NOT_COMPARABLE


def test_a_metric_that_nobody_measured_is_not_in_the_table() -> None:
    assert "goodput_rps" not in {item.metric for item in compare(results(FEW), results(FEW)).metrics}


def test_goodput_that_fell_to_zero_is_regressed_by_ranks() -> None:
    good = [changed(item, "rates", goodput_rps=5.0 + i / 10) for i, item in enumerate(results(STEADY))]
    none = [changed(item, "rates", goodput_rps=0.0) for item in results(STEADY)]
    judged = of(compare(good, none), "goodput_rps")
    assert judged.verdict is Verdict.REGRESSED
    assert judged.reason is not None
    assert "ranks alone" in judged.reason
    assert of(compare(none, none), "goodput_rps").verdict is Verdict.EQUIVALENT
    assert of(compare(good[:3], none[:3]), "goodput_rps").verdict is Verdict.INCONCLUSIVE


def test_several_starts_are_the_unit_where_both_sides_have_them() -> None:
    def two_starts(low: float, high: float) -> list[Result]:
        first = [result(low + i / 10, server_instance_id="a") for i in range(4)]
        return [*first, *(result(high + i / 10, server_instance_id="b") for i in range(4))]

    apart = compare(two_starts(90, 100), two_starts(88, 98))
    assert apart.metrics[0].is_by_start
    assert apart.verdict is Verdict.INCONCLUSIVE
    assert any("means of the starts" in caution for caution in apart.cautions)


def test_one_metric_among_many_needs_more_to_be_shown() -> None:
    generator = random.Random(3)
    baseline, candidate = results(STEADY), results(STEADY)
    names = [f"{part}_{at}_ms" for part in ("ttft", "e2e") for at in ("mean", "p50", "p90", "p95", "p99")]
    shifted = [400.0 * (0.955 + 0.02 * generator.random()) for _ in STEADY]
    noisy = [400.0 * (0.97 + 0.06 * generator.random()) for _ in STEADY]

    def with_latencies(item: Result, value: float) -> Result:
        spread = {at: value * (1 + generator.gauss(0, 0.03)) for at in ("mean", "p90", "p95", "p99")}
        return changed(item, "latencies", e2e_ms=Distribution.model_validate({**spread, "p50": value}))

    first = [with_latencies(item, value) for item, value in zip(baseline, noisy, strict=True)]
    second = [with_latencies(item, value) for item, value in zip(candidate, shifted, strict=True)]
    alone = of(compare(first, second, policy=Policy(primary="e2e_p50_ms", metrics=())), "e2e_p50_ms")
    among = of(compare(first, second, policy=Policy(metrics=names)), "e2e_p50_ms")
    assert alone.p is not None
    assert among.p is not None
    assert among.p > alone.p
    assert among.ratio == alone.ratio


def test_cautions_name_what_was_taken_on_trust() -> None:
    imported = [
        Result(
            client=ClientProvenance(tool=tool),
            workload=WorkloadFacts(),
            host=HostProvenance(other_gpu_processes=1),
            totals=Totals(requests_completed=1),
            rates=Rates(output_throughput_tps=9.0),
        )
        for tool in ("vllm", "sglang")
    ]
    capped = [changed(item, "load", mode=LoadMode.CLOSED_CAPPED) for item in imported]
    text = " | ".join([*compare(imported[:1], imported[1:]).cautions, *compare(capped[:1], capped[1:]).cautions])
    for part in ("model, dataset, load_mode, gpu_model", "other tools", "other processes used the GPUs", "capped"):
        assert part in text
    assert any("one start" in caution for caution in compare(results(FEW), results(FEW)).cautions)


def in_an_open_loop(*, ttft_ms: float, e2e_ms: float | None) -> list[Result]:
    load = LoadFacts(mode=LoadMode.OPEN_POISSON, request_rate_target_rps=4.0)
    told = None if e2e_ms is None else Distribution(p50=e2e_ms)
    made = [changed(item, "latencies", e2e_ms=told) for item in results(STEADY, ttft_ms=ttft_ms)]
    return [item.model_copy(update={"load": load}) for item in made]


@pytest.mark.parametrize(("e2e_ms", "primary"), [((3000.0, 9000.0), "e2e_p50_ms"), ((None, 9000.0), "ttft_p50_ms")])
def test_an_open_loop_is_judged_by_latency(e2e_ms: tuple[float | None, float], primary: str) -> None:
    """Its throughput is that of the arrivals: a server three times as slow shows the same."""
    quick = in_an_open_loop(ttft_ms=200.0, e2e_ms=e2e_ms[0])
    late = in_an_open_loop(ttft_ms=2000.0, e2e_ms=e2e_ms[1])
    made = compare(quick, late)
    assert (made.verdict, made.primary) == (Verdict.REGRESSED, primary)
    assert of(made, "output_throughput_tps").verdict is Verdict.EQUIVALENT
    assert compare(late, quick).verdict is Verdict.IMPROVED
    assert compare(results(STEADY), results(STEADY)).primary == "output_throughput_tps"


def test_who_asks_for_the_throughput_of_an_open_loop_is_told_what_sets_it() -> None:
    quick, late = (in_an_open_loop(ttft_ms=ms, e2e_ms=None) for ms in (200.0, 2000.0))
    asked = compare(quick, late, policy=Policy(primary="output_throughput_tps"))
    assert asked.verdict is Verdict.EQUIVALENT
    assert any("set by the arrivals" in caution for caution in asked.cautions)
    assert not any("set by the arrivals" in caution for caution in compare(quick, late).cautions)


def test_a_change_of_what_has_no_better_direction_says_why_it_gets_no_verdict() -> None:
    before, after = ([result(90, accept_length=length + step) for step in (0, 0.01, 0.02)] for length in (3.1, 1.0))
    made = compare(before, after, policy=Policy(primary="accept_length"))
    assert (made.verdict, made.more_repeats) == (Verdict.INCONCLUSIVE, None)
    assert made.reasons == ("accept_length changed by -67.5 %, but neither direction is better",)


def test_what_only_one_side_tells_is_not_taken_to_be_equal() -> None:
    untold = [changed(item, "host", gpu_model=None) for item in results(FEW)]
    accepted = Policy(accepted_differences=frozenset({"gpu_model"}))
    text = " | ".join(compare(untold, results(FEW), policy=accepted).cautions)
    assert "gpu_model differs: unknown against B200" in text
    assert "taken to be equal" not in text
    assert "taken to be equal: gpu_model" in " | ".join(compare(untold, untold).cautions)


def test_a_difference_that_the_ranks_do_not_see_is_pointed_at() -> None:
    baseline, candidate = results([100.0, 100.1, 99.9, 100.05, 99.95, 100.02]), [96.0, 96.1, 95.9, 96.05, 95.95]
    with_outlier = compare(baseline, results([*candidate, 100.3]))
    assert with_outlier.verdict is Verdict.REGRESSED
    assert any("output_throughput_tps: the rank test" in caution for caution in with_outlier.cautions)
    assert not any("rank test" in caution for caution in compare(baseline, results([*candidate, 96.02])).cautions)


def test_a_side_mixes_no_points_and_is_not_empty() -> None:
    with pytest.raises(ValueError, match="max_concurrency"):
        compare([result(), result(concurrency=8)], [result()])
    with pytest.raises(ValueError, match="no result"):
        compare([], [result()])


def test_turns_alternate_so_that_drift_hits_both() -> None:
    assert [interleaved(n) for n in (0, 1, 2, 3)] == ["", "AB", "ABBA", "ABBAAB"]


def test_no_threshold_and_no_value_is_too_small_to_be_judged() -> None:
    same = results([90, 91])
    for policy in (Policy(threshold=1e-200), Policy(threshold=5e-324)):
        assert compare(same, same, policy=policy).more_repeats == MAX_MORE_REPEATS
    tiny, large = ([result(90, ttft_ms=ms) for _ in range(3)] for ms in (1e-300, 1e15))
    for first, second in ((tiny, large), (large, tiny)):
        judged = compare(first, second, policy=Policy(primary="ttft_p50_ms"))
        assert judged.verdict in {Verdict.IMPROVED, Verdict.REGRESSED}
        known = Policy(primary="ttft_p50_ms", noise={"ttft_p50_ms": KnownNoise(0.01, 0.01, 12)})
        assert math.isfinite(compare(first[:1], second[:1], policy=known).metrics[0].ratio or 0.0)
