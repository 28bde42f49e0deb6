"""Questions about workloads under their names: those that somebody defined, and those that are shipped."""

from dataclasses import dataclass

from sqlalchemy import or_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.benchmarks.presets import PRESETS
from service.benchmarks.workload import Workload
from service.db.benchmark_tables import Benchmark
from service.db.paging import PageRequest, Rows, fetch_page
from service.errors import NameTaken, NotFound

_ALIVE = col(Benchmark.deleted_at).is_(None)


@dataclass(frozen=True, slots=True)
class Definition:
    """A workload under its name: one that somebody defined, or one that is shipped."""

    name: str
    workload: Workload
    id: str | None = None
    """None for one that is shipped."""


async def find_definition(session: AsyncSession, name_or_id: str) -> Definition | None:
    """Return the workload with this name or id, defined or shipped, or None."""
    named = or_(col(Benchmark.id) == name_or_id, col(Benchmark.name) == name_or_id)
    row = (await session.execute(select(Benchmark).where(_ALIVE, named))).scalar_one_or_none()
    if row is not None:
        return definition_of(row)
    return Definition(name_or_id, PRESETS[name_or_id]) if name_or_id in PRESETS else None


async def get_definition(session: AsyncSession, name_or_id: str) -> Definition:
    """Return the workload with this name or id, defined or shipped; NotFound if there is none."""
    found = await find_definition(session, name_or_id)
    if found is None:
        raise NotFound(f"there is no benchmark {name_or_id!r}")
    return found


async def get_benchmark(session: AsyncSession, name_or_id: str) -> Benchmark:
    """Return the row of a workload that somebody defined; NotFound if there is none."""
    named = or_(col(Benchmark.id) == name_or_id, col(Benchmark.name) == name_or_id)
    row = (await session.execute(select(Benchmark).where(_ALIVE, named))).scalar_one_or_none()
    if row is None:
        raise NotFound(f"there is no benchmark {name_or_id!r} that was defined here")
    return row


async def require_free_benchmark_name(session: AsyncSession, name: str) -> None:
    """Raise NameTaken if a workload, defined or shipped, has this name."""
    if await find_definition(session, name) is not None:
        raise NameTaken(f"a benchmark named {name!r} exists")


async def list_benchmarks(session: AsyncSession, request: PageRequest) -> Rows[Benchmark]:
    """Return a page of the workloads that somebody defined, newest first."""
    return await fetch_page(session, select(Benchmark).where(_ALIVE), col(Benchmark.id), request)


def definition_of(row: Benchmark) -> Definition:
    """Return a row as a workload under its name."""
    return Definition(row.name, Workload.model_validate(row.workload), row.id)
