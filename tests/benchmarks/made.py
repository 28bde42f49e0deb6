"""Results made for tests: one place where a plausible one is put together."""

from collections.abc import Sequence

from service.benchmarks.results import (
    ClientProvenance,
    Distribution,
    HostProvenance,
    ItlKind,
    Latencies,
    LoadFacts,
    LoadMode,
    Rates,
    Result,
    ServerProvenance,
    SpecDecode,
    Totals,
    WorkloadFacts,
)


def result(
    output_tps: float = 90.0,
    *,
    ttft_ms: float = 200.0,
    accept_length: float | None = None,
    concurrency: int = 16,
    **server: object,
) -> Result:
    """Return a result of 100 answered requests."""
    fields: dict[str, object] = {
        "engine": "sglang",
        "engine_version": "0.5.23",
        "model_id": "kimi-k2",
        "server_instance_id": "start-1",
        "launch_argv": ("--tp-size", "8"),
        **server,
    }
    return Result(
        client=ClientProvenance(tool="sglang"),
        server=ServerProvenance.model_validate(fields),
        host=HostProvenance(gpu_model="B200", gpu_count_used=8),
        workload=WorkloadFacts(dataset="custom", num_prompts=100, output_tokens_mean=256.0),
        load=LoadFacts(mode=LoadMode.CLOSED, max_concurrency=concurrency),
        totals=Totals(duration_s=60.0, requests_sent=100, requests_completed=100, requests_failed=0),
        rates=Rates(
            output_throughput_tps=output_tps,
            output_throughput_tps_per_gpu=output_tps / 8,
            total_throughput_tps_per_gpu=output_tps / 4,
        ),
        latencies=Latencies(
            ttft_ms=Distribution(p50=ttft_ms, p99=2 * ttft_ms),
            tpot_ms=Distribution(p50=1000 / output_tps * concurrency, p99=1300 / output_tps * concurrency),
            itl_ms=Distribution(p50=10.0),
            itl_kind=ItlKind.TOKEN_SPLIT,
        ),
        spec_decode=None if accept_length is None else SpecDecode(accept_length=accept_length),
    )


def results(values: Sequence[float], **more: object) -> list[Result]:
    """Return a result for each throughput."""
    return [result(value, **more) for value in values]  # type: ignore[arg-type]
