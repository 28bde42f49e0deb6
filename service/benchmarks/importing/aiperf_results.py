"""Exports of aiperf (schema 1) and genai-perf, whose JSON has the same shape (facts: benchmarks §3)."""

from collections.abc import Iterator, Mapping

from service.benchmarks.finite import divided
from service.benchmarks.importing.documents import Json
from service.benchmarks.importing.fields import Fields
from service.benchmarks.importing.mapped import Mapped, ResultKind, distribution, said
from service.benchmarks.importing.rejection import RejectionReason, ResultFileRejected
from service.benchmarks.rates import rates_of
from service.benchmarks.results import (
    AcceptWeighting,
    CacheUse,
    ClientProvenance,
    Distribution,
    ItlKind,
    Latencies,
    LoadFacts,
    LoadMode,
    Result,
    ResultStatus,
    ServerProvenance,
    Slo,
    SpecDecode,
    Totals,
    WorkloadFacts,
    status_of,
)

SCHEMA_MAJOR = "1"
_MS = {"ms": 1.0, "sec": 1000.0, "s": 1000.0, "us": 1e-3, "ns": 1e-6}
_LIMITS = {"ttft_ms": "time_to_first_token", "tpot_ms": "inter_token_latency", "e2e_ms": "request_latency"}
_MODES = {
    "concurrency": LoadMode.CLOSED,
    "poisson": LoadMode.OPEN_POISSON,
    "gamma": LoadMode.OPEN_GAMMA,
    "constant": LoadMode.CONSTANT,
    "fixed_schedule": LoadMode.TRACE,
}


def is_aiperf(document: Mapping[str, Json]) -> bool:
    """Tell whether a JSON object is an export of this tool or its predecessor: metrics that name their unit."""
    throughput = document.get("request_throughput")
    return isinstance(throughput, Mapping) and "unit" in throughput and "avg" in throughput


def map_aiperf(document: Mapping[str, Json]) -> Mapped:
    """Return an export in our schema, each number by the unit that stands beside it.

    Raises `ResultFileRejected` for another major version of the schema.
    """
    fields = Fields(document)
    version = fields.text("schema_version")
    if version is not None and version.partition(".")[0] != SCHEMA_MAJOR:
        detail = f"an aiperf export of schema {version}; schema {SCHEMA_MAJOR} can be read"
        raise ResultFileRejected(RejectionReason.UNSUPPORTED_VERSION, detail)
    kind = ResultKind.AIPERF if version or fields.has("aiperf_version") else ResultKind.GENAI_PERF
    config, totals = fields.object("input_config"), _totals(fields)
    slo, good = _slo(config), _average(fields, "good_request_count")
    result = Result(
        status=_status(fields, totals),
        is_imported=True,
        server=ServerProvenance(model_id=_model(config)),
        client=ClientProvenance(
            tool="aiperf" if kind is ResultKind.AIPERF else "genai-perf",
            tool_version=fields.text("aiperf_version"),
            raw_format=kind,
        ),
        workload=_workload(fields, config, totals),
        load=_load(config, totals),
        slo=slo,
        totals=totals,
        rates=rates_of(
            totals,
            goodput_rps=divided(good, totals.duration_s) if slo else None,
            slo_attainment=divided(good, totals.requests_sent) if slo else None,
        ),
        latencies=_latencies(fields),
        spec_decode=_spec_decode(fields),
        cache=_cache(fields, totals),
    )
    derived = ("request_throughput", "output_token_throughput", "total_token_throughput", "telemetry_data")
    for name in (*derived, "goodput") if slo else derived:
        fields.raw(name)
    unread = fields.unread()
    return Mapped(result, unread, said(_notes(fields, unread)))


def _average(fields: Fields, name: str) -> float | None:
    return fields.object(name).number("avg")


def _total(fields: Fields, name: str) -> int | None:
    return fields.object(name).whole("avg")


def _duration_s(fields: Fields) -> float | None:
    duration = fields.object("benchmark_duration")
    factor, value = _MS.get(duration.text("unit") or ""), duration.number("avg")
    return None if factor is None or value is None else value * factor / 1000


def _totals(fields: Fields) -> Totals:
    """Count the requests; the tool leaves the count of errors out when there were none."""
    completed = _total(fields, "request_count")
    failed = _total(fields, "error_request_count") or 0
    duration_s = _duration_s(fields)
    if duration_s is None and completed:
        duration_s = divided(completed, _average(fields, "request_throughput"))
    return Totals(
        duration_s=duration_s,
        requests_sent=None if completed is None else completed + failed,
        requests_completed=completed,
        requests_failed=failed,
        input_tokens=_tokens(fields, "total_isl", "input_sequence_length", completed),
        output_tokens=_tokens(fields, "total_osl", "output_sequence_length", completed),
        cached_input_tokens=_total(fields, "total_usage_prompt_cache_read_tokens"),
    )


def _tokens(fields: Fields, total: str, per_request: str, completed: int | None) -> int | None:
    """Return a sum of tokens: as such, or from the mean over the requests, which older exports have only."""
    summed = _total(fields, total)
    mean = _average(fields, per_request)
    if summed is not None or mean is None or completed is None:
        return summed
    return round(mean * completed)


def _status(fields: Fields, totals: Totals) -> ResultStatus:
    counted = status_of(totals)
    is_cut = fields.raw("was_cancelled") is True or fields.raw("is_complete") is False
    return ResultStatus.DEGRADED if is_cut and counted is ResultStatus.OK else counted


