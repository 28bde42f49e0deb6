"""What the benchmark client makes of its requests: the numbers by its own formulas, its table, its line of JSON."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any, Dict, List, Optional, Sequence

from ..versions import this_version  # noqa: TID252  the package has another name where it runs
from .requests import Outcome

LABELS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e_latency": "E2E Latency"}
OLD_PERCENTILES = {"e2e_latency": ("p90", "p99"), "ttft": ("p99",), "tpot": ("p99",), "itl": ("p95", "p99")}
"""Before 0.5.16; since then each has all three."""
GOODPUT_NAMES = ("ttft", "tpot", "e2el")


def result_of(
    arguments: argparse.Namespace, outcomes: Sequence[Outcome], duration_s: float, server_info: Optional[Dict[str, Any]]
) -> Dict[str, Any]:
    """Return the object that is appended to the file. With no answer at all it has NaN in it, as the real one has."""
    good = [outcome for outcome in outcomes if outcome.is_good]
    states = (server_info or {}).get("internal_states") or [{}]
    asked = sum(outcome.asked_tokens for outcome in good)
    made = sum(outcome.output_tokens for outcome in good)
    result: Dict[str, Any] = {
        "tag": arguments.tag,
        "backend": arguments.backend,
        "dataset_name": arguments.dataset_name,
        "request_rate": arguments.request_rate,
        "max_concurrency": arguments.max_concurrency,
        "sharegpt_output_len": arguments.sharegpt_output_len,
        "random_input_len": arguments.random_input_len,
        "random_output_len": arguments.random_output_len,
        "random_range_ratio": arguments.random_range_ratio,
        "server_info": server_info,
        "duration": duration_s,
        "completed": len(good),
        "total_input_tokens": asked,
        "total_input_text_tokens": asked,
        "total_input_vision_tokens": 0,
        "total_output_tokens": made,
        "total_output_tokens_retokenized": made,
        "request_throughput": len(good) / duration_s,
        "input_throughput": asked / duration_s,
        "output_throughput": made / duration_s,
        "total_throughput": (asked + made) / duration_s,
    }
    for name, values_s in _times(good).items():
        result.update(_statistics(name, values_s, none=math.nan if name == "e2e_latency" else 0.0))
    result.update(
        concurrency=sum(outcome.latency_s for outcome in good) / duration_s,
        accept_length=states[0].get("avg_spec_accept_length"),
        max_output_tokens_per_s=made / max(duration_s, 1.0),
        max_concurrent_requests=min(len(good), arguments.max_concurrency or len(good)),
    )
    if getattr(arguments, "goodput", None):
        result.update(_goodput(dict(arguments.goodput), outcomes, duration_s))
    if getattr(arguments, "cache_report", False):
        result["cache_report"] = _cache_report(good)
    return result


def details_of(arguments: argparse.Namespace, outcomes: Sequence[Outcome]) -> Dict[str, Any]:
    """Return the arrays with an entry a request."""
    details: Dict[str, Any] = {
        "input_lens": [outcome.prompt_tokens for outcome in outcomes],
        "output_lens": [outcome.output_tokens if outcome.is_good else 0 for outcome in outcomes],
        "ttfts": [outcome.first_s for outcome in outcomes],
        "itls": [outcome.gaps_s for outcome in outcomes],
        "generated_texts": [outcome.text for outcome in outcomes],
        "errors": [outcome.error for outcome in outcomes],
    }
    if getattr(arguments, "cache_report", False):
        details["cached_tokens"] = [outcome.cached_tokens for outcome in outcomes]
        details["cached_tokens_details"] = [None for _ in outcomes]
    return details


def table_of(result: Dict[str, Any]) -> str:
    """Return the table that is printed."""
    rows = [
        ("Backend:", result["backend"]),
        ("Traffic request rate:", result["request_rate"]),
        ("Max request concurrency:", result["max_concurrency"] or "not set"),
        ("Successful requests:", result["completed"]),
        ("Benchmark duration (s):", f"{result['duration']:.2f}"),
        ("Total input tokens:", result["total_input_tokens"]),
        ("Total generated tokens:", result["total_output_tokens"]),
        ("Request throughput (req/s):", f"{result['request_throughput']:.2f}"),
        ("Output token throughput (tok/s):", f"{result['output_throughput']:.2f}"),
        ("Concurrency:", f"{result['concurrency']:.2f}"),
    ]
    if result["accept_length"]:
        rows.append(("Accept length:", f"{result['accept_length']:.2f}"))
    for name, label in LABELS.items():
        rows.append((f"Mean {label} (ms):", f"{result[f'mean_{name}_ms']:.2f}"))
        rows.append((f"P99 {label} (ms):", f"{result[f'p99_{name}_ms']:.2f}"))
    lines = [f"{label:<40} {value!s:<10}" for label, value in rows]
    return "\n".join(["", " Serving Benchmark Result ".center(50, "="), *lines, "=" * 50])


def append_line(path: str, content: Dict[str, Any]) -> None:
    """Append one line to the result file."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(content) + "\n")


def _times(good: Sequence[Outcome]) -> Dict[str, List[float]]:
    return {
        "e2e_latency": [outcome.latency_s for outcome in good],
        "ttft": [outcome.first_s for outcome in good],
        "tpot": [_per_token_s(outcome) for outcome in good if outcome.output_tokens > 1],
        "itl": [gap_s for outcome in good for gap_s in outcome.gaps_s],
    }


def _statistics(name: str, values_s: List[float], *, none: float) -> Dict[str, float]:
    ordered = sorted(values_s) or [none]
    mean = sum(ordered) / len(ordered)
    numbers = {
        "mean": mean,
        "median": _percentile(ordered, 0.5),
        "std": math.sqrt(sum((value - mean) ** 2 for value in ordered) / len(ordered)),
    }
    for label in ("p90", "p95", "p99") if this_version().has_new_texts else OLD_PERCENTILES[name]:
        numbers[label] = _percentile(ordered, int(label[1:]) / 100)
    return {f"{statistic}_{name}_ms": 1000 * value for statistic, value in numbers.items()}


def _percentile(ordered: Sequence[float], share: float) -> float:
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _per_token_s(outcome: Outcome) -> float:
    return (outcome.latency_s - outcome.first_s) / max(outcome.output_tokens - 1, 1)


def _goodput(limits_ms: Dict[str, float], outcomes: Sequence[Outcome], duration_s: float) -> Dict[str, Any]:
    def keeps(outcome: Outcome, name: str) -> bool:
        times_s = (outcome.first_s, _per_token_s(outcome), outcome.latency_s)
        return outcome.is_good and 1000 * dict(zip(GOODPUT_NAMES, times_s))[name] <= limits_ms[name]

    good = sum(all(keeps(outcome, name) for name in limits_ms) for outcome in outcomes)
    return {
        "goodput_slos_ms": limits_ms,
        "request_goodput": good / duration_s,
        "slo_attainment": good / len(outcomes),
        "slo_attainment_by_metric": {
            name: sum(keeps(outcome, name) for outcome in outcomes) / len(outcomes) for name in limits_ms
        },
    }


def _cache_report(good: Sequence[Outcome]) -> Dict[str, Any]:
    prompt = sum(outcome.prompt_tokens for outcome in good)
    cached = sum(outcome.cached_tokens for outcome in good)
    return {
        "total_prompt_tokens": prompt,
        "total_cached_tokens": cached,
        "cache_hit_rate_pct": round(100 * cached / prompt, 2) if prompt else 0.0,
        "device_cached_tokens": None,
        "host_cached_tokens": None,
        "storage_cached_tokens": None,
        "storage_backend": None,
    }
