"""Writers and readers on SQLite take turns, for as long as it takes, and one that gives up holds nobody up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from service.db.engine import READERS_AT_ONCE, Database

POOL_PATIENCE_S = 0.05


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """Give a database of one table whose pool has next to no patience."""
    made = Database(f"sqlite+aiosqlite:///{tmp_path / 'turns.db'}")
    for pool in (made._write_engine.pool, made._read_engine.pool):
        cast("Any", pool)._timeout = POOL_PATIENCE_S
    async with made.write() as session:
        await session.execute(text("CREATE TABLE note (number INTEGER)"))
    yield made
    await made.close()


async def put(session: AsyncSession, number: int) -> None:
    """Write one row."""
    await session.execute(text("INSERT INTO note VALUES (:number)"), {"number": number})


async def written(database: Database) -> list[int]:
    """Return what was written, in its order."""
    async with database.read() as session:
        return list((await session.execute(text("SELECT number FROM note ORDER BY rowid"))).scalars())


async def begin_writers(database: Database, numbers: range) -> list[asyncio.Task[None]]:
    """Start writers that come one after the other."""

    async def write(number: int) -> None:
        async with database.write() as session:
            await put(session, number)

    tasks = []
    for number in numbers:
        tasks.append(asyncio.create_task(write(number)))
        await asyncio.sleep(0)
    return tasks


async def test_writers_wait_longer_than_the_pool_would(database: Database) -> None:
    async with database.write() as session:
        await put(session, 0)
        waiting = await begin_writers(database, range(1, 41))
        await asyncio.sleep(4 * POOL_PATIENCE_S)
    await asyncio.gather(*waiting)
    assert await written(database) == list(range(41))


async def test_who_gives_up_its_turn_holds_nobody_up(database: Database) -> None:
    async with database.write() as session:
        await put(session, 0)
        waiting = await begin_writers(database, range(1, 5))
        await asyncio.sleep(2 * POOL_PATIENCE_S)
        waiting[0].cancel()
        waiting[2].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError, type(None)] * 2
    assert await written(database) == [0, 2, 4]


async def test_a_writer_cancelled_in_its_transaction_leaves_nothing_and_passes_its_turn_on(database: Database) -> None:
    is_writing = asyncio.Event()

    async def write_for_ever() -> None:
        async with database.write() as session:
            await put(session, 1)
            is_writing.set()
            await asyncio.Event().wait()

    stuck = asyncio.create_task(write_for_ever())
    await is_writing.wait()
    waiting = await begin_writers(database, range(2, 4))
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    await asyncio.gather(*waiting)
    assert await written(database) == [2, 3]


async def test_readers_wait_longer_than_the_pool_would(database: Database) -> None:
    reading: set[int] = set()
    most = 0

    async def read(number: int) -> None:
        nonlocal most
        async with database.read() as session:
            await session.execute(text("SELECT number FROM note"))
            reading.add(number)
            most = max(most, len(reading))
            await asyncio.sleep(2 * POOL_PATIENCE_S)
            reading.remove(number)

    await asyncio.gather(*(read(number) for number in range(3 * READERS_AT_ONCE)))
    assert most == READERS_AT_ONCE


async def test_a_writer_that_is_cancelled_gives_the_lock_back(database: Database) -> None:
    """At whatever statement: a cursor that nobody has read to its end must not hold the database."""
    async with database.write() as session:
        numbers = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT n FROM c"
        await session.execute(text(f"INSERT INTO note {numbers}"))

    async def write() -> None:
        async with database.write() as session:
            await put(session, 0)
            while True:
                await session.execute(text("SELECT number FROM note"))
                await asyncio.sleep(0)  # a writer's statement is no turn of the loop

    ended = []
    for step in range(40):
        task = asyncio.create_task(write())
        await asyncio.sleep(0.01 + step / 2000)
        task.cancel()
        ended.append(await asyncio.gather(task, return_exceptions=True))  # what it raised holds its cursor
        async with asyncio.timeout(10), database.write() as session:
            await put(session, -1)
    assert (await written(database)).count(0) == 0
    assert len(ended) == (await written(database)).count(-1)
