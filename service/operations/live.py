"""What is known right now of nodes and launches: held in memory, written by watchers, read by everybody."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from service.operations.verdicts import Thought, VerdictWatch
from service.remote.messages import GpuHoldersFact
from service.servers.observation import (
    EffortFact,
    HealthFact,
    ListenerFact,
    ListenerOwner,
    Observation,
    ProcessFact,
    ProcessState,
)
from service.sglang.health import HealthAnswer
from service.sglang.startup_log import StartupLog

RECENT_LOG_BYTES = 262_144


@dataclass(slots=True)
class RecentLog:
    """The last bytes of a launch's log as the observer sent them, for those who follow it."""

    end_offset: int = 0
    chunks: deque[tuple[int, bytes]] = field(default_factory=deque)

    def append(self, offset: int, data: bytes) -> None:
        """Add the bytes that begin at `offset`; older ones beyond the limit are dropped."""
        self.chunks.append((offset, data))
        self.end_offset = offset + len(data)
        while self.chunks and self.end_offset - self.chunks[0][0] > RECENT_LOG_BYTES and len(self.chunks) > 1:
            self.chunks.popleft()

    def since(self, offset: int) -> bytes | None:
        """Return the bytes from `offset` on; None when they are no longer, or not yet, held here."""
        if not self.chunks or offset < self.chunks[0][0] or offset > self.end_offset:
            return None
        return b"".join(data[max(0, offset - start) :] for start, data in self.chunks if start + len(data) > offset)


@dataclass(slots=True)
class LiveLaunch:
    """All that was seen of one launch since the service started watching it."""

    log: StartupLog
    observed_at: datetime | None = None
    process: ProcessFact = field(default_factory=lambda: ProcessFact(ProcessState.PENDING))
    listener: ListenerFact = field(default_factory=lambda: ListenerFact(ListenerOwner.NONE))
    effort: EffortFact = field(default_factory=EffortFact)
    health: HealthFact = field(default_factory=HealthFact)
    recent_log: RecentLog = field(default_factory=RecentLog)
    verdicts: VerdictWatch | None = None
    """What is thought of it; None before its history was read."""
    clock: tuple[datetime, float] | None = None
    """The last turn, by the service's clock and by one that nobody sets."""
    clock_set_by: timedelta = timedelta()
    """By how much the service's clock was set since the launch is watched: instants before are as much off."""
    kept_offset: int | None = None
    """How much of the log the database knows to have been read; None before it was told."""
    has_reported: bool = False
    """Whether the observer has said anything of this launch: before that nothing may be concluded."""

    @property
    def thought(self) -> Thought | None:
        """Return what is thought of it; None before its history was read."""
        return self.verdicts.thought if self.verdicts else None

    @property
    def has_unkept_log(self) -> bool:
        """Tell whether more of the log was read than the database knows."""
        return self.recent_log.end_offset not in {0, self.kept_offset}

    def observation(self) -> Observation | None:
        """Return what one look sees now; None before the observer has reported the process and its listener."""
        if not self.has_reported or self.observed_at is None:
            return None
        return Observation(
            at=self.observed_at,
            process=self.process,
            listener=self.listener,
            effort=self.effort,
            health=self.health,
            log=self.log.reading,
        )

    def note_health(self, answer: HealthAnswer, status_code: int | None, asked_at: datetime, at: datetime) -> None:
        """Fold one answer of /health in."""
        failures = 0 if answer is HealthAnswer.OK else self.health.failures_in_a_row + 1
        self.health = HealthFact(answer, asked_at, at, status_code, failures)


@dataclass(slots=True)
class LiveNode:
    """When a node was last heard, and what its beats say."""

    heard_at: datetime | None = None
    disk_free_mib: int | None = None
    shm_free_mib: int | None = None
    gpu_holders: GpuHoldersFact | None = None
    """Who holds its GPUs, as the observer last said; it asks while it watches a launch. None before."""
    looks: int = 0
    """How many looks at what it has were begun since the service started."""
    kept_look: int = 0
    """The number of the one that is kept."""
    turn_at: datetime | None = None
    """The last good turn of the node's watcher, whatever it found."""
    tried_at: datetime | None = None
    """When its watcher last began to reach it."""
    is_resting: bool = False
    """Whether its watcher waits until somebody acts: the fault is one that lasts."""


@dataclass(slots=True)
class LiveJob:
    """A job that is done by the clock, and when it was last done well; None before the first time."""

    every_s: float
    is_vital: bool
    known_at: datetime
    done_at: datetime | None = None


@dataclass(slots=True)
class Live:
    """The present picture of the whole fleet."""

    nodes: dict[str, LiveNode] = field(default_factory=dict)
    launches: dict[str, LiveLaunch] = field(default_factory=dict)
    jobs: dict[str, LiveJob] = field(default_factory=dict)
    fleet_at: datetime | None = None
    """When it was last seen to that each node has its watcher."""

    def node(self, node_id: str) -> LiveNode:
        """Return the picture of a node, an empty one at first."""
        return self.nodes.setdefault(node_id, LiveNode())

    def thought_of(self, launch_id: str) -> Thought | None:
        """Return what is thought of a launch now; None while it is not watched."""
        watched = self.launches.get(launch_id)
        return watched.thought if watched else None

    def forget_node(self, node_id: str) -> None:
        """Drop what is known of a node that was deleted."""
        self.nodes.pop(node_id, None)
