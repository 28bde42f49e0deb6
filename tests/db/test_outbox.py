"""Events get their ids in the order in which their transactions are committed, on both dialects."""

import asyncio
from datetime import UTC, datetime, timedelta

from service.db import events as event_queries
from service.db import outbox, retention
from service.db.engine import Database
from service.db.retention import Bound
from service.servers.event import EventKind

START = datetime(2026, 11, 29, tzinfo=UTC)


def values(number: int) -> dict[str, object]:
    return {
        "kind": EventKind.PHASE_CHANGED,
        "node_id": "nd_1",
        "server_id": None,
        "launch_id": None,
        "document": {"number": number},
        "at": START + timedelta(seconds=number),
    }


async def test_a_reader_that_follows_ids_misses_none(database: Database) -> None:
    """Many writers at once, each open for another while: no id appears below one that was read."""

    async def write(number: int) -> None:
        async with database.write() as session:
            outbox.put(session, values(number))
            outbox.put(session, values(number))
            await asyncio.sleep(0.001 * (number * 7 % 5))

    seen: list[int] = []

    async def follow() -> None:
        while len(seen) < 100:
            async with database.read() as session:
                rows = await event_queries.events_after(session, seen[-1] if seen else 0, limit=7)
            seen.extend(row.id for row in rows if row.id is not None)

    async with asyncio.timeout(30):
        await asyncio.gather(follow(), *(write(number) for number in range(50)))
    assert seen == sorted(seen)
    async with database.read() as session:
        every = await event_queries.events_after(session, 0, limit=1000)
    assert seen == [row.id for row in every]
    pairs = [row.document["number"] for row in every]
    assert pairs[::2] == pairs[1::2], "the events of one transaction stand together"


async def test_the_listener_is_told_after_commits_with_events_only(database: Database) -> None:
    told: list[int] = []
    database.on_event = lambda: told.append(1)
    async with database.write():
        pass
    assert told == []
    async with database.write() as session:
        outbox.put(session, values(1))
        assert told == []
    assert told == [1]


async def test_ids_are_never_given_twice(database: Database) -> None:
    async with database.write() as session:
        outbox.put(session, values(1))
        outbox.put(session, values(2))
    async with database.read() as session:
        last = (await event_queries.id_range(session))[1]
    async with database.write() as session:
        bound = Bound(START + timedelta(days=1))
        await retention.remove_rows(
            session, retention.EVENTS, await retention.old_rows(session, retention.EVENTS, bound, after=None)
        )
    async with database.write() as session:
        outbox.put(session, values(3))
    async with database.read() as session:
        assert await event_queries.id_range(session) == (last, last + 1)
