"""Each tool's file comes to the same formulas, whatever its labels."""

import json
import math
from typing import Any

import pytest

from service.benchmarks.comparability import key_differences
from service.benchmarks.importing import Mapped, ResultKind, import_file
from service.benchmarks.points import load_label
from service.benchmarks.results import AcceptScope, AcceptWeighting, ItlKind, LoadMode, ResultStatus, Slo
from tests.benchmarks.tool_files import (
    FILES,
    aiperf,
    as_bytes,
    evalscope_percentiles,
    evalscope_summary,
    genai_perf,
    guidellm,
    sglang_line,
    vllm,
)


def one(content: bytes, kind: ResultKind, companion: bytes | None = None) -> Mapped:
    file = import_file(content, companion=companion)
    assert file.kind is kind
    (mapped,) = file.results
    assert mapped.result.is_imported
    assert mapped.result.client.raw_sha256 == file.sha256
    return mapped


def test_a_real_file_of_sglang_gives_the_clients_own_numbers() -> None:
    own = json.loads((FILES / "sglang-0.5.23.jsonl").read_text())
    result = one((FILES / "sglang-0.5.23.jsonl").read_bytes(), ResultKind.SGLANG).result
    assert result.status is ResultStatus.OK
    assert result.rates.output_throughput_tps == pytest.approx(own["output_throughput"])
    assert result.rates.request_throughput_rps == pytest.approx(own["request_throughput"])
    assert result.rates.total_throughput_tps == pytest.approx(own["total_throughput"])
    assert result.rates.mean_concurrency == own["concurrency"]
    assert result.rates.goodput_rps == own["request_goodput"]
    assert result.slo == Slo(ttft_ms=2000, tpot_ms=200)
    ttft, e2e = result.latencies.ttft_ms, result.latencies.e2e_ms
    assert ttft is not None
    assert e2e is not None
    assert (ttft.mean, ttft.p50, ttft.p99, ttft.n) == (
        *(own["mean_ttft_ms"], own["median_ttft_ms"], own["p99_ttft_ms"], 12),
    )
    assert ttft.max == pytest.approx(1000 * max(own["ttfts"]))
    assert (e2e.std, e2e.p95) == (own["std_e2e_latency_ms"], own["p95_e2e_latency_ms"])
    assert result.latencies.itl_kind is ItlKind.TOKEN_SPLIT
    assert (result.load.mode, result.load.max_concurrency) == (LoadMode.CLOSED, 3)
    assert result.load.request_rate_target_rps is None
    assert (result.server.engine_version, result.server.model_id, result.server.tp) == ("0.5.23", "/models/tiny", 1)
    assert (result.workload.input_tokens_asked, result.workload.input_tokens_mean) == (32, 32)


def test_percentiles_that_an_older_version_leaves_out_come_from_its_details() -> None:
    own = json.loads((FILES / "sglang-0.5.10.post1.jsonl").read_text())
    assert "p95_ttft_ms" not in own
    ttft = one((FILES / "sglang-0.5.10.post1.jsonl").read_bytes(), ResultKind.SGLANG).result.latencies.ttft_ms
    assert ttft is not None
    assert ttft.p95 is not None
    assert sorted(own["ttfts"])[-2] * 1000 < ttft.p95 < max(own["ttfts"]) * 1000


def test_failed_requests_degrade_whatever_the_exit_code_was() -> None:
    mapped = one((FILES / "sglang-0.5.23-failures.jsonl").read_bytes(), ResultKind.SGLANG)
    totals = mapped.result.totals
    assert mapped.result.status is ResultStatus.DEGRADED
    assert (totals.requests_sent, totals.requests_completed, totals.requests_failed) == (6, 3, 3)
    assert any("temperature must be" in note for note in mapped.notes)


def test_without_details_failures_are_unknown_and_that_is_said() -> None:
    mapped = one(sglang_line(errors=None), ResultKind.SGLANG)
    assert mapped.result.totals.requests_failed is None
    assert mapped.result.status is ResultStatus.OK
    assert any("--output-details" in note for note in mapped.notes)


