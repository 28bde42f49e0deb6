"""Results of `vllm bench serve --save-result`: one JSON object, or one a line (facts: benchmarks §3)."""

from collections.abc import Iterator, Mapping

from service.benchmarks.finite import divided
from service.benchmarks.importing.documents import Json
from service.benchmarks.importing.fields import Fields
from service.benchmarks.importing.mapped import Mapped, ResultKind, distribution, said
from service.benchmarks.rates import rates_of
from service.benchmarks.results import (
    ClientProvenance,
    Distribution,
    ItlKind,
    Latencies,
    LoadFacts,
    LoadMode,
    Result,
    ServerProvenance,
    SpecDecode,
    Totals,
    WorkloadFacts,
    status_of,
)

_PER_REQUEST = (
    *("input_lens", "output_lens", "ttfts", "itls", "latencies"),
    *("start_times", "queue_times", "generated_texts", "errors"),
)
_DERIVED = ("request_throughput", "output_throughput", "total_token_throughput")


def is_vllm(document: Mapping[str, Json]) -> bool:
    """Tell whether a JSON object is a result of this tool for a generating model."""
    return {"model_id", "completed", "total_output_tokens", "total_token_throughput"} <= document.keys()


def map_vllm(document: Mapping[str, Json]) -> Mapped:
    """Return one result in our schema; throughputs are divided again from counts and duration."""
    fields = Fields(document)
    totals = _totals(fields)
    for name in (*_PER_REQUEST, *_DERIVED, "endpoint_type"):
        fields.raw(name)
    latencies = _latencies(fields, is_answered=bool(totals.requests_completed))
    result = Result(
        status=status_of(totals),
        is_imported=True,
        server=ServerProvenance(model_id=fields.text("model_id")),
        client=ClientProvenance(tool="vllm", raw_format=ResultKind.VLLM),
        workload=WorkloadFacts(
            input_tokens_mean=divided(totals.input_tokens, totals.requests_completed),
            output_tokens_mean=divided(totals.output_tokens, totals.requests_completed),
            num_prompts=fields.whole("num_prompts"),
            api="chat" if "chat" in (fields.text("backend") or "") else "completions",
        ),
        load=_load(fields, totals),
        totals=totals,
        rates=rates_of(totals),
        latencies=latencies,
        spec_decode=_spec_decode(fields),
    )
    unread = fields.unread()
    return Mapped(result, unread, said(_notes(unread, latencies)))


def _totals(fields: Fields) -> Totals:
    """Count the requests; older versions do not write `failed`: what is missing from the prompts was not answered."""
    completed, failed, asked = fields.whole("completed"), fields.whole("failed"), fields.whole("num_prompts")
    if failed is None and completed is not None and asked is not None:
        failed = max(asked - completed, 0)
    return Totals(
        duration_s=fields.number("duration"),
        requests_sent=completed + failed if completed is not None and failed is not None else None,
        requests_completed=completed,
        requests_failed=failed,
        input_tokens=fields.whole("total_input_tokens"),
        output_tokens=fields.whole("total_output_tokens"),
    )


def _load(fields: Fields, totals: Totals) -> LoadFacts:
    rate, cap = fields.number("request_rate"), fields.whole("max_concurrency")
    burstiness = fields.number("burstiness")
    if fields.has("ramp_up_strategy"):
        mode = LoadMode.UNKNOWN
    elif rate is None:
        mode = LoadMode.BURST if cap is None else LoadMode.CLOSED
    elif cap is not None:
        mode = LoadMode.CLOSED_CAPPED
    else:
        mode = LoadMode.OPEN_POISSON if burstiness in (None, 1.0) else LoadMode.OPEN_GAMMA
    return LoadFacts(
        mode=mode,
        max_concurrency=cap,
        request_rate_target_rps=rate,
        burstiness=burstiness if rate is not None else None,
        request_rate_achieved_rps=divided(totals.requests_completed, totals.duration_s),
    )


def _latencies(fields: Fields, *, is_answered: bool) -> Latencies:
    """Drop all latencies when nothing was answered: the tool writes 0 for them."""
    read = {label: _distribution(fields, label) for label in ("ttft", "tpot", "itl", "e2el", "client_queue_time")}
    if not is_answered:
        return Latencies()
    return Latencies(
        ttft_ms=read["ttft"],
        tpot_ms=read["tpot"],
        itl_ms=read["itl"],
        itl_kind=ItlKind.CHUNK_GAP if read["itl"] else None,
        e2e_ms=read["e2el"],
        client_queue_ms=read["client_queue_time"],
    )


def _distribution(fields: Fields, label: str) -> Distribution | None:
    names = {"mean": "mean", "std": "std", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
    return distribution({ours: fields.number(f"{theirs}_{label}_ms") for ours, theirs in names.items()})


def _spec_decode(fields: Fields) -> SpecDecode | None:
    """Counters over the run: 1 + accepted / drafts, and accepted / drafted in percent."""
    length, percent = fields.number("spec_decode_acceptance_length"), fields.number("spec_decode_acceptance_rate")
    if length is None and percent is None:
        return None
    rate = None if percent is None else min(percent / 100, 1.0)
    return SpecDecode(accept_length=length, draft_acceptance_rate=rate)


def _notes(unread: Mapping[str, Json], latencies: Latencies) -> Iterator[str | None]:
    yield "dataset, seed and warm-up are not in the file"
    if "request_goodput" in unread:
        yield "goodput is kept raw: the file does not tell its limits"
    if "date" in unread:
        yield "the date is kept raw: it has no time zone"
    if "ramp_up_strategy" in unread:
        yield "the rate was ramped up: the load is not one point"
    if latencies.e2e_ms is None:
        yield "the request latency is absent: the tool writes it with --percentile-metrics ttft,tpot,itl,e2el"
