"""A workload: what is asked of a server, how fast, how often, and which latencies count as good."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints, model_validator

MAX_PROMPTS = 100_000
MIN_PROMPTS = 50
PROMPTS_PER_STREAM = 10
"""By default ten prompts a stream, so that the tail of a closed loop weighs little (facts: benchmarks §3)."""
MAX_WARMUP = 512
MAX_POINTS = 20
DEFAULT_REPEATS = 5
"""With fewer a change of 5 % is missed every second time at 2 % noise (facts: benchmarks §6)."""

Tokens = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
OutputTokens = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Concurrency = Annotated[int, Field(strict=True, ge=1, le=10_000)]
RateRps = Annotated[float, Field(strict=True, gt=0, le=100_000, allow_inf_nan=False)]
LimitMs = Annotated[float, Field(strict=True, gt=0, le=86_400_000, allow_inf_nan=False)]
NodePath = Annotated[str, StringConstraints(pattern=r"^/[^\x00\r\n]*$", max_length=4096)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _need_kind(schema: dict[str, Any]) -> None:
    """Say that `kind` must be given: it tells the choices apart, so its default is for this program alone."""
    schema["properties"]["kind"].pop("default")
    schema["required"] = ["kind", *schema["required"]]


class _Choice(_Part):
    model_config = ConfigDict(json_schema_extra=_need_kind)


class RandomIds(_Choice):
    """Random token ids of fixed lengths. Not natural text: speculative acceptance on it means nothing."""

    kind: Literal["random_ids"] = "random_ids"
    input_tokens: Tokens
    output_tokens: OutputTokens


class FileLayout(StrEnum):
    """How a file of prompts is laid out, by the client's own names."""

    CUSTOM = "custom"
    """JSONL, each line with `conversations` of at least two turns."""
    OPENAI = "openai"
    """JSONL of chat requests with `messages`; asked through the chat interface."""
    SHAREGPT = "sharegpt"
    """One JSON array of conversations."""


class NodeFile(_Choice):
    """Prompts from a file that lies on the node."""

    kind: Literal["file"] = "file"
    path: NodePath = Field(examples=["/data/prompts/support.jsonl"])
    layout: FileLayout
    output_tokens: Annotated[int, Field(strict=True, ge=4, le=1_000_000)] | None = Field(
        default=None, description="Tokens per answer; by default the length that the file gives. At least 4."
    )
    sha256: Sha256 | None = Field(
        default=None, description="What the file must hash to; a run with another content is refused."
    )


class SharedPrefix(_Choice):
    """Generated prompts in groups that share a long prefix, to measure the prefix cache."""

    kind: Literal["shared_prefix"] = "shared_prefix"
    groups: Annotated[int, Field(strict=True, ge=1, le=10_000)]
    prompts_per_group: Annotated[int, Field(strict=True, ge=1, le=10_000)]
    prefix_tokens: Tokens
    question_tokens: Tokens
    output_tokens: OutputTokens


Dataset = Annotated[RandomIds | NodeFile | SharedPrefix, Field(discriminator="kind")]


class ClosedLoad(_Choice):
    """A closed loop: so many requests are in flight at any time. Several values are a sweep."""

    kind: Literal["closed"] = "closed"
    concurrency: Concurrency | list[Concurrency] = Field(examples=[16, [1, 8, 64]])


class OpenLoad(_Choice):
    """An open loop: requests arrive at random (Poisson) at this rate, whatever the server does.

    There is no cap on the concurrency beside it: a cap would hide the queueing. Several values are a sweep.
    """

    kind: Literal["open"] = "open"
    rate_rps: RateRps | list[RateRps] = Field(examples=[4.0, [1, 2, 4, 8]])


Load = Annotated[ClosedLoad | OpenLoad, Field(discriminator="kind")]


class SeedPolicy(StrEnum):
    """Which prompts the repeats of a run get."""

    PER_REPEAT = "per_repeat"
    """Each repeat has its own seed, the same in every run of this workload: other prompts, no cache hits."""
    FIXED = "fixed"
    """All repeats have the same prompts: for paired comparisons, with the cache flushed between them."""


