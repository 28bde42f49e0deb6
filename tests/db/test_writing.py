"""Writers at the same moment: one wins, nothing is lost; on both dialects."""

import asyncio
from datetime import UTC, datetime

import pytest
from sqlalchemy import func
from sqlmodel import col, select

from service.db import servers as server_queries
from service.db.engine import Database
from service.db.paging import PageRequest
from service.db.recorded_servers import RecordedServers
from service.db.servers import ServerFilter
from service.db.tables import GpuClaim, Node, Profile, Server, Transition
from service.errors import GpuTaken, InvalidInput, Overtaken, PortTaken, VigilError
from service.ids import new_id
from service.nodes.contact import Contact
from service.operations import claims, transitioning
from service.servers.states import Desired, Move, Reason, State

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
STOP = Move(State.STOPPING, Reason.STOP_REQUESTED, "asked")


async def add_servers(database: Database, *names: str, state: State = State.READY) -> list[Server]:
    """Write a node, a profile and servers on it, each with a port of its own."""
    node = Node(
        id="nd_1", name="atlas", address="h", port=22, user="u", credential={"kind": "agent"}, engines=[],
        first_port=30000, last_port=30999, contact=Contact.OK, contact_since_at=NOW, created_at=NOW,
    )  # fmt: skip
    profile = Profile(id="pr_1", name="p", latest_version=1, created_at=NOW)
    servers = [
        Server(
            id=new_id("sv", NOW), name=name, node_id="nd_1", profile_id="pr_1", profile_version=1, port=30000 + number,
            gpu_count=1, desired=Desired.RUNNING, state=state, state_since_at=NOW, created_at=NOW,
        )
        for number, name in enumerate(names)
    ]  # fmt: skip
    async with database.write() as session:
        session.add_all([node, profile])
        await session.flush()
        session.add_all(servers)
    return servers


async def test_of_two_moves_at_once_one_wins_and_leaves_one_transition(database: Database) -> None:
    (server,) = await add_servers(database, "a")

    async def move(wanted: Move) -> State | None:
        try:
            async with database.write() as session:
                stale = Server.model_validate(server.model_dump())
                await transitioning.record(session, stale, wanted, at=NOW, actor="test")
        except Overtaken:
            return None
        return wanted.after

    fail = Move(State.FAILED, Reason.PROCESS_EXITED, "gone")
    outcomes = await asyncio.gather(*(move(wanted) for wanted in (STOP, fail, STOP, fail)))
    winners = [outcome for outcome in outcomes if outcome is not None]
    assert len(winners) == 1
    async with database.read() as session:
        rows = (await session.execute(select(Transition))).scalars().all()
        stored = await server_queries.get_server(session, "a")
    assert [(row.before, row.after) for row in rows] == [("ready", winners[0])]
    assert stored.state is winners[0]


async def test_two_servers_cannot_hold_one_gpu(database: Database) -> None:
    servers = await add_servers(database, "a", "b", "c", state=State.STOPPED)

    async def take(server: Server) -> str | None:
        try:
            async with database.write() as session:
                await claims.take(session, server, ["GPU-1", f"GPU-{server.name}"])
        except GpuTaken:
            return None
        return server.name

    winners = [name for name in await asyncio.gather(*(take(server) for server in servers)) if name]
    assert len(winners) == 1
    async with database.read() as session:
        held = await server_queries.gpu_claims(session, "nd_1")
        count = (await session.execute(select(func.count()).select_from(GpuClaim))).scalar_one()
    assert held == {"GPU-1": winners[0], f"GPU-{winners[0]}": winners[0]}
    assert count == 2


async def test_a_taken_port_names_its_holder(database: Database) -> None:
    first, second = await add_servers(database, "a", "b", state=State.STOPPED)
    second.port = first.port
    async with database.write() as session:
        await claims.take(session, first, [])
    with pytest.raises(PortTaken, match="held by server a"):
        async with database.write() as session:
            await claims.take(session, second, [])


async def test_what_fails_in_a_block_is_rolled_back(database: Database) -> None:
    (server,) = await add_servers(database, "a", state=State.STOPPED)

    async def take_and_fail() -> None:
        async with database.write() as session:
            await claims.take(session, server, ["GPU-1"])
            raise VigilError("no")

    with pytest.raises(VigilError):
        await take_and_fail()
    async with database.read() as session:
        assert await server_queries.gpu_claims(session, "nd_1") == {}


async def test_concurrent_read_then_write_transactions_lose_nothing(database: Database) -> None:
    (server,) = await add_servers(database, "a")

    async def count_up(times: int) -> None:
        for _ in range(times):
            async with database.write() as session:
                row = (
                    await session.execute(select(Server).where(col(Server.id) == server.id).with_for_update())
                ).scalar_one()
                row.launch_count += 1

    await asyncio.gather(*(count_up(50) for _ in range(4)))
    async with database.read() as session:
        assert (await server_queries.get_server(session, "a")).launch_count == 200


async def test_pages_cover_everything_once(database: Database) -> None:
    await add_servers(database, *(f"s{number}" for number in range(7)))
    seen: list[str] = []
    cursor = None
    while True:
        async with database.read() as session:
            rows = await RecordedServers().page(session, PageRequest(limit=3, cursor=cursor), ServerFilter())
        seen += [row.server.name for row in rows.items]
        cursor = rows.next_cursor
        if cursor is None:
            break
    assert sorted(seen) == [f"s{number}" for number in range(7)]


@pytest.mark.parametrize("cursor", ["%%%", "é", "AAAA="])
async def test_a_cursor_that_is_not_ours_is_refused_or_harmless(database: Database, cursor: str) -> None:
    async with database.read() as session:
        try:
            rows = await RecordedServers().page(session, PageRequest(cursor=cursor), ServerFilter())
        except InvalidInput:
            return
    assert rows.items == []


async def test_instants_come_back_aware(database: Database) -> None:
    await add_servers(database, "a")
    async with database.read() as session:
        assert (await server_queries.get_server(session, "a")).created_at == NOW
