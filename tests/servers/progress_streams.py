"""Simulated starts in virtual time: what the looks at slow but moving, and at frozen ones would see.

Each stage of a start moves some sources and leaves the others still, in ways that real starts do: a network load of an
hour with a quiet log, a download that only the log tells of, a compilation in children or in the process, a warm-up
with idle GPUs and CPU. The pauses stay below twice the longest that real logs show. A frozen start stops in the midst
of any stage; its CPU may spin, its log may chatter, its memory may not be readable for once.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from service.servers.observation import (
    EffortFact,
    HealthFact,
    ListenerFact,
    ListenerOwner,
    Observation,
    ProcessFact,
    ProcessState,
)
from service.servers.progress import History, PhaseSample
from service.sglang.health import HealthAnswer
from service.sglang.phases import Phase
from service.sglang.startup_log import LogReading, PhaseSpan, Progress

BEGAN_AT = datetime(2026, 11, 29, 2, 0, tzinfo=UTC)
TICKS_PER_S = 100
_UNITS = {
    Phase.LOADING_WEIGHTS: "shards",
    Phase.LOADING_DRAFT_WEIGHTS: "shards",
    Phase.CAPTURING_GRAPHS: "graphs",
    Phase.COMPILING_KERNELS: "kernels",
}
BOUND = (Phase.WARMING_UP,)


def at(seconds: float) -> datetime:
    """Return the instant so many seconds into the simulation."""
    return BEGAN_AT + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stay in a phase: how long, and what moves meanwhile. Pauses in seconds; None: that source is still."""

    phase: Phase
    duration_s: float
    units: int = 0
    first_unit_s: float = 0.0
    mib_per_s: float = 0.0
    stall_s: float = 0.0
    """Of each ten minutes so many seconds without a byte."""
    lines_every_s: float | None = None
    """Progress bars of a download: they are drawn whatever the log level."""
    children_every_s: float | None = None
    rss_mib_per_s: float = 0.0
    gpu_mib: float = 0.0
    cores: float = 0.2


