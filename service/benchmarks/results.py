"""One result in the canonical schema: one whole run of a client at one point of load (facts: benchmarks §4).

Each field is defined by a formula, not by a tool's label; units are in the names; what is not known is null. The models
refuse NaN and Infinity.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from service.benchmarks.finite import divided

SCHEMA_VERSION = 1

Quantity = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Record(BaseModel):
    """A part of a result: frozen, no unknown field, no NaN, no Infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ResultStatus(StrEnum):
    """Whether the numbers may be used."""

    OK = "ok"
    DEGRADED = "degraded"
    """Requests failed, or fewer were answered than sent: the numbers are of the rest and carry no verdict."""
    FAILED = "failed"
    """No request was answered."""


class LoadMode(StrEnum):
    """How requests arrived."""

    CLOSED = "closed"
    OPEN_POISSON = "open_poisson"
    OPEN_GAMMA = "open_gamma"
    CONSTANT = "constant"
    BURST = "burst"
    """All at once."""
    TRACE = "trace"
    CLOSED_CAPPED = "closed_capped"
    """A rate with a cap on the concurrency: above the cap the queueing is hidden."""
    UNKNOWN = "unknown"


class ItlKind(StrEnum):
    """What an inter-token latency was measured on; kinds are not compared with each other."""

    TOKEN_SPLIT = "token_split"  # noqa: S105  not a secret
    """The gap between chunks, split evenly over the tokens of the chunk."""
    CHUNK_GAP = "chunk_gap"
    RETOKENIZED = "retokenized"


class AcceptScope(StrEnum):
    """What traffic an accept length covers."""

    RUN = "run"
    SERVER_LIFETIME = "server_lifetime"
    """It mixes the warm-up and all earlier traffic in."""


class AcceptWeighting(StrEnum):
    """Over what an accept length is the mean."""

    VERIFY_STEP = "verify_step"
    REQUEST = "request"


class Distribution(Record):
    """Over the requests of one run (for itl: over the gaps), in the unit of the field that holds it."""

    mean: Quantity | None = None
    std: Quantity | None = None
    p50: Quantity | None = None
    p90: Quantity | None = None
    p95: Quantity | None = None
    p99: Quantity | None = None
    max: Quantity | None = None
    n: Count | None = None


class ServerProvenance(Record):
    """What was measured."""

    engine: str | None = None
    engine_version: str | None = None
    engine_commit: str | None = None
    launch_argv: tuple[str, ...] = ()
    env_allowlisted: dict[str, str] = Field(default_factory=dict)
    environment_sha256: str | None = None
    """Of the image or of the locked packages."""
    server_info_sha256: str | None = None
    model_id: str | None = None
    model_path: str | None = None
    model_fingerprint: str | None = None
    """Of the weights: the same weights at another path are the same model."""
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    tp: Count | None = None
    dp: Count | None = None
    ep: Count | None = None
    pp: Count | None = None
    speculative: dict[str, str | int | float | None] = Field(default_factory=dict)
    server_instance_id: str | None = None
    """One start of the server: repeats on another start have other noise."""
    server_uptime_s: Quantity | None = None
    profile: str | None = None
    profile_version: int | None = None


