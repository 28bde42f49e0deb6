"""Questions about schedules, and what is written of their turns."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import or_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.benchmarks.runs import SkipReason
from service.db.benchmark_tables import Schedule
from service.db.paging import PageRequest, Rows, fetch_page
from service.errors import NameTaken, NotFound

_ALIVE = col(Schedule.deleted_at).is_(None)
_GOING = (_ALIVE, col(Schedule.is_paused).is_(False))


async def find_schedule(session: AsyncSession, name_or_id: str) -> Schedule | None:
    """Return the schedule with this name or id, or None."""
    named = or_(col(Schedule.id) == name_or_id, col(Schedule.name) == name_or_id)
    return (await session.execute(select(Schedule).where(_ALIVE, named))).scalar_one_or_none()


async def get_schedule(session: AsyncSession, name_or_id: str) -> Schedule:
    """Return the schedule with this name or id; NotFound if there is none."""
    schedule = await find_schedule(session, name_or_id)
    if schedule is None:
        raise NotFound(f"there is no schedule {name_or_id!r}")
    return schedule


async def require_free_schedule_name(session: AsyncSession, name: str) -> None:
    """Raise NameTaken if a schedule has this name."""
    if await find_schedule(session, name) is not None:
        raise NameTaken(f"a schedule named {name!r} exists")


async def list_schedules(session: AsyncSession, request: PageRequest) -> Rows[Schedule]:
    """Return a page of schedules, newest first."""
    return await fetch_page(session, select(Schedule).where(_ALIVE), col(Schedule.id), request)


async def kept_schedules(session: AsyncSession) -> Sequence[Schedule]:
    """Return every schedule that is not paused."""
    query = select(Schedule).where(*_GOING)
    return (await session.execute(query)).scalars().all()


async def note_next(session: AsyncSession, schedule_id: str, next_at: datetime | None) -> None:
    """Note when a schedule is due next; one that was paused or removed meanwhile is not due at all."""
    await session.execute(update(Schedule).where(col(Schedule.id) == schedule_id, *_GOING).values(next_at=next_at))


async def note_turn(
    session: AsyncSession,
    schedule_id: str,
    *,
    at: datetime,
    run_id: str | None = None,
    skip: SkipReason | None = None,
    detail: str | None = None,
) -> None:
    """Note what came of a turn: the run that it began, or why it began none."""
    values: dict[str, object] = {"last_at": at, "last_skip": skip, "last_skip_detail": detail}
    if run_id is not None:
        values["last_run_id"] = run_id
    await session.execute(update(Schedule).where(col(Schedule.id) == schedule_id).values(**values))
