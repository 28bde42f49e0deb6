"""Questions about events: what came after an id, and how far back they go."""

from collections.abc import Collection, Sequence

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db.columns import one_of
from service.db.event_tables import Event
from service.db.tables import Node, Server


async def events_after(session: AsyncSession, event_id: int, *, limit: int) -> Sequence[Event]:
    """Return the events with higher ids, in order, at most so many."""
    query = select(Event).where(col(Event.id) > event_id).order_by(col(Event.id)).limit(limit)
    return (await session.execute(query)).scalars().all()


async def id_range(session: AsyncSession) -> tuple[int, int]:
    """Return the lowest and the highest id that is kept; 0 and 0 before the first event."""
    lowest, highest = (await session.execute(select(func.min(Event.id), func.max(Event.id)))).one()
    return lowest or 0, highest or 0


async def names_of(session: AsyncSession, ids: Collection[str]) -> dict[str, str]:
    """Return the names of nodes and servers by id, of deleted ones too."""
    names: dict[str, str] = {}
    for table in (Node, Server):
        rows = await session.execute(select(col(table.id), col(table.name)).where(one_of(col(table.id), ids)))
        names.update((row[0], row[1]) for row in rows)
    return names
