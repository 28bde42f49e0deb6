"""Reports of guidellm (`benchmarks.json`, report version 2): several benchmarks in one file (facts: benchmarks §3)."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from service.benchmarks.finite import divided
from service.benchmarks.importing.documents import Json
from service.benchmarks.importing.fields import Fields
from service.benchmarks.importing.mapped import Mapped, ResultKind, distribution, said
from service.benchmarks.importing.rejection import RejectionReason, ResultFileRejected
from service.benchmarks.rates import rates_of
from service.benchmarks.results import (
    ClientProvenance,
    Distribution,
    Latencies,
    LoadFacts,
    LoadMode,
    Result,
    ServerProvenance,
    Slo,
    Totals,
    WorkloadFacts,
    status_of,
)
from service.clock import from_epoch

REPORT_VERSION = 2
_LAST_EPOCH_S = 4_102_444_800
"""The year 2100; a larger number is no time of a run."""


def is_guidellm(document: Mapping[str, Json]) -> bool:
    """Tell whether a JSON object is a report of this tool."""
    metadata = document.get("metadata")
    is_own = isinstance(metadata, Mapping) and ("guidellm_version" in metadata or "version" in metadata)
    return isinstance(document.get("benchmarks"), list) and is_own


def map_guidellm(document: Mapping[str, Json]) -> tuple[Mapped, ...]:
    """Return the benchmarks of a report in our schema; raise `ResultFileRejected` for another version of it."""
    report = Fields(document)
    metadata = report.object("metadata")
    version = metadata.whole("version")
    if version != REPORT_VERSION:
        detail = f"a guidellm report of version {version}; version {REPORT_VERSION} can be read"
        raise ResultFileRejected(RejectionReason.UNSUPPORTED_VERSION, detail)
    tool_version = metadata.text("guidellm_version")
    model = _model(report.object("config"))
    benchmarks = document.get("benchmarks")
    assert isinstance(benchmarks, list)  # noqa: S101  is_guidellm asked
    return tuple(_map_one(Fields(item), tool_version, model) for item in benchmarks)


def _model(config: Fields) -> str | None:
    backend = config.object("backend")
    return backend.text("model") or config.object("args").object("backend").text("model") or config.text("model")


def _map_one(benchmark: Fields, tool_version: str | None, model: str | None) -> Mapped:
    metrics, config = benchmark.object("metrics"), benchmark.object("config")
    totals = _totals(benchmark, metrics)
    slo = _slo(config)
    good = _good_requests(metrics)
    result = Result(
        status=status_of(totals),
        is_imported=True,
        started_at=_instant(benchmark.number("start_time")),
        ended_at=_instant(benchmark.number("end_time")),
        server=ServerProvenance(model_id=model),
        client=ClientProvenance(tool="guidellm", tool_version=tool_version, raw_format=ResultKind.GUIDELLM),
        workload=WorkloadFacts(
            input_tokens_mean=_successful(metrics, "prompt_token_count").number("mean"),
            output_tokens_mean=_successful(metrics, "output_token_count").number("mean"),
        ),
        load=_load(config, metrics, totals),
        slo=slo,
        totals=totals,
        rates=rates_of(
            totals,
            mean_concurrency=_successful(metrics, "request_concurrency").number("mean"),
            goodput_rps=divided(good, totals.duration_s) if slo else None,
            slo_attainment=divided(good, totals.requests_sent) if slo else None,
        ),
        latencies=Latencies(
            ttft_ms=_distribution(metrics, "time_to_first_token_ms"),
            tpot_ms=_distribution(metrics, "inter_token_latency_ms"),
            e2e_ms=_distribution(metrics, "request_latency", factor=1000.0),
        ),
    )
    left = _left_raw(metrics)
    return Mapped(result, left, said(_notes(metrics, left)))


def _successful(metrics: Fields, name: str) -> Fields:
    return metrics.object(name).object("successful")


def _totals(benchmark: Fields, metrics: Fields) -> Totals:
    """Count what succeeded or errored; requests that the end of the run cut off are neither sent nor failed."""
    counts = metrics.object("request_totals")
    completed, failed = counts.whole("successful"), counts.whole("errored")
    return Totals(
        duration_s=_duration_s(benchmark),
        requests_sent=completed + failed if completed is not None and failed is not None else None,
        requests_completed=completed,
        requests_failed=failed,
        input_tokens=_successful(metrics, "prompt_token_count").whole("total_sum"),
        output_tokens=_successful(metrics, "output_token_count").whole("total_sum"),
    )


def _duration_s(benchmark: Fields) -> float | None:
    started, ended = benchmark.number("start_time"), benchmark.number("end_time")
    if started is not None and ended is not None and ended > started:
        return ended - started
    return benchmark.number("duration")


def _instant(epoch_s: float | None) -> datetime | None:
    return from_epoch(epoch_s) if epoch_s is not None and 0 < epoch_s < _LAST_EPOCH_S else None


def _distribution(metrics: Fields, name: str, *, factor: float = 1.0) -> Distribution | None:
    successful = _successful(metrics, name)
    n = successful.whole("count")
    if not n:
        return None
    percentiles = successful.object("percentiles")
    values = {
        "mean": successful.number("mean"),
        "std": successful.number("std_dev"),
        "p50": percentiles.number("p50"),
        "p90": percentiles.number("p90"),
        "p95": percentiles.number("p95"),
        "p99": percentiles.number("p99"),
        "max": successful.number("max"),
    }
    return distribution(values, factor=factor, n=n)


def _load(config: Fields, metrics: Fields, totals: Totals) -> LoadFacts:
    strategy = config.object("strategy")
    kind, cap = strategy.text("type_"), strategy.whole("max_concurrency")
    streams = strategy.whole("streams") if kind == "concurrent" else 1 if kind == "synchronous" else None
    peak = _successful(metrics, "request_concurrency").number("max")
    is_capped = cap is not None and peak is not None and peak >= cap
    match kind:
        case "synchronous" | "concurrent":
            mode = LoadMode.CLOSED
        case "throughput":
            mode = LoadMode.BURST if cap is None else LoadMode.CLOSED
        case "constant":
            mode = LoadMode.CLOSED_CAPPED if is_capped else LoadMode.CONSTANT
        case "poisson":
            mode = LoadMode.CLOSED_CAPPED if is_capped else LoadMode.OPEN_POISSON
        case _:
            mode = LoadMode.UNKNOWN
    return LoadFacts(
        mode=mode,
        max_concurrency=streams if streams is not None else cap,
        request_rate_target_rps=strategy.number("rate"),
        request_rate_achieved_rps=divided(totals.requests_sent, totals.duration_s),
    )


def _slo(config: Fields) -> Slo | None:
    limits = config.object("slo")
    read = {
        "ttft_ms": limits.number("ttft_ms"),
        "tpot_ms": limits.number("tpot_ms"),
        "e2e_ms": limits.number("e2el_ms"),
    }
    return Slo(**read) if any(limit is not None for limit in read.values()) else None


def _good_requests(metrics: Fields) -> float | None:
    """Return how many requests kept all limits: the tool's attainment is over those it could judge."""
    attainment, judged = metrics.number("slo_attainment"), metrics.whole("slo_determined_requests")
    return None if attainment is None or judged is None else attainment * judged


def _left_raw(metrics: Fields) -> dict[str, Json]:
    """Keep the means of the tool's other metrics; its sections on images, video and audio are not ours."""
    names = ("time_per_output_token_ms", "request_dispatch_delay", "request_scheduled_latency", "requests_per_second")
    means = {name: _successful(metrics, name).number("mean") for name in names}
    return {f"{name} (mean)": mean for name, mean in means.items() if mean is not None}


def _notes(metrics: Fields, left: Mapping[str, Json]) -> Iterator[str | None]:
    cut = metrics.object("request_totals").whole("incomplete")
    yield "TPOT is the tool's inter_token_latency_ms, which ends at the last token, not at the last byte"
    if "time_per_output_token_ms (mean)" in left:
        yield "time_per_output_token_ms is kept raw: it is L / n, with the first token in it"
    if cut:
        yield f"{cut} requests were cut off by the end of the run and are not counted"
    yield "throughputs are counts over the measured time, not the tool's means of windows"
