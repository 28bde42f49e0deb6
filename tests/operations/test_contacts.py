"""Contacts that many watchers learn at once: few transactions, none lost, and what cannot be written fails alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy.exc import StatementError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db import migrating
from service.db.engine import Database
from service.db.tables import Node, Transition
from service.errors import NodeUnreachable
from service.nodes.contact import Contact
from service.operations.contacts import BATCH, ContactBook

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
NAIVE = NOW.replace(tzinfo=None)
"""No instant without a zone can be stored."""


class CountingDatabase(Database):
    """A database that counts its transactions, and can hold the next one back."""

    write_count = 0
    gate: asyncio.Event | None = None

    @asynccontextmanager
    async def write(self, *, is_long: bool = False) -> AsyncIterator[AsyncSession]:
        """Count, wait for the gate if there is one, and write."""
        self.write_count += 1
        async with super().write(is_long=is_long) as session:
            if self.gate:
                await self.gate.wait()
            yield session


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[CountingDatabase]:
    """Give a database with three batches of nodes that were never met."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'contacts.db'}"
    migrating.upgrade(url)
    made = CountingDatabase(url)
    async with made.write() as session:
        session.add_all(
            Node(
                id=f"nd_{number}", name=f"n{number}", address="h", port=22, user="u", credential={"kind": "agent"},
                engines=[], first_port=1, last_port=2, contact=Contact.UNKNOWN, contact_since_at=NOW, created_at=NOW,
            )
            for number in range(3 * BATCH)
        )  # fmt: skip
    made.write_count = 0
    yield made
    await made.close()


async def nodes_of(database: Database, limit: int = 3 * BATCH) -> list[Node]:
    """Return the first nodes."""
    async with database.read() as session:
        rows = (await session.execute(select(Node))).scalars().all()
    return sorted(rows, key=lambda node: int(node.id.removeprefix("nd_")))[:limit]


async def met(database: Database) -> dict[str, str]:
    """Return the contact of every node that has one, from its row; its transition must say the same."""
    async with database.read() as session:
        rows = (await session.execute(select(Node).where(col(Node.contact) != Contact.UNKNOWN))).scalars().all()
        said = (await session.execute(select(Transition).order_by(col(Transition.id)))).scalars().all()
    contacts = {row.id: row.contact.value for row in rows}
    assert {row.node_id: row.after for row in said} == contacts
    return contacts


async def test_many_contacts_at_once_share_transactions(database: CountingDatabase) -> None:
    nodes = await nodes_of(database)
    book = ContactBook(database)
    await asyncio.gather(*(book.note(node, Contact.OK, at=NOW) for node in nodes))
    assert await met(database) == {node.id: "ok" for node in nodes}
    assert database.write_count <= 4


async def test_contacts_of_one_node_are_written_in_their_order(database: CountingDatabase) -> None:
    (node,) = await nodes_of(database, 1)
    book = ContactBook(database)
    lost = NodeUnreachable("the cable is out")
    await asyncio.gather(
        book.note(node, Contact.OK, at=NOW),
        book.note(node, Contact.LOST, at=NOW, error=lost),
        book.note(node, Contact.OK, at=NOW),
        book.note(node, Contact.LOST, at=NOW, error=lost),
    )
    async with database.read() as session:
        said = (await session.execute(select(Transition).order_by(col(Transition.id)))).scalars().all()
    assert [row.after for row in said] == ["ok", "lost", "ok", "lost"]
    assert (await nodes_of(database, 1))[0].contact_detail == "the cable is out"


async def test_a_contact_that_cannot_be_written_fails_alone(database: CountingDatabase) -> None:
    nodes = await nodes_of(database, 20)
    book = ContactBook(database)
    instants = [NAIVE if number in {7, 12} else NOW for number in range(20)]
    noted = (book.note(node, Contact.OK, at=at) for node, at in zip(nodes, instants, strict=True))
    results = await asyncio.gather(*noted, return_exceptions=True)
    assert [number for number, result in enumerate(results) if isinstance(result, StatementError)] == [7, 12]
    assert sorted(await met(database)) == sorted(node.id for number, node in enumerate(nodes) if number not in {7, 12})


async def test_who_is_cancelled_while_it_waits_is_not_written(database: CountingDatabase) -> None:
    nodes = await nodes_of(database, 3)
    book = ContactBook(database)
    database.gate = asyncio.Event()
    tasks = [asyncio.create_task(book.note(node, Contact.OK, at=NOW)) for node in nodes]
    await asyncio.sleep(0.05)
    tasks[1].cancel()
    await asyncio.sleep(0)
    database.gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(await met(database)) == ["nd_0", "nd_2"]


async def results_without(database: CountingDatabase, *, second_cancelled: int) -> list[BaseException | None]:
    """Note the contact of four nodes at once, cancel the first and later another, and return what became of each."""
    nodes = await nodes_of(database, 4)
    book = ContactBook(database)
    database.gate = asyncio.Event()
    tasks = [asyncio.create_task(book.note(node, Contact.OK, at=NOW)) for node in nodes]
    await asyncio.sleep(0.05)
    tasks[0].cancel()  # the second now writes for itself and the other two
    await asyncio.sleep(0.05)
    tasks[second_cancelled].cancel()
    await asyncio.sleep(0.05)
    database.gate.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_who_is_cancelled_while_it_writes_for_others_loses_none_of_theirs(database: CountingDatabase) -> None:
    results = await results_without(database, second_cancelled=1)
    assert [type(result) for result in results] == [asyncio.CancelledError] * 2 + [type(None)] * 2
    assert sorted(await met(database)) == ["nd_2", "nd_3"]


async def test_who_is_cancelled_while_another_writes_for_it_fails_nobody(database: CountingDatabase) -> None:
    """As when a node is deleted while its contact is being written with those of others."""
    results = await results_without(database, second_cancelled=2)
    assert [type(result) for result in results] == [
        asyncio.CancelledError,
        type(None),
        asyncio.CancelledError,
        type(None),
    ]
    assert set(await met(database)) >= {"nd_1", "nd_3"}