class HostProvenance(Record):
    """Where it was measured."""

    host_id: str | None = None
    gpu_model: str | None = None
    gpu_count_used: Count | None = None
    gpu_uuids: tuple[str, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None
    power_limit_w: Quantity | None = None
    clocks_locked: bool | None = None
    cpu: str | None = None
    kernel: str | None = None
    other_gpu_processes: Count | None = None


class ClientProvenance(Record):
    """What measured it."""

    tool: str
    tool_version: str | None = None
    argv: tuple[str, ...] = ()
    placement: str | None = None
    """`same_host` or `remote`."""
    raw_sha256: str | None = None
    raw_format: str | None = None
    parser_version: int = 1


class WorkloadFacts(Record):
    """What was asked."""

    dataset: str | None = None
    dataset_sha256: str | None = None
    input_tokens_asked: Quantity | None = None
    input_tokens_mean: Quantity | None = None
    output_tokens_asked: Quantity | None = None
    output_tokens_mean: Quantity | None = None
    num_prompts: Count | None = None
    seed: int | None = None
    ignore_eos: bool | None = None
    temperature: Quantity | None = None
    prefix_tokens: Quantity | None = None
    api: str | None = None
    """`native`, `completions` or `chat`."""
    is_streamed: bool | None = None
    warmup_requests: Count | None = None
    is_cache_flushed: bool | None = None


class LoadFacts(Record):
    """How fast it was asked."""

    mode: LoadMode = LoadMode.UNKNOWN
    max_concurrency: Count | None = None
    request_rate_target_rps: Quantity | None = None
    """None is unlimited, or unknown when the mode is."""
    burstiness: Quantity | None = None
    request_rate_achieved_rps: Quantity | None = None


class Totals(Record):
    """Counts of the measured part of the run."""

    duration_s: Quantity | None = None
    requests_sent: Count | None = None
    requests_completed: Count | None = None
    requests_failed: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    output_tokens_retokenized: Count | None = None
    cached_input_tokens: Count | None = None


class Rates(Record):
    """Counts over the duration, the tail drain included; no mean of per-request or per-window rates."""

    request_throughput_rps: Quantity | None = None
    input_throughput_tps: Quantity | None = None
    output_throughput_tps: Quantity | None = None
    total_throughput_tps: Quantity | None = None
    output_throughput_tps_per_gpu: Quantity | None = None
    total_throughput_tps_per_gpu: Quantity | None = None
    mean_concurrency: Quantity | None = None
    peak_concurrency: Quantity | None = None
    goodput_rps: Quantity | None = None
    """Requests that succeeded within all limits, over the duration."""
    slo_attainment: Fraction | None = None
    """Requests that succeeded within all limits, over requests sent."""


class Latencies(Record):
    """L is last byte - send, T1 first content - send, n the output tokens of a request."""

    ttft_ms: Distribution | None = None
    """T1."""
    tpot_ms: Distribution | None = None
    """(L - T1) / (n - 1), one number a request."""
    itl_ms: Distribution | None = None
    itl_kind: ItlKind | None = None
    e2e_ms: Distribution | None = None
    """L."""
    client_queue_ms: Distribution | None = None

    @property
    def interactivity_tps_user(self) -> float | None:
        """Return the tokens per second that the median user sees: 1000 / median TPOT."""
        return divided(1000, self.tpot_ms.p50 if self.tpot_ms else None)


class SpecDecode(Record):
    """Speculative decoding: tokens per verify step."""

    accept_length: Quantity | None = None
    includes_bonus: bool = True
    scope: AcceptScope = AcceptScope.RUN
    weighting: AcceptWeighting = AcceptWeighting.VERIFY_STEP
    dp_rank: Count | None = None
    draft_acceptance_rate: Fraction | None = None
    """Accepted draft tokens over proposed ones; no bonus token."""


class CacheUse(Record):
    """The prefix cache."""

    hit_rate: Fraction | None = None
    device_tokens: Count | None = None
    host_tokens: Count | None = None
    storage_tokens: Count | None = None


class Energy(Record):
    """Power of the GPUs used, sampled during the run."""

    mean_power_w: Quantity | None = None
    output_token_j: Quantity | None = None
    mean_utilization: Fraction | None = None


class Slo(Record):
    """The limits that goodput was measured against."""

    ttft_ms: Quantity | None = None
    tpot_ms: Quantity | None = None
    e2e_ms: Quantity | None = None


class Result(Record):
    """One whole run of a client at one point of load: the unit of every comparison."""

    schema_version: int = SCHEMA_VERSION
    result_id: str | None = None
    run_id: str | None = None
    repeat_index: Count | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    status: ResultStatus = ResultStatus.OK
    is_imported: bool = False
    server: ServerProvenance = ServerProvenance()
    host: HostProvenance = HostProvenance()
    client: ClientProvenance
    workload: WorkloadFacts = WorkloadFacts()
    load: LoadFacts = LoadFacts()
    slo: Slo | None = None
    totals: Totals = Totals()
    rates: Rates = Rates()
    latencies: Latencies = Latencies()
    spec_decode: SpecDecode | None = None
    cache: CacheUse | None = None
    energy: Energy | None = None


def status_of(totals: Totals) -> ResultStatus:
    """Return the status that the counts demand, whatever the client's exit code was.

    Clients end with 0 when requests failed (facts: benchmarks §3): failed requests, or fewer answers than requests,
    make a result degraded; no answer at all makes it failed.
    """
    if not totals.requests_completed:
        return ResultStatus.FAILED
    is_short = totals.requests_sent is not None and totals.requests_completed < totals.requests_sent
    return ResultStatus.DEGRADED if totals.requests_failed or is_short else ResultStatus.OK
