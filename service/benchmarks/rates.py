"""Rates from counts: the one place where a throughput is computed."""

from service.benchmarks.finite import divided
from service.benchmarks.results import Rates, Result, Totals


def rates_of(
    totals: Totals,
    *,
    gpu_count: int | None = None,
    mean_concurrency: float | None = None,
    goodput_rps: float | None = None,
    slo_attainment: float | None = None,
) -> Rates:
    """Return the rates that follow from counts and duration; what was measured otherwise is passed through."""
    both = None if totals.input_tokens is None or totals.output_tokens is None else _sum(totals)
    output_tps = divided(totals.output_tokens, totals.duration_s)
    total_tps = divided(both, totals.duration_s)
    return Rates(
        request_throughput_rps=divided(totals.requests_completed, totals.duration_s),
        input_throughput_tps=divided(totals.input_tokens, totals.duration_s),
        output_throughput_tps=output_tps,
        total_throughput_tps=total_tps,
        output_throughput_tps_per_gpu=divided(output_tps, gpu_count),
        total_throughput_tps_per_gpu=divided(total_tps, gpu_count),
        mean_concurrency=mean_concurrency,
        goodput_rps=goodput_rps,
        slo_attainment=slo_attainment if slo_attainment is None else min(slo_attainment, 1.0),
    )


def per_gpu(result: Result, gpu_count: int | None) -> Result:
    """Return a result with the rates per GPU, once it is known how many GPUs the server used."""
    rates = result.rates.model_copy(
        update={
            "output_throughput_tps_per_gpu": divided(result.rates.output_throughput_tps, gpu_count),
            "total_throughput_tps_per_gpu": divided(result.rates.total_throughput_tps, gpu_count),
        }
    )
    host = result.host.model_copy(update={"gpu_count_used": gpu_count})
    return result.model_copy(update={"rates": rates, "host": host})


def _sum(totals: Totals) -> int:
    return (totals.input_tokens or 0) + (totals.output_tokens or 0)