def test_nothing_answered_is_failed_and_has_no_latencies() -> None:
    nan = float("nan")
    line = sglang_line(
        completed=0, errors=["no"] * 12, total_output_tokens=0, mean_e2e_latency_ms=nan, mean_ttft_ms=0, concurrency=nan
    )
    result = one(line, ResultKind.SGLANG).result
    assert result.status is ResultStatus.FAILED
    assert result.latencies.ttft_ms is None
    assert result.rates.mean_concurrency is None
    assert result.rates.output_throughput_tps == 0


def test_no_key_of_the_server_and_no_text_is_kept() -> None:
    document = json.loads((FILES / "sglang-0.5.23.jsonl").read_text())
    document["server_info"]["api_key"] = "sk-secret"
    document["generated_texts"] = ["private"] * 12
    mapped = one(as_bytes(document), ResultKind.SGLANG)
    kept = mapped.result.model_dump_json() + json.dumps(mapped.unmapped) + "".join(mapped.notes)
    assert "sk-secret" not in kept
    assert "private" not in kept


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({}, LoadMode.CLOSED),
        ({"max_concurrency": None}, LoadMode.BURST),
        ({"request_rate": 4.0, "max_concurrency": None}, LoadMode.OPEN_POISSON),
        ({"request_rate": 4.0}, LoadMode.CLOSED_CAPPED),
        ({"request_rate": "trace"}, LoadMode.UNKNOWN),
    ],
)
def test_the_load_of_sglang_is_what_really_happened(changes: dict[str, Any], mode: LoadMode) -> None:
    assert one(sglang_line(**changes), ResultKind.SGLANG).result.load.mode is mode


def test_random_lengths_of_sglang_are_another_question_by_their_mean() -> None:
    """The client draws each length from a share of the full one to the full one; its default share is 0."""
    spread: dict[str, Any] = {"random_range_ratio": 0.0, "random_output_len": 15}
    short, long = (
        one(sglang_line(random_input_len=length, **spread), ResultKind.SGLANG).result for length in (1023, 8191)
    )
    assert (short.workload.input_tokens_asked, short.workload.output_tokens_asked) == (512, 8)
    assert [item.field for item in key_differences(short, long)] == ["input_tokens_asked"]


def test_the_accept_length_of_a_file_is_not_taken_for_that_of_the_run_alone() -> None:
    result = one(sglang_line(accept_length=2.6, backend="sglang-oai"), ResultKind.SGLANG).result
    assert result.spec_decode is not None
    assert (result.spec_decode.accept_length, result.spec_decode.includes_bonus) == (2.6, True)
    assert (result.spec_decode.scope, result.spec_decode.dp_rank) == (AcceptScope.SERVER_LIFETIME, 0)
    assert result.latencies.itl_kind is ItlKind.RETOKENIZED


def test_several_lines_are_several_results() -> None:
    content = sglang_line(tag="a") + b"\n" + sglang_line(max_concurrency=8) + b"\n\n"
    assert [item.result.load.max_concurrency for item in import_file(content).results] == [3, 8]


