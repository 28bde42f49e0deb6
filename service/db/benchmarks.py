"""The writing of benchmark runs and their results, and questions about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer
from sqlmodel import col, select

from service.benchmarks.comparability import comparability_key
from service.benchmarks.importing import Mapped
from service.benchmarks.points import sum_up
from service.benchmarks.results import Result
from service.benchmarks.runs import RunSource, RunState
from service.db.benchmark_definitions import Definition
from service.db.benchmark_files import RawFile, add_file
from service.db.benchmark_tables import BenchmarkFile, BenchmarkPoint, BenchmarkResult, BenchmarkRun
from service.db.paging import PageRequest, Rows, fetch_page
from service.errors import NotFound
from service.ids import new_id

_LEFT_OUT = [defer(getattr(BenchmarkRun, name)) for name in ("provenance",)]
_RESULT_LEFT_OUT = [defer(getattr(BenchmarkResult, name)) for name in ("samples", "unmapped")]


@dataclass(frozen=True, slots=True)
class RunSubject:
    """What a run measures; of an import only what was told with it."""

    server_id: str | None = None
    launch_id: str | None = None
    node_id: str | None = None
    profile_id: str | None = None
    profile_version: int | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class NewRun:
    """What is known of a run when it begins."""

    source: RunSource
    repeats: int
    actor: str
    subject: RunSubject = RunSubject()
    definition: Definition | None = None
    benchmark: str | None = None
    """The name of the workload of an import, which has no definition."""
    operation_id: str | None = None
    provenance: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class MeasuredRepeat:
    """One repeat of one point, as it is to be kept."""

    point_index: int
    repeat_index: int
    mapped: Mapped
    raw: RawFile | None = None
    samples: Sequence[Mapping[str, Any]] | None = None
    """The server's counters and its GPUs over the time of the repeat."""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What a list of runs may be narrowed to; ids, not names, but for the benchmark and the model."""

    server_id: str | None = None
    profile_id: str | None = None
    model: str | None = None
    benchmark: str | None = None
    state: RunState | None = None
    source: RunSource | None = None
    since: datetime | None = None
    """Runs that were accepted or imported from then on."""


async def create_run(session: AsyncSession, new: NewRun, *, at: datetime) -> BenchmarkRun:
    """Write a new run that is `running`; a second one on the same server breaks a constraint."""
    definition, subject = new.definition, new.subject
    run = BenchmarkRun(
        id=new_id("br", at),
        benchmark_id=definition.id if definition else None,
        benchmark=definition.name if definition else new.benchmark,
        workload=definition.workload.model_dump(mode="json") if definition else None,
        server_id=subject.server_id,
        launch_id=subject.launch_id,
        node_id=subject.node_id,
        profile_id=subject.profile_id,
        profile_version=subject.profile_version,
        model=subject.model,
        source=new.source,
        state=RunState.RUNNING,
        repeats=new.repeats,
        actor=new.actor,
        operation_id=new.operation_id,
        provenance=dict(new.provenance) if new.provenance is not None else None,
        created_at=at,
    )
    session.add(run)
    await session.flush()
    return run


async def update_running_run(session: AsyncSession, run_id: str, **values: object) -> bool:
    """Write columns of a run that is still running (`progress`, `provenance`, `started_at`…); False if it is not."""
    changed = await session.execute(
        update(BenchmarkRun)
        .where(col(BenchmarkRun.id) == run_id, col(BenchmarkRun.state) == RunState.RUNNING)
        .values(**values)
        .returning(col(BenchmarkRun.id)),
        execution_options={"synchronize_session": "fetch"},
    )
    return changed.scalar_one_or_none() is not None


async def add_result(session: AsyncSession, run_id: str, repeat: MeasuredRepeat) -> BenchmarkResult:
    """Keep one repeat of one point; one that is there already stays as it is: a repeat is recorded once."""
    known = await find_result(session, run_id, point_index=repeat.point_index, repeat_index=repeat.repeat_index)
    if known is not None:
        return known
    row = _result_row(run_id, repeat)
    session.add(row)
    if repeat.raw is not None:
        add_file(session, run_id, repeat.raw, point_index=repeat.point_index, repeat_index=repeat.repeat_index)
    await session.flush()
    return row


async def add_results(session: AsyncSession, run_id: str, repeats: Sequence[MeasuredRepeat]) -> None:
    """Keep all repeats of an import at once; their file is kept with `add_file`."""
    session.add_all([_result_row(run_id, repeat) for repeat in repeats])
    await session.flush()


def _result_row(run_id: str, repeat: MeasuredRepeat) -> BenchmarkResult:
    mapped, raw = repeat.mapped, repeat.raw
    return BenchmarkResult(
        run_id=run_id,
        point_index=repeat.point_index,
        repeat_index=repeat.repeat_index,
        comparability_key=comparability_key(mapped.result),
        status=mapped.result.status,
        result=mapped.result.model_dump(mode="json"),
        unmapped=dict(mapped.unmapped),
        notes=list(mapped.notes),
        samples=None if repeat.samples is None else [dict(sample) for sample in repeat.samples],
        raw_sha256=raw.sha256 if raw else mapped.result.client.raw_sha256,
    )