@dataclass(slots=True)
class Levels:
    """The counters of a simulated node."""

    lines: int = 1
    ticks: float = 0.0
    read_bytes: float = 0.0
    rss_mib: float = 500.0
    gpu_mib: float = 0.0
    children: int = 0
    health_failures: int = 0
    spans: list[PhaseSpan] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Start:
    """A simulated start: its stages, and if it freezes when and how."""

    seed: int
    stages: tuple[Stage, ...]
    has_quiet_log: bool = False
    has_unreadable_io: bool = False
    freezes_after_s: float | None = None
    frozen_cores: float = 0.0
    chatter_every_s: float | None = None
    trickle_bytes_per_s: float = 0.0

    @property
    def duration_s(self) -> float:
        """Return how long it takes when it does not freeze."""
        return sum(stage.duration_s for stage in self.stages)

    def stage_at(self, seconds: float) -> tuple[Stage, float]:
        """Return the stage at an instant, and how far into it that is."""
        for stage in self.stages:
            if seconds < stage.duration_s:
                return stage, seconds
            seconds -= stage.duration_s
        return self.stages[-1], self.stages[-1].duration_s

    def looks(self, *, until_s: float) -> Iterator[tuple[float, Observation]]:
        """Yield what looks at random distances of one to fifteen seconds see."""
        rng = random.Random(self.seed)  # noqa: S311
        levels, now_s = Levels(), 0.0
        while now_s < until_s:
            step_s = rng.uniform(1, 15)
            moving_s = step_s if self.freezes_after_s is None else min(step_s, self.freezes_after_s - now_s)
            if moving_s > 0:
                self._move(levels, now_s, moving_s)
            else:
                self._stand_still(levels, now_s, step_s)
            now_s += step_s
            yield now_s, self._observation(levels, now_s, rng)

    def _move(self, levels: Levels, now_s: float, step_s: float) -> None:
        stage, inside_s = self.stage_at(now_s + step_s)
        if not levels.spans or levels.spans[-1].phase is not stage.phase:
            levels.spans.append(PhaseSpan(stage.phase, at(now_s + step_s), None, None))
            levels.lines += 0 if self.has_quiet_log else 3
        levels.ticks += stage.cores * step_s * TICKS_PER_S
        if not stage.stall_s or inside_s % 600 >= stage.stall_s:
            levels.read_bytes += stage.mib_per_s * step_s * 2**20
        levels.rss_mib += stage.rss_mib_per_s * step_s
        levels.gpu_mib += stage.gpu_mib * step_s / stage.duration_s
        if stage.lines_every_s:
            levels.lines += _ticks(now_s, step_s, stage.lines_every_s)
        if stage.children_every_s:
            levels.children = (levels.children + _ticks(now_s, step_s, stage.children_every_s)) % 7
        if stage.units:
            self._count_units(levels, stage, inside_s)
        if stage.phase in BOUND:
            _ask_health(levels)

    def _count_units(self, levels: Levels, stage: Stage, inside_s: float) -> None:
        pace_s = (stage.duration_s - stage.first_unit_s) / stage.units
        done = max(0, min(stage.units, int((inside_s - stage.first_unit_s) / pace_s)))
        progress = Progress(done, stage.units, _UNITS[stage.phase])
        if levels.spans[-1].progress != progress:
            levels.lines += 1
            levels.spans[-1] = replace(levels.spans[-1], progress=progress)

    def _stand_still(self, levels: Levels, now_s: float, step_s: float) -> None:
        levels.ticks += self.frozen_cores * step_s * TICKS_PER_S
        levels.read_bytes += self.trickle_bytes_per_s * step_s
        if self.chatter_every_s:
            levels.lines += _ticks(now_s, step_s, self.chatter_every_s)
        if levels.spans and levels.spans[-1].phase in BOUND:
            _ask_health(levels)

    def _observation(self, levels: Levels, now_s: float, rng: random.Random) -> Observation:
        phase = levels.spans[-1].phase if levels.spans else None
        is_bound = phase in BOUND
        answer = HealthAnswer.UNAVAILABLE if is_bound else HealthAnswer.UNASKED
        is_gpu_readable = rng.random() > 0.05
        return Observation(
            at=at(now_s),
            process=ProcessFact(ProcessState.RUNNING, pid=4711, member_count=10 + levels.children),
            listener=ListenerFact(ListenerOwner.OURS if is_bound else ListenerOwner.NONE),
            effort=EffortFact(
                cpu_ticks=int(levels.ticks),
                read_bytes=None if self.has_unreadable_io else int(levels.read_bytes),
                rss_mib=int(levels.rss_mib),
                gpu_memory_mib=int(levels.gpu_mib) if is_gpu_readable else None,
                log_bytes=levels.lines * 90,
            ),
            health=HealthFact(answer, at(now_s), at(now_s), 503 if is_bound else None, levels.health_failures),
            log=reading(levels.spans, line_count=levels.lines, at=at(now_s)),
        )


def reading(spans: list[PhaseSpan], *, line_count: int, at: datetime | None = None) -> LogReading:
    """Return the reading of a log that has come so far."""
    return LogReading(
        phase=spans[-1].phase if spans else None,
        progress=spans[-1].progress if spans else None,
        is_ready=False,
        has_failed=False,
        phases=tuple(spans),
        engine_version=None,
        last_line_at=at,
        line_count=line_count,
    )


def moving_start(seed: int) -> Start:
    """Return a start that is slow in some way, and moves."""
    rng = random.Random(seed)  # noqa: S311
    stages = [
        Stage(Phase.PARSING_ARGUMENTS, rng.uniform(5, 120), mib_per_s=rng.choice([0, 0.5, 30])),
        Stage(Phase.RESOLVING_CONFIG, rng.uniform(1, 150)),
        Stage(Phase.SPAWNING, rng.uniform(8, 200), mib_per_s=rng.choice([0, 1, 50])),
        Stage(Phase.DISTRIBUTED_INIT, rng.choice([rng.uniform(1, 30), rng.uniform(60, 280)]), gpu_mib=500),
        _load(rng, Phase.LOADING_WEIGHTS),
    ]
    if rng.random() < 0.4:
        stages.append(_load(rng, Phase.LOADING_DRAFT_WEIGHTS))
    stages.append(Stage(Phase.ALLOCATING_KV_CACHE, rng.uniform(1, 230), gpu_mib=rng.choice([0, 20_000])))
    if rng.random() < 0.5:
        stages.append(_compile(rng))
    stages.append(_capture(rng))
    stages.append(_warm_up(rng))
    return Start(seed, tuple(stages), has_quiet_log=rng.random() < 0.2, has_unreadable_io=_has_other_signs(stages, rng))


