"""Servers read in one statement: the same object for as long as nothing changed, and never one of before a change."""

from collections.abc import Callable

import pytest
from sqlalchemy import func
from sqlmodel import SQLModel, col, select

from service.db import servers as server_queries
from service.db.engine import Database
from service.db.paging import PageRequest
from service.db.recorded_servers import RecordedServers
from service.db.servers import LEFT_OUT, ServerFilter, ServerRow
from service.db.tables import AcceptanceSample, Finding, Launch, Node, Operation, Profile, Server
from service.errors import NotFound
from service.nodes.contact import Contact
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import State
from tests.db.test_lists import listening
from tests.db.test_writing import NOW, add_servers

ALL = PageRequest(limit=200)


async def add_launches(database: Database) -> None:
    """Give each server its first launch, with a finding, a sample and an operation."""
    async with database.write() as session:
        for server in (await session.execute(select(Server))).scalars().all():
            server.launch_id = f"ln_{server.name}"
            session.add(
                Launch(
                    id=server.launch_id, server_id=server.id, node_id=server.node_id, number=1,
                    profile_id=server.profile_id, profile_version=1, recipe={}, argv=["x"], environment={},
                    port=server.port, gpus=[{"index": 0}], model_path="/m", created_at=NOW, timeline=[],
                )
            )  # fmt: skip
            await session.flush()
            session.add_all([finding(server, "a"), sample(server), operation(server)])


def finding(server: Server, code: str) -> Finding:
    """Return a finding that is open."""
    return Finding(
        subject_id=f"ln_{server.name}", node_id=server.node_id, server_id=server.id, code=code, summary="s", remedy="r",
        count=1, evidence=[], began_at=NOW,
    )  # fmt: skip


def sample(server: Server) -> AcceptanceSample:
    """Return a sample of what speculation did."""
    return AcceptanceSample(
        launch_id=f"ln_{server.name}", at=NOW, window_s=60, source="log", accept_length=2.5, verify_steps=900,
        generated_tokens=2000, running_requests=3,
    )  # fmt: skip


def operation(server: Server) -> Operation:
    """Return an operation that is under way."""
    return Operation(
        id=f"op_{server.name}", kind=OperationKind.LAUNCH, server_id=server.id, state=OperationState.RUNNING,
        step=OperationStep.STARTING, actor="test", created_at=NOW,
    )  # fmt: skip


async def page_of(database: Database, recorded: RecordedServers, request: PageRequest = ALL) -> dict[str, ServerRow]:
    """Return a page by name."""
    async with database.read() as session:
        page = await recorded.page(session, request, ServerFilter())
    return {row.server.name: row for row in page.items}


async def test_what_has_not_changed_is_the_same_object_and_one_statement(database: Database) -> None:
    await add_servers(database, "a", "b")
    await add_launches(database)
    recorded = RecordedServers()
    first = await page_of(database, recorded)
    with listening(database) as said:
        again = await page_of(database, recorded)
        async with database.read() as session:
            one = await recorded.one(session, "a")
    assert len([statement for statement in said if statement.startswith("SELECT")]) == 2
    assert again["a"] is first["a"] is one
    assert again["b"] is first["b"]
    assert first["a"].launch is not None
    assert first["a"].launch.gpus == [{"index": 0}]
    assert first["a"].operation is not None
    assert [item.code for item in first["a"].findings] == ["a"]


CHANGES: dict[str, tuple[type[SQLModel], Callable[[SQLModel], None]]] = {
    "server": (Server, lambda row: setattr(row, "state", State.UNREADY)),
    "node": (Node, lambda row: setattr(row, "contact", Contact.LOST)),
    "profile": (Profile, lambda row: setattr(row, "name", "other")),
    "launch": (Launch, lambda row: setattr(row, "phase", "loading_weights")),
    "json": (Launch, lambda row: setattr(row, "progress", {"done": 1, "total": 2, "unit": "shards"})),
    "operation": (Operation, lambda row: setattr(row, "step", OperationStep.WATCHING)),
    "operation's end": (Operation, lambda row: setattr(row, "state", OperationState.SUCCEEDED)),
    "finding": (Finding, lambda row: setattr(row, "count", 2)),
    "finding's end": (Finding, lambda row: setattr(row, "ended_at", NOW)),
    "sample": (AcceptanceSample, lambda row: setattr(row, "accept_length", 1.5)),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_of_anything_shown_is_seen_and_its_return_too(database: Database, name: str) -> None:
    await add_servers(database, "a")
    await add_launches(database)
    recorded = RecordedServers()
    before = (await page_of(database, recorded))["a"]
    table, change = CHANGES[name]
    async with database.write() as session:
        row = (await session.execute(select(table))).scalars().one()
        old = row.model_dump()
        change(row)
    after = (await page_of(database, recorded))["a"]
    assert after is not before
    assert shown(after) == shown((await page_of(database, RecordedServers()))["a"])
    assert shown(after) != shown(before)
    async with database.write() as session:
        row = (await session.execute(select(table))).scalars().one()
        row.sqlmodel_update(old)
    assert shown((await page_of(database, recorded))["a"]) == shown(before)


def shown(row: ServerRow) -> object:
    """Return what a row holds, as plain values."""
    parts = (row.server, row.profile, row.launch, row.operation, row.acceptance, *row.findings)
    return row.node, [part.model_dump(exclude=set(LEFT_OUT)) if part else None for part in parts]


async def test_new_findings_and_samples_are_seen_and_make_no_server_twice(database: Database) -> None:
    servers = await add_servers(database, "a", "b", "c")
    await add_launches(database)
    recorded = RecordedServers()
    await page_of(database, recorded)
    async with database.write() as session:
        for server in servers:
            session.add_all([finding(server, "b"), finding(server, "c"), sample(server)])
    async with database.read() as session:
        page = await recorded.page(session, PageRequest(limit=2), ServerFilter())
        rest = await recorded.page(session, PageRequest(limit=2, cursor=page.next_cursor), ServerFilter())
        newest = (await session.execute(select(func.max(col(AcceptanceSample.id))))).scalar_one()
    assert [row.server.name for row in (*page.items, *rest.items)] == [
        server.name for server in sorted(servers, key=lambda server: server.id, reverse=True)
    ]
    assert rest.next_cursor is None
    assert {len(row.findings) for row in (*page.items, *rest.items)} == {3}
    assert newest in {row.acceptance.id for row in (*page.items, *rest.items) if row.acceptance}


async def test_filters_deleted_servers_and_names(database: Database) -> None:
    servers = await add_servers(database, "a", "b")
    recorded = RecordedServers()
    await page_of(database, recorded)
    async with database.write() as session:
        (await server_queries.get_server(session, "a")).state = State.FAILED
        (await server_queries.get_server(session, "b")).deleted_at = NOW
    async with database.read() as session:
        failed = await recorded.page(session, ALL, ServerFilter(state=State.FAILED, contact=Contact.OK))
        lost = await recorded.page(session, ALL, ServerFilter(contact=Contact.LOST))
        by_id = await recorded.one(session, servers[0].id)
        with pytest.raises(NotFound):
            await recorded.one(session, "b")
    assert [row.server.name for row in failed.items] == [by_id.server.name] == ["a"]
    assert list(await page_of(database, recorded)) == ["a"]
    assert lost.items == []
