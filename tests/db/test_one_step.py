"""A statement is one visit to the connection's thread, and all that SQLAlchemy asks of a cursor is as before."""

import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import literal_column, select, text
from sqlalchemy.exc import IntegrityError

from service.db.engine import Database
from service.db.one_step import OneStepConnection, connect


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


async def test_a_statement_is_one_visit_to_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = 0
    visit: Any = OneStepConnection._execute

    async def counted(self: OneStepConnection, *arguments: object) -> object:
        nonlocal visits
        visits += 1
        return await visit(self, *arguments)

    connection = await connect(str(tmp_path / "one.db"))
    monkeypatch.setattr(OneStepConnection, "_execute", counted)
    async with connection.cursor() as cursor:
        await cursor.execute("CREATE TABLE word (text TEXT)")
        await cursor.execute("INSERT INTO word VALUES (?)", ["a"])
        await cursor.execute("SELECT text FROM word")
        assert list(await cursor.fetchall()) == [("a",)]
        await cursor.close()
    assert visits == 3
    await connection.close()


async def test_a_reader_keeps_few_prepared_statements(database: Database) -> None:
    before = prepared()
    for number in range(200):
        async with database.read() as session:
            await session.execute(select(literal_column(str(number))))
    assert prepared() - before <= 40


def prepared() -> int:
    """Return how many prepared statements are kept in this process."""
    return sum(type(item).__name__ == "Statement" and "sqlite3" in repr(type(item)) for item in gc.get_objects())