def frozen_start(seed: int, phase: Phase | None = None) -> Start:
    """Return a start that freezes somewhere, in `phase` if one is given."""
    start = moving_start(seed)
    rng = random.Random(seed + 1_000_000)  # noqa: S311
    stage = next((stage for stage in start.stages if stage.phase is phase), None) or rng.choice(start.stages)
    before_s = sum(each.duration_s for each in start.stages[: start.stages.index(stage)])
    may_chatter = stage.phase in {Phase.DISTRIBUTED_INIT, Phase.CAPTURING_GRAPHS, Phase.COMPILING_KERNELS}
    return replace(
        start,
        freezes_after_s=before_s + rng.uniform(0.05, 0.95) * stage.duration_s,
        frozen_cores=rng.choice([0.0, 0.01, 1.0, 8.0]),
        chatter_every_s=rng.uniform(20, 120) if may_chatter and rng.random() < 0.3 else None,
        trickle_bytes_per_s=rng.choice([0.0, 0.0, 500.0]),
    )


def warm_history(seed: int, *, starts: int = 8) -> History:
    """Return earlier starts that found every kernel compiled and every file cached."""
    rng = random.Random(seed + 2_000_000)  # noqa: S311
    usual_s = {
        Phase.PARSING_ARGUMENTS: 6,
        Phase.SPAWNING: 9,
        Phase.DISTRIBUTED_INIT: 2,
        Phase.LOADING_WEIGHTS: 12,
        Phase.ALLOCATING_KV_CACHE: 1,
        Phase.CAPTURING_GRAPHS: 8,
        Phase.WARMING_UP: 2,
    }
    samples = [
        PhaseSample(f"ln_{number}", phase, seconds * rng.uniform(0.8, 1.3))
        for number in range(starts)
        for phase, seconds in usual_s.items()
    ]
    return History(profile_on_node=tuple(samples))


def _load(rng: random.Random, phase: Phase) -> Stage:
    longest_s = 3_600 if phase is Phase.LOADING_WEIGHTS else 600
    duration_s = rng.uniform(20, longest_s)
    shards = rng.choice([1, 8, 64, 163])
    match rng.choice(["local", "network", "fuse", "download"]):
        case "local":
            return Stage(phase, duration_s, units=shards, mib_per_s=rng.uniform(200, 3_000), gpu_mib=76_000)
        case "network":
            return Stage(phase, duration_s, units=1, mib_per_s=rng.uniform(0.2, 40), stall_s=rng.uniform(0, 240))
        case "fuse":
            return Stage(phase, duration_s, units=163, rss_mib_per_s=rng.uniform(2, 50))
        case _:
            return Stage(phase, duration_s, lines_every_s=rng.uniform(1, 240), mib_per_s=rng.choice([0, 0.001]))


def _compile(rng: random.Random) -> Stage:
    duration_s = rng.uniform(30, 1_200)
    if rng.random() < 0.5:
        return Stage(Phase.COMPILING_KERNELS, duration_s, children_every_s=rng.uniform(5, 200), cores=4)
    return Stage(Phase.COMPILING_KERNELS, duration_s, units=rng.choice([12, 300]), cores=1)


def _capture(rng: random.Random) -> Stage:
    graphs = rng.choice([4, 23, 52])
    pace_s = rng.choice([rng.uniform(0.1, 3), rng.uniform(10, 90)])
    first_s = rng.choice([rng.uniform(0, 20), rng.uniform(60, 300), rng.uniform(600, 1_200)])
    children_s = rng.uniform(5, 120) if first_s > 300 else None
    return Stage(
        Phase.CAPTURING_GRAPHS,
        first_s + graphs * pace_s,
        units=graphs,
        first_unit_s=first_s,
        children_every_s=children_s,
        cores=1,
    )


def _warm_up(rng: random.Random) -> Stage:
    duration_s = rng.choice([rng.uniform(2, 60), rng.uniform(60, 600)])
    return Stage(Phase.WARMING_UP, duration_s, cores=rng.choice([0.0, 0.01, 1.0]))


def _has_other_signs(stages: list[Stage], rng: random.Random) -> bool:
    """Tell whether bytes may be unreadable: only where no stage depends on them alone."""
    depends = any(stage.mib_per_s and stage.units <= 1 for stage in stages)
    return not depends and rng.random() < 0.3


def _ask_health(levels: Levels) -> None:
    """One of our own requests, which the engine logs."""
    levels.health_failures += 1
    levels.lines += 1


def _ticks(from_s: float, step_s: float, every_s: float) -> int:
    return int((from_s + step_s) / every_s) - int(from_s / every_s)
