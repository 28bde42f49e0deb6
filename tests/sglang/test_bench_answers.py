"""Requests to which no text came: told by their first token, and the client's numbers made anew without them."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.benchmarks.importing import import_file
from service.benchmarks.results import ResultStatus
from service.sglang.bench_answers import NO_TEXT, true_answers
from service.sglang.bench_results import read_serving_result

REAL = Path(__file__).parents[1] / "benchmarks" / "files" / "sglang-0.5.23.jsonl"
LABELS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2e_latency"}


def real() -> dict[str, Any]:
    return dict(json.loads(REAL.read_text()))


def with_silent(count: int = 1) -> dict[str, Any]:
    """Return the file as the client would have written it with so many refused requests more."""
    document = real()
    for name, value in (("ttfts", 0.0), ("itls", []), ("errors", ""), ("input_lens", 3000), ("output_lens", 16)):
        document[name] += [value] * count
    document["completed"] += count
    document["total_output_tokens"] += 16 * count
    return document


def test_without_the_refused_ones_the_numbers_are_those_of_the_others() -> None:
    document = real()
    read = read_serving_result(with_silent(3))
    assert (read.completed, read.failed, read.sent) == (12, 3, 15)
    assert (read.output_tokens, read.input_tokens) == (document["total_output_tokens"], 384)
    assert read.mean_concurrency == pytest.approx(document["concurrency"], rel=0.01)
    for name, label in LABELS.items():
        for statistic, prefix in (("mean", "mean"), ("p50", "median"), ("std", "std"), ("p99", "p99")):
            expected = document[f"{prefix}_{label}_ms"]
            assert read.distributions[name][statistic] == pytest.approx(expected, rel=0.02), (name, statistic)
    assert read.goodput_rps is None


def test_a_run_of_refusals_alone_has_failed() -> None:
    document = real()
    document["ttfts"] = [0.0] * 12
    document["itls"] = [[] for _ in range(12)]
    (item,) = import_file(json.dumps(document).encode()).results
    assert item.result.status is ResultStatus.FAILED
    assert (item.result.totals.requests_completed, item.result.totals.requests_failed) == (0, 12)
    assert item.result.latencies.ttft_ms is None
    assert any(NO_TEXT in note for note in item.notes)


def test_a_run_with_some_refusals_is_degraded() -> None:
    (item,) = import_file(json.dumps(with_silent()).encode()).results
    assert item.result.status is ResultStatus.DEGRADED
    assert item.result.rates.output_throughput_tps == pytest.approx(real()["output_throughput"])


def test_without_gaps_only_the_first_tokens_are_known() -> None:
    document = with_silent()
    del document["itls"]
    read = read_serving_result(document)
    assert set(read.distributions) == {"ttft"}
    assert read.mean_concurrency is None


@pytest.mark.parametrize(
    "changes",
    [{}, {"ttfts": None}, {"errors": None}, {"ttfts": [0.0]}, {"ttfts": ["a"] * 12}, {"ttfts": [float("nan")] * 12}],
)
def test_where_nobody_can_tell_the_file_is_taken_as_it_is(changes: dict[str, Any]) -> None:
    document = {**real(), **changes}
    assert true_answers(document) is None
    assert read_serving_result(document).completed == 12
