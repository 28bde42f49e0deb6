"""The metrics of a result: name, unit, which direction is better, and how each is read from the schema."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from service.benchmarks.results import Distribution, Result


class Direction(StrEnum):
    """Which direction is better."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"
    """It explains others and gets no verdict of its own."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a result."""

    name: str
    """Unit and statistic are part of it: `ttft_p99_ms`."""
    unit: str
    direction: Direction
    title: str
    read: Callable[[Result], float | None]


PRIMARY_METRIC = "output_throughput_tps"
"""What a comparison is decided by unless another is named, or its load is an open loop."""
OPEN_LOOP_METRICS = ("e2e_p50_ms", "ttft_p50_ms")
"""What decides there: the first that all its results have."""
DEFAULT_METRICS = (
    PRIMARY_METRIC,
    "ttft_p50_ms",
    "ttft_p99_ms",
    "tpot_p50_ms",
    "tpot_p99_ms",
    "e2e_p99_ms",
    "goodput_rps",
)
"""What a comparison judges by default; each more makes the others harder to show (Holm)."""
CONTEXT_METRICS = (
    "accept_length",
    "draft_acceptance_rate",
    "cache_hit_rate",
    "output_tokens_mean",
    "mean_concurrency",
    "mean_power_w",
)
"""What stands beside a comparison to explain it."""

_Statistic = Literal["mean", "p50", "p90", "p95", "p99"]
_STATISTICS: tuple[_Statistic, ...] = ("mean", "p50", "p90", "p95", "p99")
_Latency = Literal["ttft", "tpot", "itl", "e2e", "client_queue"]
_LATENCIES: Mapping[_Latency, str] = MappingProxyType(
    {
        "ttft": "time to first token",
        "tpot": "time per output token after the first",
        "itl": "gap between tokens",
        "e2e": "request latency",
        "client_queue": "wait in the client",
    }
)


def metric(name: str) -> Metric:
    """Return the metric of this name; raise KeyError when there is none."""
    return METRICS[name]


def metric_values(result: Result) -> dict[str, float]:
    """Return all metrics that a result has, by name."""
    values = {name: definition.read(result) for name, definition in METRICS.items()}
    return {name: value for name, value in values.items() if value is not None}


def _distribution(result: Result, latency: _Latency) -> Distribution | None:
    match latency:
        case "ttft":
            return result.latencies.ttft_ms
        case "tpot":
            return result.latencies.tpot_ms
        case "itl":
            return result.latencies.itl_ms
        case "e2e":
            return result.latencies.e2e_ms
        case "client_queue":
            return result.latencies.client_queue_ms


def _statistic(distribution: Distribution | None, statistic: _Statistic) -> float | None:
    value = None if distribution is None else getattr(distribution, statistic)
    return value if isinstance(value, float) else None


def _latency_metrics() -> Iterator[Metric]:
    for latency, title in _LATENCIES.items():
        for statistic in _STATISTICS:
            yield Metric(
                name=f"{latency}_{statistic}_ms",
                unit="ms",
                direction=Direction.LOWER,
                title=f"{title}, {statistic}",
                read=lambda r, name=latency, part=statistic: _statistic(_distribution(r, name), part),  # type: ignore[misc]
            )


_RATE_METRICS = (
    Metric(
        "output_throughput_tps",
        "tok/s",
        Direction.HIGHER,
        "output tokens per second",
        lambda r: r.rates.output_throughput_tps,
    ),
    Metric(
        "total_throughput_tps",
        "tok/s",
        Direction.HIGHER,
        "input and output tokens per second",
        lambda r: r.rates.total_throughput_tps,
    ),
    Metric(
        "input_throughput_tps",
        "tok/s",
        Direction.HIGHER,
        "input tokens per second",
        lambda r: r.rates.input_throughput_tps,
    ),
    Metric(
        "output_throughput_tps_per_gpu",
        "tok/s/GPU",
        Direction.HIGHER,
        "output tokens per second and GPU",
        lambda r: r.rates.output_throughput_tps_per_gpu,
    ),
    Metric(
        "total_throughput_tps_per_gpu",
        "tok/s/GPU",
        Direction.HIGHER,
        "input and output tokens per second and GPU",
        lambda r: r.rates.total_throughput_tps_per_gpu,
    ),
    Metric(
        "request_throughput_rps",
        "req/s",
        Direction.HIGHER,
        "requests per second",
        lambda r: r.rates.request_throughput_rps,
    ),
    Metric(
        "goodput_rps",
        "req/s",
        Direction.HIGHER,
        "requests per second within the limits",
        lambda r: r.rates.goodput_rps,
    ),
    Metric(
        "slo_attainment",
        "fraction",
        Direction.HIGHER,
        "share of requests within the limits",
        lambda r: r.rates.slo_attainment,
    ),
    Metric(
        "interactivity_tps_user",
        "tok/s/user",
        Direction.HIGHER,
        "tokens per second for the median user",
        lambda r: r.latencies.interactivity_tps_user,
    ),
)
_CONTEXT = (
    Metric(
        "accept_length",
        "tokens",
        Direction.NEITHER,
        "accept length of speculative decoding, bonus token included",
        lambda r: r.spec_decode.accept_length if r.spec_decode else None,
    ),
    Metric(
        "draft_acceptance_rate",
        "fraction",
        Direction.NEITHER,
        "share of draft tokens accepted",
        lambda r: r.spec_decode.draft_acceptance_rate if r.spec_decode else None,
    ),
    Metric(
        "cache_hit_rate",
        "fraction",
        Direction.NEITHER,
        "share of input tokens from the prefix cache",
        lambda r: r.cache.hit_rate if r.cache else None,
    ),
    Metric(
        "output_tokens_mean",
        "tokens",
        Direction.NEITHER,
        "output tokens per request",
        lambda r: r.workload.output_tokens_mean,
    ),
    Metric(
        "mean_concurrency",
        "requests",
        Direction.NEITHER,
        "requests in flight, mean",
        lambda r: r.rates.mean_concurrency,
    ),
    Metric(
        "mean_power_w",
        "W",
        Direction.NEITHER,
        "power of the GPUs used, mean",
        lambda r: r.energy.mean_power_w if r.energy else None,
    ),
)
METRICS: Mapping[str, Metric] = MappingProxyType(
    {definition.name: definition for definition in (*_RATE_METRICS, *_latency_metrics(), *_CONTEXT)}
)
"""Every metric by name."""