def _model(config: Fields) -> str | None:
    items = config.object("models").raw("items")
    if isinstance(items, list) and items:
        return Fields(items[0]).text("name")
    names = config.raw("model_names")
    return Fields({"name": names[0]}).text("name") if isinstance(names, list) and names else None


def _workload(fields: Fields, config: Fields, totals: Totals) -> WorkloadFacts:
    endpoint = config.object("endpoint")
    kind = endpoint.text("type") or ""
    seed = fields.object("run_info").whole("random_seed")
    return WorkloadFacts(
        input_tokens_mean=divided(totals.input_tokens, totals.requests_completed),
        output_tokens_mean=divided(totals.output_tokens, totals.requests_completed),
        seed=seed,
        api="chat" if kind == "chat" else "completions" if kind == "completions" else None,
        is_streamed=True if endpoint.raw("streaming") is True else None,
    )


def _load(config: Fields, totals: Totals) -> LoadFacts:
    phases = config.raw("phases")
    measured = [Fields(phase) for phase in phases if _is_measured(phase)] if isinstance(phases, list) else []
    phase = measured[-1] if measured else _stimulus(config)
    kind, cap = phase.text("type"), phase.whole("concurrency")
    rate = phase.number("rate" if measured else "request_rate")
    mode = _MODES.get(kind or "", LoadMode.UNKNOWN)
    if kind is None and cap is not None:
        mode = LoadMode.CLOSED
    if rate is not None and cap is not None:
        mode = LoadMode.CLOSED_CAPPED
    return LoadFacts(
        mode=mode if len(measured) <= 1 else LoadMode.UNKNOWN,
        max_concurrency=cap,
        request_rate_target_rps=rate,
        burstiness=phase.number("smoothness"),
        request_rate_achieved_rps=divided(totals.requests_sent, totals.duration_s),
    )


def _stimulus(config: Fields) -> Fields:
    """Return where genai-perf says its load: below perf_analyzer, in older versions among its other arguments.

    It does not tell how the requests of a rate are spread, so that the mode of one stays unknown.
    """
    stimulus = config.object("perf_analyzer").object("stimulus")
    return stimulus if stimulus.has("concurrency") or stimulus.has("request_rate") else config


def _is_measured(phase: Json) -> bool:
    return isinstance(phase, Mapping) and (phase.get("kind") or phase.get("name")) != "warmup"


def _slo(config: Fields) -> Slo | None:
    """Return the limits of goodput; None when there are none, or others beside ours: a good request kept them all."""
    limits = config.object("slos")
    read = {ours: limits.number(theirs) for ours, theirs in _LIMITS.items()}
    is_ours = any(limit is not None for limit in read.values()) and not _other_limits(config)
    return Slo(**read) if is_ours else None


def _other_limits(config: Fields) -> list[str]:
    """Return the limits that our schema has no place for: the tool takes one for any of its metrics."""
    limits = config.object("slos")
    for name in _LIMITS.values():
        limits.raw(name)
    return list(limits.unread())


def _latencies(fields: Fields) -> Latencies:
    chunks = _distribution(fields, "inter_chunk_latency")
    return Latencies(
        ttft_ms=_distribution(fields, "time_to_first_token"),
        tpot_ms=_distribution(fields, "inter_token_latency"),
        itl_ms=chunks,
        itl_kind=ItlKind.CHUNK_GAP if chunks else None,
        e2e_ms=_distribution(fields, "request_latency"),
    )


def _distribution(fields: Fields, name: str) -> Distribution | None:
    metric = fields.object(name)
    factor = _MS.get(metric.text("unit") or "")
    if factor is None:
        return None
    names = {"mean": "avg", "std": "std", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "max": "max"}
    return distribution(
        {ours: metric.number(theirs) for ours, theirs in names.items()}, factor=factor, n=metric.whole("count")
    )


def _spec_decode(fields: Fields) -> SpecDecode | None:
    """Prefer the length weighted by verify steps; the other is a mean of the requests' means."""
    by_step = _average(fields, "spec_decode_token_weighted_acceptance_length")
    by_request = _average(fields, "spec_decode_acceptance_length")
    percent = _average(fields, "spec_decode_overall_draft_acceptance_rate")
    if by_step is None and by_request is None and percent is None:
        return None
    return SpecDecode(
        accept_length=by_request if by_step is None else by_step,
        weighting=AcceptWeighting.REQUEST if by_step is None else AcceptWeighting.VERIFY_STEP,
        draft_acceptance_rate=None if percent is None else min(percent / 100, 1.0),
    )


def _cache(fields: Fields, totals: Totals) -> CacheUse | None:
    rate = divided(totals.cached_input_tokens, totals.input_tokens)
    if rate is None:
        percent = _average(fields, "overall_usage_prompt_cache_read_pct")
        rate = None if percent is None else percent / 100
    return None if rate is None else CacheUse(hit_rate=min(rate, 1.0))


def _notes(fields: Fields, unread: Mapping[str, Json]) -> Iterator[str | None]:
    yield "TPOT is the tool's inter_token_latency: one number a request"
    if fields.raw("is_complete") is False:
        yield f"the tool gave up before the end: {fields.text('incomplete_reason') or 'no reason given'}"
    if fields.raw("was_cancelled") is True:
        yield "the run was cancelled"
    if "start_time" in unread:
        yield "start_time and end_time are kept raw: they have no time zone"
    others = _other_limits(fields.object("input_config"))
    if others:
        yield f"goodput is kept raw: it has limits that have no place here: {', '.join(others[:8])}"
    elif "goodput" in unread:
        yield "goodput is kept raw: the export does not tell its limits"
    if fields.has("telemetry_data"):
        yield "GPU telemetry is left out: it does not tell which GPUs the server used"
