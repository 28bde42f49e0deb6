"""Operations: accepted requests that take time, and how far they have come."""

from enum import StrEnum


class OperationKind(StrEnum):
    """What was asked for."""

    LAUNCH = "launch"
    STOP = "stop"
    RESTART = "restart"
    CLEANUP = "cleanup"
    """Vigil's own: after a launch ended by itself, sweep what is left and prove it gone."""
    BENCHMARK = "benchmark"
    """Clients on the server's node measure it, one after the other."""


class OperationState(StrEnum):
    """How far it has come."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class OperationStep(StrEnum):
    """What an operation does now; it resumes here after a restart of the service."""

    PAUSING = "pausing"
    """A restart by policy waits for its time."""

    STOPPING = "stopping"
    """Signals and proof that nothing is left."""
    STARTING = "starting"
    """Files to the node, then the supervisor."""
    WATCHING = "watching"
    """The process runs; the operation waits for ready or failed."""
    MEASURING = "measuring"
    """A benchmark client runs on the node, or is about to."""
    CANCELING = "canceling"
    """The benchmark client is being ended."""
    DONE = "done"