class GoodputLimits(_Part):
    """A request is good when it succeeds and keeps all of these limits."""

    ttft_ms: LimitMs | None = None
    tpot_ms: LimitMs | None = None
    e2e_ms: LimitMs | None = None

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if self.ttft_ms is None and self.tpot_ms is None and self.e2e_ms is None:
            raise ValueError("give at least one of ttft_ms, tpot_ms and e2e_ms, or leave goodput out")
        return self

    def by_client_name(self) -> dict[str, float]:
        """Return the limits by the names that SGLang's and vLLM's clients have for them."""
        limits = {"ttft": self.ttft_ms, "tpot": self.tpot_ms, "e2el": self.e2e_ms}
        return {name: limit for name, limit in limits.items() if limit is not None}


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One point of a workload's load; exactly one of concurrency and rate is set."""

    index: int
    num_prompts: int
    warmup_requests: int
    concurrency: int | None = None
    rate_rps: float | None = None

    @property
    def label(self) -> str:
        """Return the point in words, as pictures and logs show it."""
        return f"concurrency {self.concurrency}" if self.rate_rps is None else f"{self.rate_rps:g} req/s"


class Workload(_Part):
    """What one benchmark does: the definition that runs refer to."""

    dataset: Dataset
    load: Load
    num_prompts: Annotated[int, Field(strict=True, ge=1, le=MAX_PROMPTS)] | None = Field(
        default=None,
        description="Prompts per point of load. By default ten a stream and at least 50; for an open loop what "
        "arrives in 60 s and at least 50. A shared prefix gives its own number.",
    )
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31)] = 42
    seed_policy: SeedPolicy = SeedPolicy.PER_REPEAT
    warmup_requests: Annotated[int, Field(strict=True, ge=0, le=MAX_WARMUP)] | None = Field(
        default=None, description="Requests before the measurement; by default two a stream."
    )
    flush_cache: StrictBool = Field(
        default=True,
        description="Empty the prefix cache after the warm-up. It also makes the accept length that of this run alone.",
    )
    ignore_eos: StrictBool = Field(default=True, description="Generate to the full length whatever the model says.")
    goodput: GoodputLimits | None = None
    timeout_s: Annotated[int, Field(strict=True, ge=10, le=86_400)] = Field(
        default=3600, description="A repeat of one point that takes longer is ended and counts as failed."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for problem in _problems(self):
            raise ValueError(problem)
        return self

    def points(self) -> tuple[LoadPoint, ...]:
        """Return the points of load in the order in which they are run."""
        match self.load:
            case ClosedLoad(concurrency=values):
                levels = values if isinstance(values, list) else [values]
                return tuple(self._closed_point(index, level) for index, level in enumerate(levels))
            case OpenLoad(rate_rps=rates):
                speeds = rates if isinstance(rates, list) else [rates]
                return tuple(self._open_point(index, speed) for index, speed in enumerate(speeds))

    def seed_for(self, repeat_index: int, *, point_index: int = 0) -> int:
        """Return the seed of one repeat of one point; the same for every run of this workload."""
        if self.seed_policy is SeedPolicy.FIXED:
            return self.seed
        return self.seed + 1000 * point_index + repeat_index

    def _closed_point(self, index: int, concurrency: int) -> LoadPoint:
        prompts = self._prompts(PROMPTS_PER_STREAM * concurrency)
        return LoadPoint(index, prompts, self._warmup(concurrency), concurrency=concurrency)

    def _open_point(self, index: int, rate_rps: float) -> LoadPoint:
        prompts = self._prompts(round(60 * rate_rps))
        return LoadPoint(index, prompts, self._warmup(round(rate_rps)), rate_rps=rate_rps)

    def _prompts(self, default: int) -> int:
        if isinstance(self.dataset, SharedPrefix):
            return self.dataset.groups * self.dataset.prompts_per_group
        return self.num_prompts or min(max(default, MIN_PROMPTS), MAX_PROMPTS)

    def _warmup(self, streams: int) -> int:
        return min(max(2 * streams, 2), MAX_WARMUP) if self.warmup_requests is None else self.warmup_requests


def _problems(workload: Workload) -> Iterator[str]:
    """Yield what contradicts itself in a workload whose fields are right one by one."""
    values = workload.load.concurrency if isinstance(workload.load, ClosedLoad) else workload.load.rate_rps
    if isinstance(values, list):
        if not 1 <= len(values) <= MAX_POINTS:
            yield f"a sweep has 1 to {MAX_POINTS} points, this one has {len(values)}"
        if len(set(values)) != len(values):
            yield "a sweep names no point twice: repeats are asked for with the run"
    if isinstance(workload.dataset, SharedPrefix):
        own = workload.dataset.groups * workload.dataset.prompts_per_group
        if own > MAX_PROMPTS:
            yield f"groups x prompts_per_group is {own}, more than {MAX_PROMPTS}"
        if workload.num_prompts not in (None, own):
            yield f"num_prompts is groups x prompts_per_group ({own}) for a shared prefix: leave it out"
    if workload.seed_policy is SeedPolicy.FIXED and not workload.flush_cache:
        yield "repeats with the same prompts hit the prefix cache: flush it, or use seed_policy per_repeat"
