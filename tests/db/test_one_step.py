"""A statement is at most one visit to the connection's thread, and answers all that SQLAlchemy asks of a cursor."""

import asyncio
import gc
import sqlite3
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from sqlalchemy import Integer, String, column, insert, literal_column, select, table, text
from sqlalchemy.exc import IntegrityError

from service.db.columns import one_of
from service.db.engine import Database
from service.db.one_step import BEGIN, LARGE, OneStepConnection, OneStepCursor, Writing, connect


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    made = Database(f"sqlite+aiosqlite:///{tmp_path / 'vigil.db'}")
    async with made.write() as session:
        await session.execute(text("CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT UNIQUE)"))
    yield made
    await made.close()


async def test_rows_counts_and_ids_are_told(database: Database) -> None:
    async with database.write() as session:
        made = await session.execute(text("INSERT INTO word (text) VALUES ('a') RETURNING id, text"))
        assert made.all() == [(1, "a")]
        many = [{"text": "b"}, {"text": "c"}]
        await session.execute(text("INSERT INTO word (text) VALUES (:text)"), many)
        changed = await session.execute(text("UPDATE word SET text = text || '!' WHERE id > 1"))
        assert changed.rowcount == 2  # type: ignore[attr-defined]
    async with database.read() as session:
        found = await session.execute(text("SELECT id, text FROM word ORDER BY id"))
        assert list(found.keys()) == ["id", "text"]
        assert found.all() == [(1, "a"), (2, "b!"), (3, "c!")]
        assert (await session.execute(text("SELECT id FROM word WHERE id > 9"))).all() == []


async def test_a_statement_that_fails_leaves_a_connection_that_works(database: Database) -> None:
    async def write_twice() -> None:
        async with database.write() as session:
            await session.execute(text("INSERT INTO word (text) VALUES ('a')"))
            await session.execute(text("INSERT INTO word (text) VALUES ('a')"))

    with pytest.raises(IntegrityError):
        await write_twice()
    async with database.write() as session:
        assert (await session.execute(text("SELECT count(*) FROM word"))).scalar_one() == 0


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give what the threads are asked for from now on, by what they do."""
    seen: list[str] = []
    visit: Any = OneStepConnection._execute

    async def noted(self: OneStepConnection, action: Any, *arguments: object, **more: object) -> object:
        statement = action.args[1] if isinstance(action, partial) and len(action.args) > 1 else action.__name__
        seen.append(str(statement).split()[0])
        return await visit(self, action, *arguments, **more)

    monkeypatch.setattr(OneStepConnection, "_execute", noted)
    return seen


async def test_reading_is_one_visit_a_statement(database: Database, visits: list[str]) -> None:
    async with database.read() as session:
        await session.execute(text("SELECT text FROM word"))
    visits.clear()  # those that opened a connection are gone
    async with database.read() as session:
        await session.execute(text("SELECT text FROM word"))
        await session.execute(text("SELECT id FROM word"))
    assert visits == ["SELECT", "SELECT"]


async def test_writing_visits_the_thread_for_the_commit_alone(database: Database, visits: list[str]) -> None:
    async with database.write() as session:
        await session.execute(text("INSERT INTO word (text) VALUES ('a')"))
        assert (await session.execute(text("SELECT count(*) FROM word"))).scalar_one() == 1
    assert visits == ["commit"]


async def test_what_may_take_long_is_written_in_the_thread(database: Database, visits: list[str]) -> None:
    insert = text("INSERT INTO word (text) VALUES (:text)")
    async with database.write() as session:
        await session.execute(insert, {"text": "a" * (LARGE + 1)})
        await session.execute(insert, [{"text": "b"}, {"text": "c"}])
        await session.execute(insert, {"text": "d"})
    assert visits == ["INSERT", "INSERT", "commit"]
    visits.clear()
    async with database.write(is_long=True) as session:
        await session.execute(text("DELETE FROM word"))
    assert visits == ["DELETE", "commit"]
    visits.clear()
    async with database.write() as session:
        await session.execute(text("DELETE FROM word"))
    assert visits == ["commit"], "the next transaction is a short one again"


async def test_a_lock_of_another_process_is_waited_for_without_holding_the_loop(
    database: Database, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "vigil.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def write() -> None:
        async with database.write() as session:
            await session.execute(text("INSERT INTO word (text) VALUES ('a')"))

    writing = asyncio.create_task(write())
    began = perf_counter()
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert perf_counter() - began < 1
    assert not writing.done()
    other.execute("COMMIT")
    await writing
    assert other.execute("SELECT text FROM word").fetchall() == [("a",)]
    other.close()


@pytest.mark.parametrize("is_locked", [False, True])
async def test_a_rollback_that_is_still_to_come_does_not_undo_what_is_written_next(
    tmp_path: Path, *, is_locked: bool
) -> None:
    """Who was cancelled twice has left while the thread still works for him; another process may be writing, too."""
    connection = connect(str(tmp_path / "one.db"), writing=Writing(), isolation_level=None)
    await connection
    cursor = OneStepCursor(connection)
    await cursor.execute("CREATE TABLE word (text TEXT)")
    for begin in (BEGIN, "COMMIT"):
        await cursor.execute(begin)
    other = sqlite3.connect(tmp_path / "one.db", isolation_level=None)
    visits: list[Any] = [partial(time.sleep, 0.1), connection._conn.rollback]
    for slow in visits:
        left = asyncio.create_task(connection._visit(slow))
        await asyncio.sleep(0)
        left.cancel()
    if is_locked:
        other.execute(BEGIN)
        asyncio.get_running_loop().call_later(0.3, other.execute, "COMMIT")
    await cursor.execute(BEGIN)
    await cursor.execute("INSERT INTO word VALUES ('a')")
    await asyncio.sleep(0.2)
    assert connection.in_transaction
    await connection.commit()
    assert other.execute("SELECT text FROM word").fetchall() == [("a",)]
    other.close()
    await connection.close()


async def test_a_reader_keeps_few_prepared_statements(database: Database) -> None:
    before = prepared()
    for number in range(200):
        async with database.read() as session:
            await session.execute(select(literal_column(str(number))))
    assert prepared() - before <= 40


async def test_lists_of_many_lengths_are_few_statements(database: Database) -> None:
    word = table("word", column("id", Integer), column("text", String))
    async with database.write() as session:
        await session.execute(insert(word), [{"id": number, "text": str(number)} for number in range(100)])
    async with database.read() as session:
        await session.execute(select(word.c.id))
        before = prepared()
        for length in range(101):
            rows = await session.execute(select(word.c.id).where(one_of(word.c.id, range(length))))  # type: ignore[arg-type]
            assert sorted(rows.scalars()) == list(range(length))
    assert prepared() - before <= 10


def prepared() -> int:
    """Return how many prepared statements are kept in this process."""
    return sum(type(item).__name__ == "Statement" and "sqlite3" in repr(type(item)) for item in gc.get_objects())
