"""Results of SGLang's own client: one JSON object a line (facts: benchmarks §3)."""

from collections.abc import Iterator, Mapping

from service.benchmarks.finite import divided
from service.benchmarks.importing.documents import Json
from service.benchmarks.importing.fields import small
from service.benchmarks.importing.mapped import Mapped, ResultKind, distribution, said
from service.benchmarks.rates import rates_of
from service.benchmarks.results import (
    AcceptScope,
    CacheUse,
    ClientProvenance,
    ItlKind,
    Latencies,
    LoadFacts,
    LoadMode,
    Result,
    ServerProvenance,
    Slo,
    SpecDecode,
    Totals,
    WorkloadFacts,
    status_of,
)
from service.sglang.bench_client import Backend
from service.sglang.bench_results import ServingResult, read_serving_result

_APIS = {Backend.NATIVE: "native", Backend.COMPLETIONS: "completions", Backend.CHAT: "chat"}


def map_sglang(document: Mapping[str, Json]) -> Mapped:
    """Return one line in our schema.

    The client's throughputs are not copied but divided again from counts and duration: that is how it makes them. Its
    `total_input_tokens` are those asked for; where the details tell what the server counted, that is taken.
    """
    read = read_serving_result(document)
    totals = _totals(read)
    result = Result(
        status=status_of(totals),
        is_imported=True,
        server=_server(read),
        client=ClientProvenance(tool="sglang", raw_format=ResultKind.SGLANG),
        workload=_workload(read, totals),
        load=_load(read, totals),
        slo=_slo(read),
        totals=totals,
        rates=rates_of(
            totals,
            mean_concurrency=read.mean_concurrency,
            goodput_rps=read.goodput_rps,
            slo_attainment=read.slo_attainment,
        ),
        latencies=_latencies(read),
        spec_decode=_spec_decode(read),
        cache=_cache(read, totals),
    )
    unread = {name: small(value) for name, value in read.unread.items()}
    return Mapped(result, unread, said(_notes(read)))


def _totals(read: ServingResult) -> Totals:
    return Totals(
        duration_s=read.duration_s,
        requests_sent=read.sent,
        requests_completed=read.completed,
        requests_failed=read.failed,
        input_tokens=read.input_tokens_served if read.input_tokens_served is not None else read.input_tokens,
        output_tokens=read.output_tokens,
        output_tokens_retokenized=read.output_tokens_retokenized,
        cached_input_tokens=read.cached_tokens,
    )


def _server(read: ServingResult) -> ServerProvenance:
    server = read.server
    speculative: dict[str, str | int | float | None] = {
        name.removeprefix("speculative_"): value
        for name, value in server.items()
        if name.startswith("speculative_") and server.get("speculative_algorithm")
    }
    return ServerProvenance(
        engine="sglang" if server else None,
        engine_version=_text(server.get("version")),
        model_id=_text(server.get("served_model_name")),
        model_path=_text(server.get("model_path")),
        quantization=_text(server.get("quantization")),
        kv_cache_dtype=_text(server.get("kv_cache_dtype")),
        tp=_whole(server.get("tp_size")),
        dp=_whole(server.get("dp_size")),
        ep=_whole(server.get("ep_size")),
        pp=_whole(server.get("pp_size")),
        speculative=speculative,
    )


def _workload(read: ServingResult, totals: Totals) -> WorkloadFacts:
    is_random = read.input_tokens_asked is not None
    return WorkloadFacts(
        dataset=read.dataset_name,
        input_tokens_asked=read.input_tokens_asked,
        input_tokens_mean=divided(totals.input_tokens, totals.requests_completed),
        output_tokens_asked=read.output_tokens_asked if is_random else None,
        output_tokens_mean=divided(totals.output_tokens, totals.requests_completed),
        num_prompts=read.sent,
        api=_APIS.get(Backend(read.backend)) if read.backend in set(Backend) else None,
    )


def _load(read: ServingResult, totals: Totals) -> LoadFacts:
    return LoadFacts(
        mode=_mode(read),
        max_concurrency=read.max_concurrency,
        request_rate_target_rps=read.request_rate_rps,
        request_rate_achieved_rps=divided(totals.requests_completed, totals.duration_s),
    )


def _mode(read: ServingResult) -> LoadMode:
    if read.is_trace:
        return LoadMode.UNKNOWN
    if read.request_rate_rps is None:
        return LoadMode.BURST if read.max_concurrency is None else LoadMode.CLOSED
    return LoadMode.OPEN_POISSON if read.max_concurrency is None else LoadMode.CLOSED_CAPPED


def _slo(read: ServingResult) -> Slo | None:
    limits = read.slo_ms
    if not limits:
        return None
    return Slo(ttft_ms=limits.get("ttft"), tpot_ms=limits.get("tpot"), e2e_ms=limits.get("e2el"))


def _latencies(read: ServingResult) -> Latencies:
    n = read.completed
    kind = ItlKind.TOKEN_SPLIT if read.is_itl_split else ItlKind.CHUNK_GAP
    itl = distribution(read.distributions.get("itl", {}))
    return Latencies(
        ttft_ms=distribution(read.distributions.get("ttft", {}), n=n),
        tpot_ms=distribution(read.distributions.get("tpot", {}), n=n),
        itl_ms=itl,
        itl_kind=None if itl is None else ItlKind.RETOKENIZED if read.is_itl_retokenized else kind,
        e2e_ms=distribution(read.distributions.get("e2e", {}), n=n),
    )


def _spec_decode(read: ServingResult) -> SpecDecode | None:
    """Assume the wide scope: the file does not tell whether the cache, and with it this counter, was flushed."""
    if not read.accept_length:
        return None
    return SpecDecode(accept_length=read.accept_length, scope=AcceptScope.SERVER_LIFETIME, dp_rank=0)


def _cache(read: ServingResult, totals: Totals) -> CacheUse | None:
    if read.cached_tokens is None:
        return None
    rate = divided(read.cached_tokens, totals.input_tokens)
    return CacheUse(
        hit_rate=rate if rate is None else min(rate, 1.0),
        device_tokens=read.cached_device_tokens,
        host_tokens=read.cached_host_tokens,
        storage_tokens=read.cached_storage_tokens,
    )


def _notes(read: ServingResult) -> Iterator[str | None]:
    if read.failed is None:
        yield "failures are not known: the file was written without --output-details"
    for error in read.errors:
        yield f"a request failed: {error}"
    if read.is_trace:
        yield "the client says that it replayed a trace, but its arrivals are not the trace's: the load is not known"
    if read.accept_length and read.server.get("dp_size", 1) != 1:
        yield "the accept length is that of data-parallel rank 0 only"
    if read.duration_s:
        yield "the duration contains one request for /server_info"
    if {"max_output_tokens_per_s", "max_concurrent_requests"} & read.unread.keys():
        yield "peak tokens and peak concurrency are counted in bins of a second, so they are kept raw"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
