"""The outbox of a write transaction: events that are told in it are written at its end, with ids in order of commit."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert, text
from sqlalchemy.ext.asyncio import AsyncSession

from service.db.event_tables import Event

_KEY = "outbox"
_LOCK = 7_236_601
"""The advisory lock of PostgreSQL under which ids are given out; any number that nobody else uses."""


def put(session: AsyncSession, values: Mapping[str, Any]) -> None:
    """Keep an event for the end of the transaction."""
    session.info.setdefault(_KEY, []).append(dict(values))


async def empty(session: AsyncSession) -> bool:
    """Write what was kept, as the last thing before the commit; tell whether there was anything.

    Readers follow events by id, so nothing may appear below an id that they have passed. SQLite has one writer.
    PostgreSQL gives ids to transactions that commit in another order, so there ids are taken under a lock that lasts
    until the commit; as the last thing of all it stands in nobody's way for long, and waits for no other lock.
    """
    kept = session.info.pop(_KEY, None)
    if not kept:
        return False
    await session.flush()
    if session.get_bind().dialect.name == "postgresql":
        await session.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
    await session.execute(insert(Event), kept)
    return True
