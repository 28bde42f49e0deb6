"""What one look at a launch saw: plain facts, each with its own source, none of them a judgement."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from service.sglang.health import HealthAnswer
from service.sglang.startup_log import LogReading


class ProcessState(StrEnum):
    """What became of the main process of a launch, from its pid, start time, boot id and exit file."""

    PENDING = "pending"
    """The launch directory exists and the supervisor has not written a pid yet."""
    RUNNING = "running"
    EXITED = "exited"
    """The supervisor wrote an exit code."""
    LOST = "lost"
    """The process is gone and nobody wrote an exit code: the supervisor was killed."""
    REBOOTED = "rebooted"
    """The node's boot id is not the launch's."""
    ABSENT = "absent"
    """There is no launch directory."""


class ListenerOwner(StrEnum):
    """Who listens on the launch's port."""

    NONE = "none"
    OURS = "ours"
    """A process of this launch."""
    OTHER = "other"
    """Somebody else; the pid may be unreadable."""


@dataclass(frozen=True, slots=True)
class ProcessFact:
    """The main process of the launch and how many processes it has left."""

    state: ProcessState
    pid: int | None = None
    exit_code: int | None = None
    ended_at: datetime | None = None
    member_count: int = 0


@dataclass(frozen=True, slots=True)
class ListenerFact:
    """Who owns the listening socket on the launch's port."""

    owner: ListenerOwner
    pid: int | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class EffortFact:
    """Counters that only grow while the launch does something; None where they cannot be read."""

    cpu_ticks: int = 0
    read_bytes: int | None = None
    rss_mib: int = 0
    gpu_memory_mib: int | None = None
    log_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HealthFact:
    """The last answer of `GET /health`, and for how many looks in a row it was not 200."""

    answer: HealthAnswer = HealthAnswer.UNASKED
    asked_at: datetime | None = None
    answered_at: datetime | None = None
    status_code: int | None = None
    failures_in_a_row: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """All that is known of one launch; `at` is when the youngest fact was read on the node."""

    at: datetime
    process: ProcessFact
    listener: ListenerFact
    effort: EffortFact
    health: HealthFact
    log: LogReading
