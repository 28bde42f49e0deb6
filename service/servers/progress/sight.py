"""What one instant shows of each source of progress, and how much of a change is a move."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from service.servers.observation import ListenerOwner, Observation
from service.sglang.health import HealthAnswer
from service.sglang.metrics import EngineCounters
from service.sglang.phase_defaults import AFTER_BIND_PHASES
from service.sglang.phases import Phase
from service.sglang.startup_log import LogReading, Progress


class MarkSource(StrEnum):
    """The independent sources of progress."""

    PHASE = "phase"
    PROGRESS = "progress"
    """The n of m of the furthest rank: shards, graphs, kernels."""
    LOG_LINES = "log_lines"
    CPU = "cpu"
    """Clock ticks of the process tree."""
    BYTES_READ = "bytes_read"
    """What the process tree fetched from storage; some FUSE file systems are not counted by the kernel."""
    RESIDENT_MEMORY = "resident_memory"
    """MiB of the process tree: it grows also where the bytes come from the page cache, FUSE or the network."""
    GPU_MEMORY = "gpu_memory"
    PROCESSES = "processes"
    LISTENER = "listener"
    HEALTH = "health"
    COUNTERS = "counters"
    """Tokens that the engine counted."""


def _by_step(step: float) -> Callable[[float, float], bool | None]:
    return lambda old, new: None if new < old else new >= old + step


def _to_new_height(step: float) -> Callable[[float, float], bool | None]:
    return lambda old, new: new >= old + step


_MOVES: Mapping[MarkSource, Callable[[float, float], bool | None]] = {
    MarkSource.LOG_LINES: _to_new_height(1),
    MarkSource.CPU: _by_step(1),
    MarkSource.BYTES_READ: _by_step(4 * 2**20),
    MarkSource.RESIDENT_MEMORY: _to_new_height(64),
    MarkSource.GPU_MEMORY: _to_new_height(4),
    MarkSource.PROCESSES: lambda old, new: new != old,
    MarkSource.LISTENER: _to_new_height(1),
    MarkSource.HEALTH: _to_new_height(1),
    MarkSource.COUNTERS: _by_step(1),
}
"""Whether a level differs enough from that at the last move; None: it fell, so take it as it is, without a move.

Bytes: pages of libraries trickle in on a frozen start as well, and the slowest disk reads 4 MiB in a minute. Memory: a
value that cannot be read for once looks like a fall and a rise, so only new heights are moves.
"""

_HEALTH_STEPS = {HealthAnswer.UNAVAILABLE: 1.0, HealthAnswer.OK: 2.0}
"""The way up; a server that answers now with 503 and now not at all does not progress."""


def is_moved(source: MarkSource, old: float, new: float) -> bool | None:
    """Return whether the level of a source has moved from that at its last move; None when it fell."""
    return _MOVES[source](old, new)


def level_text(source: MarkSource, level: float) -> str:
    """Return a level as words for people."""
    match source:
        case MarkSource.BYTES_READ:
            return f"{level / 2**20:,.0f} MiB"
        case MarkSource.RESIDENT_MEMORY | MarkSource.GPU_MEMORY:
            return f"{level:,.0f} MiB"
        case MarkSource.HEALTH:
            return "200" if level > _HEALTH_STEPS[HealthAnswer.UNAVAILABLE] else "503"
        case MarkSource.LISTENER:
            return "ours"
        case _:
            return f"{level:,.0f}"


@dataclass(frozen=True, slots=True)
class LogPlace:
    """How far the log has come."""

    line_count: int = 0
    stay: int = 0
    """How many phases were entered."""
    phase: Phase | None = None
    progress: Progress | None = None
    started_at: datetime | None = None
    last_line_at: datetime | None = None

    @property
    def stay_key(self) -> tuple[int, Phase | None]:
        """Return what tells one stay in a phase from the next."""
        return self.stay, self.phase

    @property
    def order(self) -> tuple[int | str, ...]:
        """Return by what the further of two places at one instant is known; equal only for equal places."""
        progress = self.progress or Progress(-1, -1, "")
        instants = [at.isoformat() if at else "" for at in (self.started_at, self.last_line_at)]
        return self.line_count, self.stay, self.phase or "", progress.done, progress.total, progress.unit, *instants


@dataclass(frozen=True, slots=True)
class Sight:
    """The levels of all readable sources at one instant."""

    at: datetime
    levels: Mapping[MarkSource, float]
    place: LogPlace
    is_bound: bool

    def without(self, sources: Collection[MarkSource]) -> "Sight":
        """Return the same sight as if some sources could not be read."""
        return replace(self, levels={source: level for source, level in self.levels.items() if source not in sources})

    def merged(self, other: "Sight") -> "Sight":
        """Return what two looks at the same instant show together: the higher of each level."""
        levels = {
            source: max(self.levels.get(source, level), other.levels.get(source, level))
            for source, level in {**self.levels, **other.levels}.items()
        }
        place = max(self.place, other.place, key=lambda place: place.order)
        return Sight(self.at, levels, place, self.is_bound or other.is_bound)


def sight_of(observation: Observation, *, at: datetime, counters: EngineCounters | None) -> Sight:
    """Return what one look shows; sources that cannot be read, or were not yet, are absent."""
    effort, place = observation.effort, _place_of(observation.log)
    is_ours = observation.listener.owner is ListenerOwner.OURS
    levels = {
        MarkSource.LOG_LINES: place.line_count,
        MarkSource.CPU: effort.cpu_ticks or None,
        MarkSource.BYTES_READ: effort.read_bytes,
        MarkSource.RESIDENT_MEMORY: effort.rss_mib,
        MarkSource.GPU_MEMORY: effort.gpu_memory_mib,
        MarkSource.PROCESSES: observation.process.member_count,
        MarkSource.LISTENER: int(is_ours),
        MarkSource.HEALTH: _HEALTH_STEPS.get(observation.health.answer, 0.0),
        MarkSource.COUNTERS: counters.tokens if counters else None,
    }
    return Sight(
        at=at,
        levels={source: float(level) for source, level in levels.items() if level is not None},
        place=place,
        is_bound=is_ours or place.phase in AFTER_BIND_PHASES,
    )


def _place_of(reading: LogReading) -> LogPlace:
    started_at = reading.phases[-1].started_at if reading.phases else None
    return LogPlace(
        line_count=reading.line_count,
        stay=len(reading.phases),
        phase=reading.phase,
        progress=reading.progress,
        started_at=started_at,
        last_line_at=reading.last_line_at,
    )
