"""Result files in the shapes that the tools write, made from their documented fields."""

import json
from pathlib import Path
from typing import Any

FILES = Path(__file__).parent / "files"


def sglang_line(name: str = "sglang-0.5.23.jsonl", **changes: object) -> bytes:
    """Return a line that the real client wrote, with fields changed; None takes a field out."""
    document = json.loads((FILES / name).read_text())
    document.update(changes)
    return as_bytes({field: value for field, value in document.items() if value is not None})


def as_bytes(document: object) -> bytes:
    return json.dumps(document).encode()


def vllm() -> dict[str, Any]:
    """Follow vllm/benchmarks/serve.py, --save-result with --percentile-metrics ttft,tpot,itl,e2el."""
    latencies: dict[str, float] = {}
    for index, label in enumerate(("ttft", "tpot", "itl", "e2el"), start=1):
        for offset, statistic in enumerate(("mean", "median", "std", "p99")):
            latencies[f"{statistic}_{label}_ms"] = 100.0 * index + offset
    return {
        "date": "20261129-120000",
        "endpoint_type": "openai-chat",
        "backend": "openai-chat",
        "label": None,
        "model_id": "meta-llama/Llama-3.1-8B-Instruct",
        "tokenizer_id": "meta-llama/Llama-3.1-8B-Instruct",
        "num_prompts": 100,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 16,
        "duration": 20.0,
        "completed": 100,
        "failed": 0,
        "total_input_tokens": 12_800,
        "total_output_tokens": 6400,
        "request_throughput": 999.0,
        "request_goodput": None,
        "output_throughput": 999.0,
        "total_token_throughput": 999.0,
        "max_output_tokens_per_s": 500.0,
        "max_concurrent_requests": 20,
        "rtfx": 0.0,
        "spec_decode_acceptance_rate": 62.5,
        "spec_decode_acceptance_length": 2.875,
        "spec_decode_num_drafts": 800,
        "spec_decode_draft_tokens": 2400,
        "spec_decode_accepted_tokens": 1500,
        **latencies,
    }


def _guidellm_distribution(mean: float, count: int = 90) -> dict[str, Any]:
    part = {
        "mean": mean,
        "median": mean + 1,
        "mode": mean,
        "variance": 4.0,
        "std_dev": 2.0,
        "min": 1.0,
        "max": mean + 9,
        "count": count,
        "total_sum": mean * count,
        "percentiles": {"p001": 1.0, "p50": mean + 1, "p90": mean + 5, "p95": mean + 6, "p99": mean + 8, "p999": mean},
    }
    empty = {**part, "mean": 7777.0, "count": 0, "total_sum": 0.0}
    return {"successful": part, "errored": empty, "incomplete": empty, "total": {**part, "mean": 8888.0}}


def guidellm() -> dict[str, Any]:
    """Follow guidellm/benchmark/schemas, 0.8.1, report version 2."""
    metrics = {
        "request_totals": {"successful": 90, "errored": 0, "incomplete": 6, "total": 96},
        "requests_per_second": _guidellm_distribution(77.0),
        "request_concurrency": _guidellm_distribution(7.5),
        "request_latency": _guidellm_distribution(2.5),
        "prompt_token_count": _guidellm_distribution(128.0),
        "output_token_count": _guidellm_distribution(64.0),
        "time_to_first_token_ms": _guidellm_distribution(150.0),
        "time_per_output_token_ms": _guidellm_distribution(39.0),
        "inter_token_latency_ms": _guidellm_distribution(37.0),
        "output_tokens_per_second": _guidellm_distribution(9999.0),
        "slo_attainment": 0.9,
        "slo_determined_requests": 90,
    }
    benchmark = {
        "type_": "generative_benchmark",
        "config": {
            "run_id": "r",
            "run_index": 0,
            "strategy": {"type_": "concurrent", "streams": 8, "max_concurrency": None},
            "slo": {"ttft_ms": 500.0, "tpot_ms": 50.0, "e2el_ms": None},
        },
        "scheduler_metrics": {},
        "metrics": metrics,
        "requests": {"successful": [], "errored": [], "incomplete": [], "total": None},
        "start_time": 1_795_953_600.0,
        "end_time": 1_795_953_630.0,
        "duration": 30.0,
    }
    second = json.loads(json.dumps(benchmark))
    second["config"]["strategy"] = {"type_": "poisson", "rate": 4.0, "max_concurrency": None, "random_seed": 1}
    return {
        "metadata": {"version": 2, "guidellm_version": "0.8.1", "python_version": "3.12", "platform": "Linux"},
        "config": {"backend": {"kind": "openai_http", "target": "http://127.0.0.1:8000/v1", "model": "qwen3-8b"}},
        "benchmarks": [benchmark, second],
        "conclusions": [],
    }