def test_vllm_is_divided_again_from_its_counts() -> None:
    mapped = one(as_bytes(vllm()), ResultKind.VLLM)
    result = mapped.result
    assert (result.rates.output_throughput_tps, result.rates.total_throughput_tps) == (320.0, 960.0)
    assert result.rates.request_throughput_rps == 5.0
    assert (result.load.mode, result.load.request_rate_target_rps, result.workload.api) == (
        LoadMode.CLOSED,
        None,
        "chat",
    )
    ttft, tpot, e2e = result.latencies.ttft_ms, result.latencies.tpot_ms, result.latencies.e2e_ms
    assert ttft is not None
    assert tpot is not None
    assert e2e is not None
    assert (ttft.mean, ttft.p50, ttft.p99, tpot.p50, e2e.mean) == (100.0, 101.0, 103.0, 201.0, 400.0)
    assert result.latencies.itl_kind is ItlKind.CHUNK_GAP
    assert result.spec_decode is not None
    assert (result.spec_decode.accept_length, result.spec_decode.draft_acceptance_rate) == (2.875, 0.625)
    assert mapped.unmapped["date"] == "20261129-120000"


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({"request_rate": 4.0, "max_concurrency": None}, LoadMode.OPEN_POISSON),
        ({"request_rate": 4.0, "max_concurrency": None, "burstiness": 0.5}, LoadMode.OPEN_GAMMA),
        ({"request_rate": 4.0}, LoadMode.CLOSED_CAPPED),
        ({"max_concurrency": None}, LoadMode.BURST),
        ({"ramp_up_strategy": "linear"}, LoadMode.UNKNOWN),
    ],
)
def test_the_load_of_vllm(changes: dict[str, Any], mode: LoadMode) -> None:
    assert one(as_bytes({**vllm(), **changes}), ResultKind.VLLM).result.load.mode is mode


def test_failures_of_vllm_degrade() -> None:
    result = one(as_bytes({**vllm(), "completed": 98, "failed": 2}), ResultKind.VLLM).result
    assert result.status is ResultStatus.DEGRADED
    assert result.totals.requests_sent == 100


def test_an_older_file_of_vllm_tells_failures_by_the_number_of_its_prompts() -> None:
    older = {name: value for name, value in vllm().items() if name != "failed"}
    totals = one(as_bytes(older), ResultKind.VLLM).result.totals
    assert (totals.requests_sent, totals.requests_failed) == (100, 0)
    short = one(as_bytes({**older, "completed": 80}), ResultKind.VLLM).result
    assert short.status is ResultStatus.DEGRADED
    assert (short.totals.requests_sent, short.totals.requests_failed) == (100, 20)


def test_goodput_without_its_limits_is_kept_raw() -> None:
    mapped = one(as_bytes({**vllm(), "request_goodput": 4.5}), ResultKind.VLLM)
    assert mapped.result.rates.goodput_rps is None
    assert mapped.unmapped["request_goodput"] == 4.5
    assert any("limits" in note for note in mapped.notes)


def test_guidellm_labels_are_not_believed() -> None:
    file = import_file(as_bytes(guidellm()))
    assert file.kind is ResultKind.GUIDELLM
    first, second = (item.result for item in file.results)
    tpot, e2e = first.latencies.tpot_ms, first.latencies.e2e_ms
    assert tpot is not None
    assert e2e is not None
    assert (tpot.mean, tpot.p99, tpot.n) == (37.0, 45.0, 90)
    assert (e2e.mean, e2e.p50, e2e.std) == (2500.0, 3500.0, 2000.0)
    assert first.rates.output_throughput_tps == 64.0 * 90 / 30
    assert first.rates.request_throughput_rps == 3.0
    assert first.rates.goodput_rps == pytest.approx(2.7)
    assert first.rates.slo_attainment == pytest.approx(0.9)
    assert (first.load.mode, first.load.max_concurrency) == (LoadMode.CLOSED, 8)
    assert (second.load.mode, second.load.request_rate_target_rps) == (LoadMode.OPEN_POISSON, 4.0)
    assert first.started_at is not None
    assert first.started_at.isoformat() == "2026-11-29T12:00:00+00:00"
    assert first.server.model_id == "qwen3-8b"
    assert file.results[0].unmapped["time_per_output_token_ms (mean)"] == 39.0


def test_requests_cut_off_by_the_end_of_guidellm_are_no_failures() -> None:
    mapped = import_file(as_bytes(guidellm())).results[0]
    assert mapped.result.status is ResultStatus.OK
    assert any("6 requests were cut off" in note for note in mapped.notes)


def test_a_rate_of_guidellm_that_hit_its_cap_is_labelled() -> None:
    report = guidellm()
    report["benchmarks"][1]["config"]["strategy"]["max_concurrency"] = 16
    assert import_file(as_bytes(report)).results[1].result.load.mode is LoadMode.CLOSED_CAPPED