async def end_run(
    session: AsyncSession,
    run_id: str,
    state: RunState,
    *,
    at: datetime,
    problem: Mapping[str, object] | None = None,
) -> bool:
    """End a run that is still running and sum its points up; False, and nothing is changed, if it has ended before.

    Whoever ends a run does it through `service.operations.comparing.conclude`, which compares it with its baseline.
    """
    is_mine = await update_running_run(
        session, run_id, state=state, ended_at=at, problem=dict(problem) if problem else None, progress=None
    )
    if is_mine:
        run = await session.get_one(BenchmarkRun, run_id)
        session.add_all(_points(run, await list_results(session, [run_id]), at))
        await session.flush()
    return is_mine


def _points(run: BenchmarkRun, rows: Sequence[BenchmarkResult], at: datetime) -> list[BenchmarkPoint]:
    groups: dict[tuple[int, str], list[Result]] = {}
    for row in rows:
        groups.setdefault((row.point_index, row.comparability_key), []).append(result_of(row))
    points = []
    for (point_index, key), results in groups.items():
        summary = sum_up(results)
        points.append(
            BenchmarkPoint(
                run_id=run.id,
                point_index=point_index,
                comparability_key=key,
                profile_id=run.profile_id,
                benchmark=run.benchmark,
                at=summary.at or at,
                load=summary.load,
                version=summary.version,
                status=summary.status,
                repeats=summary.repeats,
                metrics=summary.metrics,
            )
        )
    return points


async def running_run_of_server(session: AsyncSession, server_id: str) -> BenchmarkRun | None:
    """Return the run that is under way on a server, or None; there is never more than one."""
    query = select(BenchmarkRun).where(
        col(BenchmarkRun.server_id) == server_id, col(BenchmarkRun.state) == RunState.RUNNING
    )
    return (await session.execute(query)).scalar_one_or_none()


async def find_run_of_operation(session: AsyncSession, operation_id: str) -> BenchmarkRun | None:
    """Return the run that an operation carries out, or None."""
    query = select(BenchmarkRun).where(col(BenchmarkRun.operation_id) == operation_id)
    return (await session.execute(query)).scalar_one_or_none()


async def get_run(session: AsyncSession, run_id: str) -> BenchmarkRun:
    """Return a run by its id; NotFound if there is none."""
    run = await session.get(BenchmarkRun, run_id)
    if run is None:
        raise NotFound(f"there is no benchmark run {run_id!r}")
    return run


async def list_runs(session: AsyncSession, request: PageRequest, wanted: RunFilter) -> Rows[BenchmarkRun]:
    """Return a page of runs, newest first, without their provenance."""
    query = select(BenchmarkRun).options(*_LEFT_OUT)
    for column, value in (
        (col(BenchmarkRun.server_id), wanted.server_id),
        (col(BenchmarkRun.profile_id), wanted.profile_id),
        (col(BenchmarkRun.model), wanted.model),
        (col(BenchmarkRun.benchmark), wanted.benchmark),
        (col(BenchmarkRun.state), wanted.state),
        (col(BenchmarkRun.source), wanted.source),
    ):
        if value is not None:
            query = query.where(column == value)
    if wanted.since is not None:
        query = query.where(col(BenchmarkRun.id) >= _first_id(wanted.since))
    return await fetch_page(session, query, col(BenchmarkRun.id), request)


async def find_result(
    session: AsyncSession, run_id: str, *, point_index: int, repeat_index: int
) -> BenchmarkResult | None:
    """Return what is kept of one repeat of one point, or None."""
    query = select(BenchmarkResult).where(
        col(BenchmarkResult.run_id) == run_id,
        col(BenchmarkResult.point_index) == point_index,
        col(BenchmarkResult.repeat_index) == repeat_index,
    )
    return (await session.execute(query)).scalar_one_or_none()


async def list_results(session: AsyncSession, run_ids: Sequence[str]) -> Sequence[BenchmarkResult]:
    """Return all results of runs, by run, point and repeat, without samples and unmapped fields."""
    query = (
        select(BenchmarkResult)
        .options(*_RESULT_LEFT_OUT)
        .where(col(BenchmarkResult.run_id).in_(run_ids))
        .order_by(col(BenchmarkResult.run_id), col(BenchmarkResult.point_index), col(BenchmarkResult.repeat_index))
    )
    return (await session.execute(query)).scalars().all()


def result_of(row: BenchmarkResult) -> Result:
    """Return a row's result in the canonical schema."""
    return Result.model_validate(row.result)


async def page_of_results(session: AsyncSession, run_id: str, request: PageRequest) -> Rows[BenchmarkResult]:
    """Return a page of a run's results with all that is kept of them, newest first."""
    query = select(BenchmarkResult).where(col(BenchmarkResult.run_id) == run_id)
    return await fetch_page(session, query, col(BenchmarkResult.id), request)


async def delete_run(session: AsyncSession, run_id: str) -> None:
    """Delete a run with its results, points and files."""
    for table in (BenchmarkFile, BenchmarkPoint, BenchmarkResult):
        await session.execute(delete(table).where(col(table.run_id) == run_id))
    await session.execute(delete(BenchmarkRun).where(col(BenchmarkRun.id) == run_id))


def _first_id(at: datetime) -> str:
    """Return the text below which the ids of all earlier runs lie: ids begin with their time."""
    return new_id("br", at)[:12]