def _aiperf_metric(unit: str, avg: float, *, count: int | None = None) -> dict[str, Any]:
    metric: dict[str, Any] = {"unit": unit, "avg": avg}
    if count is not None:
        metric |= {name: avg + offset for offset, name in enumerate(("p50", "p90", "p95", "p99", "max"), start=1)}
        metric |= {"std": 2.0, "min": 1.0, "count": count}
    return metric


def aiperf() -> dict[str, Any]:
    """Follow aiperf/common/models/export_models.py, 0.13.0, schema 1.4."""
    return {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "benchmark_id": "b",
        "request_throughput": _aiperf_metric("requests/sec", 999.0),
        "output_token_throughput": _aiperf_metric("tokens/sec", 999.0),
        "request_count": _aiperf_metric("requests", 50.0),
        "benchmark_duration": _aiperf_metric("sec", 25.0),
        "total_isl": _aiperf_metric("tokens", 6400.0),
        "total_osl": _aiperf_metric("tokens", 3200.0),
        "good_request_count": _aiperf_metric("requests", 40.0),
        "goodput": _aiperf_metric("requests/sec", 999.0),
        "time_to_first_token": _aiperf_metric("ms", 120.0, count=50),
        "inter_token_latency": _aiperf_metric("ms", 11.0, count=50),
        "inter_chunk_latency": _aiperf_metric("ms", 22.0, count=900),
        "request_latency": _aiperf_metric("sec", 2.0, count=50),
        "spec_decode_acceptance_length": _aiperf_metric("ratio", 3.0, count=50),
        "spec_decode_token_weighted_acceptance_length": _aiperf_metric("ratio", 2.5),
        "spec_decode_overall_draft_acceptance_rate": _aiperf_metric("%", 50.0),
        "input_config": {
            "models": {"strategy": "round_robin", "items": [{"name": "qwen3-8b"}]},
            "endpoint": {"type": "chat", "streaming": True, "api_key": None},
            "slos": {"time_to_first_token": 500, "inter_token_latency": 20},
            "phases": [
                {"name": "warmup", "kind": "warmup", "type": "concurrency", "concurrency": 2},
                {"name": "profiling", "kind": "profiling", "type": "concurrency", "concurrency": 8},
            ],
        },
        "run_info": {"random_seed": 11, "trial": 0},
        "was_cancelled": False,
        "is_complete": True,
        "start_time": "2026-11-29T12:00:00",
        "end_time": "2026-11-29T12:00:25",
    }


def genai_perf() -> dict[str, Any]:
    """Return the same shape, before it had a version."""
    document = {name: value for name, value in aiperf().items() if not name.endswith("_version")}
    for name in ("total_isl", "total_osl", "benchmark_duration"):
        del document[name]
    document |= {
        "request_throughput": _aiperf_metric("requests/sec", 2.0),
        "input_sequence_length": _aiperf_metric("tokens", 128.0, count=50),
        "output_sequence_length": _aiperf_metric("tokens", 64.0, count=50),
        "input_config": {"model_names": ["qwen3-8b"], "perf_analyzer": {"stimulus": {"concurrency": 4}}},
    }
    return document


def evalscope_summary() -> dict[str, Any]:
    """Follow evalscope/perf/utils/perf_constants.py, 1.14.1."""
    return {
        "Test Duration (s)": 40.0,
        "Concurrency": 8,
        "Request Rate (req/s)": -1,
        "Total Requests": 80,
        "Success Requests": 80,
        "Failed Requests": 0,
        "Stream Requests": 80,
        "Non-Stream Requests": 0,
        "Req Throughput (req/s)": 999.0,
        "Avg Latency (s)": 3.5,
        "Avg Input Tokens": 128.0,
        "Avg Output Tokens": 64.0,
        "Output Throughput (tok/s)": 999.0,
        "Total Throughput (tok/s)": 999.0,
        "Input Throughput (tok/s)": 5.0,
        "Avg TTFT (ms)": 140.0,
        "Avg TPOT (ms)": 12.0,
        "Avg ITL (ms)": 24.0,
        "KV Cache Hit Rate (%)": 25.0,
        "Avg Decoded Tok/Iter": 1.9,
    }


def evalscope_percentiles() -> list[dict[str, Any]]:
    return [
        {
            "Percentiles": label,
            "TTFT (ms)": 100.0 + i,
            "TPOT (ms)": 10.0 + i,
            "ITL (ms)": 20.0 + i,
            "Latency (s)": 3.0 + i,
        }
        for i, label in enumerate(("min", "10%", "50%", "90%", "95%", "99%", "max"))
    ]
