"""The tables of benchmarks: definitions, runs with their results and files, baselines, schedules."""

from datetime import datetime
from typing import Any

from sqlalchemy import Column, Index, Integer, LargeBinary, String, UniqueConstraint, text
from sqlmodel import Field

from service.benchmarks.results import ResultStatus
from service.benchmarks.runs import RunSource, RunState, SkipReason
from service.db.columns import enum_text
from service.db.fields import (
    Table,
    count_field,
    instant_field,
    json_field,
    key_field,
    live_name,
    reference_field,
    text_field,
)


class Benchmark(Table, table=True):
    """A named workload; never changed, so that all runs under one name did the same."""

    __tablename__ = "benchmark"
    __table_args__ = (live_name("benchmark"),)

    id: str = key_field()
    name: str = text_field()
    workload: dict[str, Any] = json_field()
    created_at: datetime = instant_field()
    deleted_at: datetime | None = instant_field(nullable=True)


_RUN_FILTERS = ("server_id", "profile_id", "model", "benchmark", "state", "source")


def _filter_index(first: str) -> Index:
    """Return an index for lists of runs by one filter, newest first, with the other filters in it.

    A list with several filters of which nothing matches then reads the index alone: 2 ms instead of 50 at 100,000 runs.
    """
    others = [name for name in _RUN_FILTERS if name != first]
    return Index(f"ix_benchmark_run_by_{first}", first, "id", *others)


class BenchmarkRun(Table, table=True):
    """One execution of a workload against one launch, or one file that was imported."""

    __tablename__ = "benchmark_run"
    __table_args__ = (
        *map(_filter_index, _RUN_FILTERS),
        Index(
            "uq_benchmark_run_server_id_running",
            "server_id",
            unique=True,
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
    )

    id: str = key_field()
    benchmark_id: str | None = text_field(nullable=True)
    """None for a workload that is shipped, and for an import."""
    benchmark: str | None = text_field(nullable=True)
    """The name that the workload had; what baselines and histories are told apart by."""
    workload: dict[str, Any] | None = json_field(nullable=True)
    """What was run, as it was defined then; None for an import."""
    server_id: str | None = text_field(nullable=True)
    launch_id: str | None = text_field(nullable=True)
    profile_id: str | None = text_field(nullable=True)
    profile_version: int | None = None
    node_id: str | None = text_field(nullable=True)
    model: str | None = Field(default=None, sa_column=Column(String(500), nullable=True))
    source: RunSource = Field(sa_column=Column(enum_text(RunSource), nullable=False))
    state: RunState = Field(sa_column=Column(enum_text(RunState), nullable=False))
    repeats: int
    """How often each point of load is run; of an import the most that a point has."""
    actor: str = text_field()
    operation_id: str | None = text_field(nullable=True, index=True)
    progress: dict[str, Any] | None = json_field(nullable=True)
    """How far a running one has come."""
    problem: dict[str, Any] | None = json_field(nullable=True)
    """Why it failed or is degraded: code, detail, remedy."""
    provenance: dict[str, Any] | None = json_field(nullable=True)
    """Server and node as they were when it began, with what has no place in a result."""
    comparison: dict[str, Any] | None = json_field(nullable=True)
    """What the comparison with the profile's baseline said when it ended; None where there was no baseline."""
    files_removed_at: datetime | None = instant_field(nullable=True)
    """When the directories of its clients, being old, were removed from the node; None while they are there."""
    created_at: datetime = instant_field()
    started_at: datetime | None = instant_field(nullable=True)
    ended_at: datetime | None = instant_field(nullable=True)


class BenchmarkResult(Table, table=True):
    """One repeat of one point of load, in the canonical schema."""

    __tablename__ = "benchmark_result"
    __table_args__ = (UniqueConstraint("run_id", "point_index", "repeat_index"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    run_id: str = reference_field("benchmark_run.id")
    point_index: int
    repeat_index: int
    comparability_key: str = text_field()
    status: ResultStatus = Field(sa_column=Column(enum_text(ResultStatus), nullable=False))
    result: dict[str, Any] = json_field()
    unmapped: dict[str, Any] = json_field()
    """What the file says and the schema has no place for."""
    notes: list[str] = json_field()
    samples: list[dict[str, Any]] | None = json_field(nullable=True)
    """The server's counters and its GPUs over the time of the repeat; None for an import."""
    raw_sha256: str | None = text_field(nullable=True)
    """Of the client's file as it wrote it."""


class BenchmarkPoint(Table, table=True):
    """The repeats of an ended run at one point of load, summed up: what lists, histories and baselines ask for."""

    __tablename__ = "benchmark_point"
    __table_args__ = (
        UniqueConstraint("run_id", "point_index", "comparability_key"),
        Index("ix_benchmark_point_profile_id_key_at", "profile_id", "comparability_key", "at", "benchmark"),
    )

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    run_id: str = reference_field("benchmark_run.id")
    point_index: int
    comparability_key: str = text_field()
    profile_id: str | None = text_field(nullable=True)
    benchmark: str | None = text_field(nullable=True)
    at: datetime = instant_field()
    """When its last repeat ended."""
    load: str = text_field()
    """In words: `C=16`, `4 req/s`."""
    version: str = text_field()
    """What ran, in short: engine and profile version."""
    status: ResultStatus = Field(sa_column=Column(enum_text(ResultStatus), nullable=False))
    """The worst of its repeats."""
    repeats: int
    """How many are sound: only these are in `metrics`."""
    metrics: dict[str, float] = json_field()
    """The mean of each metric over the sound repeats."""


class BenchmarkFile(Table, table=True):
    """A result file as its client wrote it, secrets masked, compressed."""

    __tablename__ = "benchmark_file"
    __table_args__ = (UniqueConstraint("run_id", "point_index", "repeat_index"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    run_id: str = reference_field("benchmark_run.id")
    point_index: int
    repeat_index: int
    """Both 0 for the one file of an import."""
    sha256: str = text_field(index=True)
    """Of the file as the client wrote it, before anything was masked."""
    size_bytes: int = count_field()
    is_redacted: bool
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class Baseline(Table, table=True):
    """The run that a profile's later runs of a benchmark are compared with."""

    __tablename__ = "baseline"
    __table_args__ = (UniqueConstraint("profile_id", "benchmark"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    profile_id: str = reference_field("profile.id")
    benchmark: str = text_field()
    """The name of the workload; empty for imports that named none."""
    run_id: str = reference_field("benchmark_run.id")
    actor: str = text_field()
    set_at: datetime = instant_field()


class Schedule(Table, table=True):
    """Runs by the clock."""

    __tablename__ = "schedule"
    __table_args__ = (live_name("schedule"),)

    id: str = key_field()
    name: str = text_field()
    cron: str = text_field()
    timezone: str = text_field()
    server_id: str = reference_field("server.id")
    benchmark: str = text_field()
    """The name of the workload."""
    repeats: int
    is_paused: bool = False
    next_at: datetime | None = instant_field(nullable=True)
    """None while it is paused."""
    last_at: datetime | None = instant_field(nullable=True)
    last_run_id: str | None = text_field(nullable=True)
    """The last run that it began."""
    last_skip: SkipReason | None = Field(default=None, sa_column=Column(enum_text(SkipReason), nullable=True))
    """Why the last turn began none; None when it began one."""
    last_skip_detail: str | None = None
    actor: str = text_field()
    created_at: datetime = instant_field()
    deleted_at: datetime | None = instant_field(nullable=True)
