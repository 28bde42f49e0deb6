"""Benchmark runs and their results as the API shows them."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

from service.api.schemas.common import OperationProblem
from service.benchmarks.judging import Verdict
from service.benchmarks.metrics import CONTEXT_METRICS, DEFAULT_METRICS, metric_values
from service.benchmarks.points import load_label
from service.benchmarks.results import Result, ResultStatus
from service.benchmarks.runs import RunSource, RunState
from service.benchmarks.workload import Workload
from service.clock import Instant
from service.db.benchmark_rows import RunRow
from service.db.benchmark_tables import BenchmarkFile, BenchmarkPoint, BenchmarkResult
from service.db.benchmarks import result_of
from service.operations.event_documents import AcceptLengths

HEADLINES = frozenset(
    {*DEFAULT_METRICS, *CONTEXT_METRICS, "interactivity_tps_user", "total_throughput_tps_per_gpu", "slo_attainment"}
)
"""What a list tells of a point; the run itself tells all."""


class ComparedPoint(BaseModel):
    """One point of load against the baseline."""

    load: str
    verdict: Verdict
    metric: str
    unit: str
    baseline: float | None
    candidate: float | None
    ratio: float | None = Field(description="Candidate over baseline.")
    accept_length: AcceptLengths | None
    reasons: list[str]


class BaselineVerdict(BaseModel):
    """What the comparison with the profile's baseline said when the run ended."""

    baseline_run_id: str
    verdict: Verdict
    compared_at: Instant
    points: list[ComparedPoint]
    only_baseline: list[str] = Field(description="Loads that only the baseline was measured at.")
    only_candidate: list[str]


class PointPublic(BaseModel):
    """The repeats at one point of load together."""

    load: str = Field(examples=["C=16"])
    comparability_key: str = Field(description="Points with the same key may be compared.")
    status: ResultStatus = Field(description="The worst of the repeats.")
    repeats: int = Field(description="How many are sound; only these are in the means.")
    metrics: dict[str, float] = Field(description="The mean of each metric; a list shows the most important ones.")


class BenchmarkRunPublic(BaseModel):
    """One execution of a workload against one launch, or one file that was imported."""

    id: str
    source: RunSource
    state: RunState
    benchmark: str | None
    server: str | None
    server_id: str | None
    launch_id: str | None
    node: str | None
    profile: str | None
    profile_version: int | None
    model: str | None
    repeats: int
    actor: str
    operation_id: str | None
    progress: dict[str, Any] | None = Field(description="How far a running one has come.")
    problem: OperationProblem | None = Field(description="Why it failed, or why it is degraded.")
    baseline: BaselineVerdict | None = Field(description="null while it runs, and where there was no baseline.")
    points: list[PointPublic] = Field(description="Filled in when it ends.")
    created_at: Instant
    started_at: Instant | None
    ended_at: Instant | None


class RepeatPublic(BaseModel):
    """One repeat of one point in short."""

    point_index: int
    repeat_index: int
    load: str
    status: ResultStatus
    started_at: Instant | None
    ended_at: Instant | None
    metrics: dict[str, float]
    notes: list[str]


class FilePublic(BaseModel):
    """A client's file that is kept; GET /benchmark-runs/{run}/raw reads it."""

    point_index: int
    repeat_index: int
    sha256: str = Field(description="Of the file as the client wrote it.")
    size_bytes: int
    is_redacted: bool = Field(description="Secrets were masked, so that what is kept has another hash.")


class BenchmarkRunDetail(BenchmarkRunPublic):
    """A run with all that is known of it but the full results, which have a list of their own."""

    workload: Workload | None = Field(description="What was run, as it was defined then; null for an import.")
    provenance: dict[str, Any] | None
    results: list[RepeatPublic] = Field(description="The repeats so far, by point and repeat.")
    files: list[FilePublic]


class ResultPublic(BaseModel):
    """One repeat of one point, in the canonical schema."""

    id: int
    point_index: int
    repeat_index: int
    comparability_key: str
    result: Result
    unmapped: dict[str, Any] = Field(description="What the client's file says and the schema has no place for.")
    notes: list[str]
    samples: list[dict[str, Any]] | None = Field(
        description="The server's counters and its GPUs over the time of the repeat; null for an import."
    )
    raw_sha256: str | None


def run_public(row: RunRow) -> BenchmarkRunPublic:
    """Return a run as lists show it."""
    return BenchmarkRunPublic(**_fields(row, [_point(point, is_short=True) for point in row.points]))


def run_detail(row: RunRow, results: Sequence[BenchmarkResult], files: Sequence[BenchmarkFile]) -> BenchmarkRunDetail:
    """Return a run as its own page shows it."""
    return BenchmarkRunDetail(
        **_fields(row, [_point(point, is_short=False) for point in row.points]),
        workload=Workload.model_validate(row.run.workload) if row.run.workload is not None else None,
        provenance=row.run.provenance,
        results=[_repeat(item) for item in results],
        files=[FilePublic.model_validate(item, from_attributes=True) for item in files],
    )


def result_public(row: BenchmarkResult) -> ResultPublic:
    """Return a result as the API shows it."""
    return ResultPublic.model_validate(row, from_attributes=True)


def _fields(row: RunRow, points: list[PointPublic]) -> dict[str, Any]:
    run = row.run
    return {
        **{name: getattr(run, name) for name in _COPIED},
        "server": row.server,
        "node": row.node,
        "profile": row.profile,
        "problem": OperationProblem.model_validate(run.problem) if run.problem is not None else None,
        "baseline": BaselineVerdict.model_validate(run.comparison) if run.comparison is not None else None,
        "points": points,
    }


_COPIED = (
    *("id", "source", "state", "benchmark", "server_id", "launch_id", "profile_version", "model", "repeats", "actor"),
    *("operation_id", "progress", "created_at", "started_at", "ended_at"),
)


def _point(point: BenchmarkPoint, *, is_short: bool) -> PointPublic:
    shown = {name: value for name, value in point.metrics.items() if name in HEADLINES or not is_short}
    return PointPublic(
        load=point.load,
        comparability_key=point.comparability_key,
        status=point.status,
        repeats=point.repeats,
        metrics=shown,
    )


def _repeat(row: BenchmarkResult) -> RepeatPublic:
    result = result_of(row)
    return RepeatPublic(
        point_index=row.point_index,
        repeat_index=row.repeat_index,
        load=load_label(result),
        status=row.status,
        started_at=result.started_at,
        ended_at=result.ended_at,
        metrics=metric_values(result),
        notes=row.notes,
    )
