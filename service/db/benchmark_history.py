"""Questions about points of load over time, and about the baselines that later runs are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.benchmarks.noise import EarlierRun
from service.benchmarks.results import ResultStatus
from service.db.benchmark_tables import Baseline, BenchmarkPoint, BenchmarkRun

MAX_SERIES = 50


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one comparability key: what one history is made of."""

    key: str
    point_count: int
    newest_at: datetime
    load: str
    benchmark: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One run in a history."""

    run_id: str
    at: datetime
    version: str
    value: float


async def list_series(
    session: AsyncSession, profile_id: str, *, benchmark: str | None, key: str | None = None
) -> list[Series]:
    """Return what a profile has histories of, the one with the newest run first, at most 50; or only that of a key."""
    newest = func.max(col(BenchmarkPoint.id)).label("newest")
    counted = select(newest, func.count().label("points")).where(*_of(profile_id, benchmark))
    if key is not None:
        counted = counted.where(col(BenchmarkPoint.comparability_key) == key)
    groups = counted.group_by(col(BenchmarkPoint.comparability_key)).order_by(newest.desc()).limit(MAX_SERIES)
    counts = {row.newest: row.points for row in await session.execute(groups)}
    query = (
        select(BenchmarkPoint, col(BenchmarkRun.model))
        .join(BenchmarkRun, col(BenchmarkRun.id) == col(BenchmarkPoint.run_id))
        .where(col(BenchmarkPoint.id).in_(counts))
        .order_by(col(BenchmarkPoint.run_id).desc(), col(BenchmarkPoint.point_index))
    )
    return [
        Series(
            key=point.comparability_key,
            point_count=counts[point.id],
            newest_at=point.at,
            load=point.load,
            benchmark=point.benchmark,
            model=model,
        )
        for point, model in await session.execute(query)
    ]


async def newest_points(
    session: AsyncSession, profile_id: str, key: str, metric: str, *, benchmark: str | None, limit: int
) -> list[SeriesPoint]:
    """Return the newest points of one series that have the metric, oldest first."""
    value = col(BenchmarkPoint.metrics)[metric].as_float()
    query = (
        select(
            col(BenchmarkPoint.run_id),
            col(BenchmarkPoint.at),
            col(BenchmarkPoint.version),
            value.label("value"),
        )
        .where(*_of(profile_id, benchmark), col(BenchmarkPoint.comparability_key) == key, value.is_not(None))
        .order_by(col(BenchmarkPoint.at).desc(), col(BenchmarkPoint.id).desc())
        .limit(limit)
    )
    rows = (await session.execute(query)).all()
    return [SeriesPoint(row.run_id, row.at, row.version, row.value) for row in reversed(rows)]


async def earlier_runs(
    session: AsyncSession, run_ids: Sequence[str], *, without: Sequence[str], limit: int
) -> dict[str, list[EarlierRun]]:
    """Return, by comparability key, the newest sound runs of the same, oldest first, without these and others.

    The same is: the same profile, version and engine. Runs without a profile have none.
    """
    subjects = {
        (point.profile_id, point.version, point.comparability_key)
        for points in (await points_of_runs(session, run_ids)).values()
        for point in points
        if point.profile_id is not None
    }
    found: dict[str, list[EarlierRun]] = {}
    for profile_id, version, key in subjects:
        query = (
            select(col(BenchmarkPoint.metrics), col(BenchmarkPoint.repeats))
            .where(
                col(BenchmarkPoint.profile_id) == profile_id,
                col(BenchmarkPoint.comparability_key) == key,
                col(BenchmarkPoint.version) == version,
                col(BenchmarkPoint.status) == ResultStatus.OK,
                col(BenchmarkPoint.run_id).not_in([*run_ids, *without]),
            )
            .order_by(col(BenchmarkPoint.at).desc(), col(BenchmarkPoint.id).desc())
            .limit(limit)
        )
        rows = (await session.execute(query)).all()
        found.setdefault(key, []).extend(EarlierRun(metrics, repeats) for metrics, repeats in reversed(rows))
    return found


async def points_of_runs(session: AsyncSession, run_ids: Sequence[str]) -> dict[str, list[BenchmarkPoint]]:
    """Return the points of ended runs by run, in the order of the load."""
    query = (
        select(BenchmarkPoint).where(col(BenchmarkPoint.run_id).in_(run_ids)).order_by(col(BenchmarkPoint.point_index))
    )
    found: dict[str, list[BenchmarkPoint]] = {}
    for point in (await session.execute(query)).scalars():
        found.setdefault(point.run_id, []).append(point)
    return found


async def find_baseline(session: AsyncSession, profile_id: str, benchmark: str | None) -> Baseline | None:
    """Return what a profile's runs of a benchmark are compared with, or None."""
    query = select(Baseline).where(col(Baseline.profile_id) == profile_id, col(Baseline.benchmark) == (benchmark or ""))
    return (await session.execute(query)).scalar_one_or_none()


async def list_baselines(session: AsyncSession, profile_id: str) -> Sequence[Baseline]:
    """Return the baselines of a profile, by the name of the benchmark."""
    query = select(Baseline).where(col(Baseline.profile_id) == profile_id).order_by(col(Baseline.benchmark))
    return (await session.execute(query)).scalars().all()


async def baselines_that_are(session: AsyncSession, run_id: str) -> Sequence[Baseline]:
    """Return the baselines that a run is."""
    return (await session.execute(select(Baseline).where(col(Baseline.run_id) == run_id))).scalars().all()


def _of(profile_id: str, benchmark: str | None) -> list[ColumnElement[bool]]:
    conditions = [col(BenchmarkPoint.profile_id) == profile_id]
    if benchmark is not None:
        conditions.append(col(BenchmarkPoint.benchmark) == benchmark)
    return conditions
