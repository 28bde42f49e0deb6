"""A point of load of one run, summed up over its repeats."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from service.benchmarks.comparability import comparability_key
from service.benchmarks.metrics import metric_values
from service.benchmarks.results import LoadMode, Result, ResultStatus

_WORST_FIRST = (ResultStatus.FAILED, ResultStatus.DEGRADED, ResultStatus.OK)


@dataclass(frozen=True, slots=True)
class PointSummary:
    """What the repeats of one point gave together."""

    load: str
    version: str
    status: ResultStatus
    """The worst of the repeats."""
    repeats: int
    """How many are sound: only these are in `metrics`."""
    metrics: dict[str, float]
    """The mean of each metric over the sound repeats that have it. Percentiles are averaged over runs, never pooled."""
    at: datetime | None
    """When the last repeat ended, as far as the results tell."""


def sum_up(results: Sequence[Result]) -> PointSummary:
    """Return the repeats of one point together; ValueError when there is none, or when their keys differ."""
    if len({comparability_key(result) for result in results}) != 1:
        raise ValueError("a point is summed up of one or more results of one comparability key")
    sound = [result for result in results if result.status is ResultStatus.OK]
    values: dict[str, list[float]] = {}
    for result in sound:
        for name, value in metric_values(result).items():
            values.setdefault(name, []).append(value)
    statuses = {result.status for result in results}
    return PointSummary(
        load=load_label(results[0]),
        version=version_label(results[0]),
        status=next(status for status in _WORST_FIRST if status in statuses),
        repeats=len(sound),
        metrics={name: sum(known) / len(known) for name, known in values.items()},
        at=max((at for result in results if (at := result.ended_at or result.started_at)), default=None),
    )


def load_label(result: Result) -> str:
    """Return the load of a result in words."""
    rate, concurrency = result.load.request_rate_target_rps, result.load.max_concurrency
    if rate is not None:
        return f"{rate:g} req/s" if concurrency is None else f"{rate:g} req/s, at most {concurrency}"
    if concurrency is not None:
        return f"C={concurrency}"
    match result.load.mode:
        case LoadMode.UNKNOWN:
            return "unknown load"
        case LoadMode.TRACE:
            return "trace"
        case _:
            return "unlimited"


def version_label(result: Result) -> str:
    """Return what ran in short: the engine's version and the profile's; empty when neither is known."""
    server = result.server
    profile = "" if server.profile_version is None else f"v{server.profile_version}"
    return " ".join(part for part in (server.engine_version or "", profile) if part)[:100]
