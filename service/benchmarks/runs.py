"""Runs of a benchmark: their states, where they come from, why a scheduled one did not begin."""

from collections.abc import Sequence
from enum import StrEnum

from service.benchmarks.results import ResultStatus


class RunState(StrEnum):
    """How far a run has come, and how it ended."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEGRADED = "degraded"
    """Requests failed, or repeats are missing: the numbers are of the rest and carry no verdict."""
    FAILED = "failed"
    """No request was answered."""
    CANCELED = "canceled"


class RunSource(StrEnum):
    """Who measured."""

    OWN = "own"
    """Vigil, with the client on the server's node."""
    IMPORT = "import"
    """Somebody else: the run is a file that was imported."""


class SkipReason(StrEnum):
    """Why a scheduled run did not begin at its time."""

    NOT_READY = "not_ready"
    """The server was not `ready`."""
    OPERATION_IN_PROGRESS = "operation_in_progress"
    """Something else was being done to the server: another run, too."""
    SERVING_REQUESTS = "serving_requests"
    """Requests were running or queued: the numbers would not be of the benchmark alone."""
    LOAD_UNKNOWN = "load_unknown"
    """How many requests run is not known, or was last known too long ago."""
    SERVER_GONE = "server_gone"
    """The server was deleted."""
    BENCHMARK_GONE = "benchmark_gone"
    """There is no benchmark of this name any more."""
    REFUSED = "refused"
    """The run was not accepted; the detail says why."""
    MISSED = "missed"
    """Vigil did not run at that time."""


def outcome_of(statuses: Sequence[ResultStatus], *, planned: int) -> RunState:
    """Return how a run ended whose results have these statuses, of so many that were planned."""
    if not statuses or all(status is ResultStatus.FAILED for status in statuses):
        return RunState.FAILED
    if len(statuses) < planned or any(status is not ResultStatus.OK for status in statuses):
        return RunState.DEGRADED
    return RunState.SUCCEEDED
