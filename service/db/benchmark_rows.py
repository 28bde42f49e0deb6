"""Benchmark runs with the rows that a reader wants beside them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db.benchmark_history import points_of_runs
from service.db.benchmark_tables import BenchmarkPoint, BenchmarkRun
from service.db.tables import Node, Profile, Server


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run with names in the place of ids, of what was deleted too, and its points once it has ended."""

    run: BenchmarkRun
    server: str | None
    profile: str | None
    node: str | None
    points: Sequence[BenchmarkPoint]


async def with_surroundings(session: AsyncSession, runs: Sequence[BenchmarkRun]) -> list[RunRow]:
    """Return runs with what a reader wants beside them, in four queries whatever their number."""
    servers = await names_of(session, Server, {run.server_id for run in runs})
    profiles = await names_of(session, Profile, {run.profile_id for run in runs})
    nodes = await names_of(session, Node, {run.node_id for run in runs})
    points = await points_of_runs(session, [run.id for run in runs])
    return [
        RunRow(
            run=run,
            server=servers.get(run.server_id),
            profile=profiles.get(run.profile_id),
            node=nodes.get(run.node_id),
            points=points.get(run.id, ()),
        )
        for run in runs
    ]


async def names_of(
    session: AsyncSession, table: type[Server | Profile | Node], ids: Collection[str | None]
) -> dict[str | None, str]:
    """Return the names of rows by id, of deleted ones too."""
    known = [item for item in ids if item is not None]
    if not known:
        return {}
    query = select(col(table.id), col(table.name)).where(col(table.id).in_(known))
    return {row[0]: row[1] for row in await session.execute(query)}
