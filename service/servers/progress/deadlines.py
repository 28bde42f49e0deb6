"""How long a phase may take and may be still: learned from earlier starts, else from the shipped table.

The deadline is for signs of progress: every mark that counts re-arms it. It is the longest stay in the phase among the
last starts, times a factor: nothing at all for twice as long as the whole phase ever took. Earlier starts are mostly
warm (kernels compiled, files cached), so what they teach never goes below the floor of the table: the next start may be
a cold one. One strange start must not make it endless, so it never exceeds the table's hard cap.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.servers.progress.samples import History, HistoryLevel, PhaseSample, quantile
from service.sglang.phase_defaults import PHASE_DEFAULTS, WARM_UP_MARGIN_S, PhaseDefault
from service.sglang.phases import Phase

RECENT_STAYS = 20
"""So many of the newest stays count: the engine, the driver and the disk change over the months."""
TRUSTED_STAYS = 3
"""Fewer stays may lengthen the shipped deadline, never shorten it."""
DEADLINE_FACTOR = 2.0
SLOW_FACTOR = 1.5
SLOW_EXTRA_S = 15.0
"""A phase is slow beyond p90 times the factor plus these: a phase of two seconds is not slow after three."""


class DeadlineSource(StrEnum):
    """Where a deadline came from."""

    PROFILE_ON_NODE = "profile_on_node"
    MODEL_ON_GPU_TYPE = "model_on_gpu_type"
    SHIPPED = "shipped"
    PROFILE_LIMIT = "profile_limit"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of one phase. `sample_count`: how many earlier stays `p50_s` and `p90_s` come from."""

    p50_s: float
    p90_s: float
    slow_after_s: float
    deadline_s: float
    first_unit_deadline_s: float
    """The deadline until the first shard, graph or kernel is done."""
    deadline_source: DeadlineSource
    deadline_why: str
    sample_count: int


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of every phase of one start."""

    phases: Mapping[Phase, Expectation]

    def of(self, phase: Phase | None) -> Expectation:
        """Return the expectation of a phase; before the log tells one, arguments are being parsed."""
        return self.phases[phase or Phase.PARSING_ARGUMENTS]


def expected_from(
    history: History, *, hang_after_s: float | None = None, warm_up_limit_s: float | None = None
) -> Expected:
    """Return what is expected of a start.

    `hang_after_s` is the profile's own deadline, for every phase: nothing is learned then. `warm_up_limit_s` is the
    engine's limit on its warm-up request where the profile sets one (SGLANG_WARMUP_TIMEOUT).
    """
    found = {phase: _expectation(phase, history) for phase in PHASE_DEFAULTS}
    if warm_up_limit_s is not None:
        found[Phase.WARMING_UP] = _with_warm_up_limit(found[Phase.WARMING_UP], warm_up_limit_s)
    if hang_after_s is not None:
        found = {phase: _with_profile_limit(expectation, hang_after_s) for phase, expectation in found.items()}
    return Expected(found)


def _expectation(phase: Phase, history: History) -> Expectation:
    shipped = PHASE_DEFAULTS[phase]
    found = [(level, _stays(phase, samples)) for level, samples in history.levels()]
    for enough in (TRUSTED_STAYS, 1):
        for level, stays in found:
            if len(stays) >= enough:
                return _learned(phase, level, stays, shipped)
    return Expectation(
        p50_s=shipped.p50_s,
        p90_s=shipped.p90_s,
        slow_after_s=shipped.p90_s,
        deadline_s=shipped.hang_s,
        first_unit_deadline_s=max(shipped.hang_s, shipped.first_unit_hang_s or 0.0),
        deadline_source=DeadlineSource.SHIPPED,
        deadline_why=f"no earlier start tells; {shipped.why}",
        sample_count=0,
    )


def _stays(phase: Phase, samples: tuple[PhaseSample, ...]) -> list[float]:
    return [sample.duration_s for sample in samples if sample.phase is phase and sample.ended_ok][:RECENT_STAYS]


def _learned(phase: Phase, level: HistoryLevel, stays: list[float], shipped: PhaseDefault) -> Expectation:
    longest = max(stays)
    deadline_s, source = longest * DEADLINE_FACTOR, DeadlineSource(level)
    starts = f"the last {len(stays)} stays" if len(stays) > 1 else "the only earlier stay"
    why = f"{DEADLINE_FACTOR:g} times the longest ({longest:.0f} s) of {starts} in {phase} of {_WHOSE[level]}"
    if len(stays) < TRUSTED_STAYS and deadline_s < shipped.hang_s:
        deadline_s, source = shipped.hang_s, DeadlineSource.SHIPPED
        why = f"fewer than {TRUSTED_STAYS} earlier stays may not shorten the shipped deadline; {shipped.why}"
    if deadline_s < shipped.floor_s:
        deadline_s, why = shipped.floor_s, f"{why}, but at least {shipped.floor_s:.0f} s: {shipped.why}"
    elif deadline_s > shipped.cap_s:
        deadline_s, why = shipped.cap_s, f"{why}, but at most {shipped.cap_s:.0f} s"
    p90_s = quantile(stays, 0.9)
    return Expectation(
        p50_s=quantile(stays, 0.5),
        p90_s=p90_s,
        slow_after_s=p90_s * SLOW_FACTOR + SLOW_EXTRA_S,
        deadline_s=deadline_s,
        first_unit_deadline_s=max(deadline_s, shipped.first_unit_hang_s or 0.0),
        deadline_source=source,
        deadline_why=why,
        sample_count=len(stays),
    )


_WHOSE: Mapping[HistoryLevel, str] = {
    HistoryLevel.PROFILE_ON_NODE: "this profile on this node",
    HistoryLevel.MODEL_ON_GPU_TYPE: "this model on GPUs of this type",
}


def _with_warm_up_limit(expectation: Expectation, limit_s: float) -> Expectation:
    deadline_s = limit_s + WARM_UP_MARGIN_S
    why = f"the profile lets the engine warm up for {limit_s:.0f} s before it ends itself"
    return _with_deadline(expectation, deadline_s, DeadlineSource.PROFILE_LIMIT, why)


def _with_profile_limit(expectation: Expectation, hang_after_s: float) -> Expectation:
    why = f"the profile sets hang_after_s to {hang_after_s:g}"
    return _with_deadline(expectation, hang_after_s, DeadlineSource.PROFILE_LIMIT, why)


def _with_deadline(expectation: Expectation, deadline_s: float, source: DeadlineSource, why: str) -> Expectation:
    return Expectation(
        p50_s=expectation.p50_s,
        p90_s=expectation.p90_s,
        slow_after_s=expectation.slow_after_s,
        deadline_s=deadline_s,
        first_unit_deadline_s=deadline_s,
        deadline_source=source,
        deadline_why=why,
        sample_count=expectation.sample_count,
    )