def test_aiperf_goes_by_units_and_its_itl_is_our_tpot() -> None:
    result = one(as_bytes(aiperf()), ResultKind.AIPERF).result
    assert result.totals.duration_s == 25.0
    assert (result.rates.output_throughput_tps, result.rates.request_throughput_rps) == (128.0, 2.0)
    tpot, itl, e2e = result.latencies.tpot_ms, result.latencies.itl_ms, result.latencies.e2e_ms
    assert tpot is not None
    assert itl is not None
    assert e2e is not None
    assert (tpot.mean, tpot.p50, itl.mean, e2e.mean, e2e.p99) == (11.0, 12.0, 22.0, 2000.0, 6000.0)
    assert result.latencies.itl_kind is ItlKind.CHUNK_GAP
    assert (result.rates.goodput_rps, result.rates.slo_attainment) == (1.6, 0.8)
    assert result.spec_decode is not None
    assert (result.spec_decode.accept_length, result.spec_decode.weighting) == (2.5, AcceptWeighting.VERIFY_STEP)
    assert result.spec_decode.draft_acceptance_rate == 0.5
    assert (result.load.mode, result.load.max_concurrency) == (LoadMode.CLOSED, 8)
    assert (result.server.model_id, result.workload.api, result.workload.seed) == ("qwen3-8b", "chat", 11)


def test_goodput_of_aiperf_without_its_limits_is_kept_raw() -> None:
    with_limits, document = one(as_bytes(aiperf()), ResultKind.AIPERF), aiperf()
    del document["input_config"]["slos"]
    mapped = one(as_bytes(document), ResultKind.AIPERF)
    assert mapped.result.rates.goodput_rps is None
    assert "goodput" in mapped.unmapped
    assert any("goodput is kept raw" in note for note in mapped.notes)
    assert not any("goodput" in note for note in with_limits.notes)
    assert "goodput" not in with_limits.unmapped


def test_goodput_of_aiperf_by_other_limits_than_ours_is_kept_raw() -> None:
    document = aiperf()
    document["input_config"]["slos"]["output_token_throughput_per_user"] = 30
    mapped = one(as_bytes(document), ResultKind.AIPERF)
    assert (mapped.result.slo, mapped.result.rates.goodput_rps, mapped.result.rates.slo_attainment) == (None,) * 3
    assert "goodput" in mapped.unmapped
    assert any("output_token_throughput_per_user" in note for note in mapped.notes)


def test_nanoseconds_of_aiperf_are_nanoseconds() -> None:
    document = aiperf()
    document["time_to_first_token"] |= {"unit": "ns", "avg": 5_000_000.0}
    ttft = one(as_bytes(document), ResultKind.AIPERF).result.latencies.ttft_ms
    assert ttft is not None
    assert ttft.mean == pytest.approx(5.0)


@pytest.mark.parametrize("change", [{"was_cancelled": True}, {"is_complete": False}])
def test_a_run_of_aiperf_that_did_not_end_is_degraded(change: dict[str, bool]) -> None:
    assert one(as_bytes({**aiperf(), **change}), ResultKind.AIPERF).result.status is ResultStatus.DEGRADED


def test_genai_perf_has_the_same_shape_with_less_in_it() -> None:
    result = one(as_bytes(genai_perf()), ResultKind.GENAI_PERF).result
    assert result.client.tool == "genai-perf"
    assert (result.totals.duration_s, result.totals.output_tokens) == (25.0, 3200)
    assert (result.load.mode, result.load.max_concurrency) == (LoadMode.CLOSED, 4)


@pytest.mark.parametrize(
    ("config", "load"),
    [
        ({"perf_analyzer": {"stimulus": {"request_rate": 4.0}}}, (None, 4.0)),
        ({"concurrency": 4, "request_rate": None}, (4, None)),
        ({"concurrency": None, "request_rate": 2.5}, (None, 2.5)),
    ],
)
def test_the_load_of_genai_perf(config: dict[str, Any], load: tuple[int | None, float | None]) -> None:
    told = one(as_bytes({**genai_perf(), "input_config": config}), ResultKind.GENAI_PERF).result.load
    assert (told.max_concurrency, told.request_rate_target_rps) == load


