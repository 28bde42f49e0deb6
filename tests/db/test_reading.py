"""Readers see the database as it was when they began, on both dialects."""

from sqlmodel import col, select

from service.db import servers as server_queries
from service.db.engine import Database
from service.db.tables import Server
from service.servers.states import State
from tests.db.test_writing import add_servers


async def test_a_reader_sees_one_picture_however_often_it_looks(database: Database) -> None:
    await add_servers(database, "a")
    query = select(col(Server.state))
    async with database.read() as session:
        before = (await session.execute(query)).scalar_one()
        async with database.write() as writing:
            (await server_queries.get_server(writing, "a")).state = State.FAILED
        assert (await session.execute(query)).scalar_one() is before
    async with database.read() as session:
        assert (await session.execute(query)).scalar_one() is State.FAILED
