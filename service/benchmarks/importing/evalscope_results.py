"""Results of `evalscope perf`: a summary, and a table of percentiles beside it (facts: benchmarks §3)."""

from collections.abc import Iterator, Mapping, Sequence

from service.benchmarks.finite import non_negative
from service.benchmarks.importing.documents import Json
from service.benchmarks.importing.fields import Fields
from service.benchmarks.importing.mapped import Mapped, ResultKind, distribution, said
from service.benchmarks.rates import rates_of
from service.benchmarks.results import (
    CacheUse,
    ClientProvenance,
    Distribution,
    ItlKind,
    Latencies,
    LoadFacts,
    LoadMode,
    Result,
    Totals,
    WorkloadFacts,
    status_of,
)

_DURATION = "Test Duration (s)"
_PERCENTILES = "Percentiles"
_STATISTICS = {"50%": "p50", "90%": "p90", "95%": "p95", "99%": "p99", "max": "max"}


def is_evalscope_summary(document: Json) -> bool:
    """Tell whether a document is this tool's summary."""
    return isinstance(document, Mapping) and {_DURATION, "Total Requests", "Success Requests"} <= document.keys()


def is_evalscope_percentiles(document: Json) -> bool:
    """Tell whether a document is this tool's table of percentiles: a list of rows."""
    return (
        isinstance(document, Sequence)
        and not isinstance(document, str)
        and bool(document)
        and all(isinstance(row, Mapping) and isinstance(row.get(_PERCENTILES), str) for row in document)
    )


def map_evalscope(summary: Mapping[str, Json], percentiles: Json = None) -> Mapped:
    """Return a summary, with its table of percentiles when there is one, in our schema.

    The tool writes -1 for what it has not; without streaming its TTFT is the whole latency and is left out.
    """
    fields = Fields(summary)
    rows = [row for row in percentiles if isinstance(row, Mapping)] if isinstance(percentiles, list) else []
    totals = _totals(fields)
    is_streamed = _is_streamed(fields)
    result = Result(
        status=status_of(totals),
        is_imported=True,
        client=ClientProvenance(tool="evalscope", raw_format=ResultKind.EVALSCOPE),
        workload=WorkloadFacts(
            input_tokens_mean=fields.number("Avg Input Tokens"),
            output_tokens_mean=fields.number("Avg Output Tokens"),
            num_prompts=totals.requests_sent,
            is_streamed=is_streamed,
        ),
        load=_load(fields),
        totals=totals,
        rates=rates_of(totals),
        latencies=_latencies(fields, rows, is_streamed=is_streamed),
        cache=_cache(fields),
    )
    for name in ("Req Throughput (req/s)", "Output Throughput (tok/s)", "Total Throughput (tok/s)"):
        fields.raw(name)
    unread = fields.unread()
    return Mapped(result, unread, said(_notes(unread, has_rows=bool(rows), is_streamed=is_streamed)))


def _totals(fields: Fields) -> Totals:
    completed = fields.whole("Success Requests")
    return Totals(
        duration_s=fields.number(_DURATION),
        requests_sent=fields.whole("Total Requests"),
        requests_completed=completed,
        requests_failed=fields.whole("Failed Requests"),
        input_tokens=_tokens(fields.number("Avg Input Tokens"), completed),
        output_tokens=_tokens(fields.number("Avg Output Tokens"), completed),
    )


def _tokens(mean: float | None, completed: int | None) -> int | None:
    return None if mean is None or completed is None else round(mean * completed)


def _is_streamed(fields: Fields) -> bool | None:
    """Tell whether all answers were streamed; None when some were, or it is not told."""
    streamed, whole = fields.whole("Stream Requests"), fields.whole("Non-Stream Requests")
    if streamed is None or whole is None or bool(streamed) == bool(whole):
        return None
    return streamed > 0


def _load(fields: Fields) -> LoadFacts:
    """Return the load: in an open loop the tool writes -1 for the concurrency; beside a rate any other is a cap."""
    rate, concurrency = fields.signed("Request Rate (req/s)"), fields.whole("Concurrency")
    if rate is not None and rate > 0:
        mode = LoadMode.CLOSED_CAPPED if concurrency else LoadMode.OPEN_POISSON
        return LoadFacts(mode=mode, request_rate_target_rps=rate, max_concurrency=concurrency or None)
    if concurrency:
        return LoadFacts(mode=LoadMode.CLOSED, max_concurrency=concurrency)
    return LoadFacts()


def _latencies(fields: Fields, rows: Sequence[Mapping[str, Json]], *, is_streamed: bool | None) -> Latencies:
    means = {name: fields.number(f"Avg {name}") for name in ("Latency (s)", "TTFT (ms)", "TPOT (ms)", "ITL (ms)")}
    e2e = _distribution(means["Latency (s)"], rows, "Latency (s)", factor=1000.0)
    if not is_streamed:
        return Latencies(e2e_ms=e2e)
    itl = _distribution(means["ITL (ms)"], rows, "ITL (ms)")
    return Latencies(
        ttft_ms=_distribution(means["TTFT (ms)"], rows, "TTFT (ms)"),
        tpot_ms=_distribution(means["TPOT (ms)"], rows, "TPOT (ms)"),
        itl_ms=itl,
        itl_kind=ItlKind.CHUNK_GAP if itl else None,
        e2e_ms=e2e,
    )


def _distribution(
    mean: float | None, rows: Sequence[Mapping[str, Json]], label: str, *, factor: float = 1.0
) -> Distribution | None:
    values = {"mean": mean}
    for row in rows:
        statistic = _STATISTICS.get(str(row.get(_PERCENTILES)))
        if statistic is not None:
            values[statistic] = non_negative(row.get(label))
    return distribution(values, factor=factor)


def _cache(fields: Fields) -> CacheUse | None:
    percent = fields.number("KV Cache Hit Rate (%)")
    return None if percent is None else CacheUse(hit_rate=min(percent / 100, 1.0))


def _notes(unread: Mapping[str, Json], *, has_rows: bool, is_streamed: bool | None) -> Iterator[str | None]:
    yield "model, dataset and version are not in the file; token sums are its rounded means times the requests"
    if not has_rows:
        yield "percentiles are not known: benchmark_percentile.json was not given"
    if is_streamed is False:
        yield "TTFT, TPOT and ITL are left out: answers were not streamed, so the tool's TTFT is the whole latency"
    if is_streamed is None:
        yield "TTFT, TPOT and ITL are left out: the file mixes streamed and whole answers, or does not tell"
    if "Avg Decoded Tok/Iter" in unread:
        yield "decoded tokens per iteration is kept raw: it is an estimate from chunks, no accept length"
    if "Input Throughput (tok/s)" in unread:
        yield "Input Throughput is kept raw: it is over the sum of first-chunk latencies, not over the duration"