def test_evalscope_takes_its_two_files_in_either_order() -> None:
    summary, table = as_bytes(evalscope_summary()), as_bytes(evalscope_percentiles())
    first = one(summary, ResultKind.EVALSCOPE, table).result
    second = one(table, ResultKind.EVALSCOPE, summary).result
    assert first.latencies == second.latencies
    ttft, e2e = first.latencies.ttft_ms, first.latencies.e2e_ms
    assert ttft is not None
    assert e2e is not None
    assert (ttft.mean, ttft.p50, ttft.p99, ttft.max) == (140.0, 102.0, 105.0, 106.0)
    assert (e2e.mean, e2e.p90) == (3500.0, 6000.0)
    assert (first.rates.output_throughput_tps, first.rates.request_throughput_rps) == (128.0, 2.0)
    assert first.cache is not None
    assert first.cache.hit_rate == 0.25


def test_what_evalscope_only_estimates_is_kept_raw() -> None:
    mapped = one(as_bytes(evalscope_summary()), ResultKind.EVALSCOPE)
    assert mapped.result.spec_decode is None
    assert set(mapped.unmapped) == {"Avg Decoded Tok/Iter", "Input Throughput (tok/s)"}
    assert any("benchmark_percentile.json" in note for note in mapped.notes)


def test_without_streaming_evalscopes_first_token_is_no_first_token() -> None:
    summary = {**evalscope_summary(), "Stream Requests": 0, "Non-Stream Requests": 80}
    latencies = one(as_bytes(summary), ResultKind.EVALSCOPE).result.latencies
    assert (latencies.ttft_ms, latencies.tpot_ms) == (None, None)
    assert latencies.e2e_ms is not None


def test_minus_one_of_evalscope_is_absent() -> None:
    summary = {**evalscope_summary(), "Avg TTFT (ms)": -1000, "Avg Latency (s)": -1, "Concurrency": -1}
    result = one(as_bytes(summary), ResultKind.EVALSCOPE).result
    assert (result.latencies.ttft_ms, result.latencies.e2e_ms) == (None, None)
    assert (result.load.mode, result.load.max_concurrency) == (LoadMode.UNKNOWN, None)


@pytest.mark.parametrize(
    ("concurrency", "rate", "mode"),
    [
        (8, -1, LoadMode.CLOSED),
        (-1, 4, LoadMode.OPEN_POISSON),
        (8, 4, LoadMode.CLOSED_CAPPED),
    ],
)
def test_the_load_of_evalscope(concurrency: int, rate: float, mode: LoadMode) -> None:
    summary = {**evalscope_summary(), "Concurrency": concurrency, "Request Rate (req/s)": rate}
    assert one(as_bytes(summary), ResultKind.EVALSCOPE).result.load.mode is mode


def test_no_result_holds_a_number_that_is_not_finite() -> None:
    line = sglang_line(mean_ttft_ms=math.inf, p99_ttft_ms=math.nan, duration=10**400)
    result = one(line, ResultKind.SGLANG).result
    assert result.totals.duration_s is None
    text = result.model_dump_json()
    assert "NaN" not in text
    assert "Infinity" not in text


@pytest.mark.parametrize(
    ("content", "label"),
    [
        (sglang_line(max_concurrency=None), "unlimited"),
        (sglang_line(max_concurrency=None, request_rate="trace"), "unknown load"),
        (as_bytes({**vllm(), "ramp_up_strategy": "linear", "max_concurrency": None}), "unknown load"),
    ],
)
def test_a_load_that_is_not_known_is_not_called_unlimited(content: bytes, label: str) -> None:
    (mapped,) = import_file(content).results
    assert load_label(mapped.result) == label
