"""What may go and what never does, on both dialects."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlmodel import col, select

from service.benchmarks.runs import RunSource, RunState
from service.db import retention
from service.db.benchmark_tables import Baseline, BenchmarkFile, BenchmarkRun
from service.db.engine import Database
from service.db.event_tables import Event
from service.db.fields import Table
from service.db.retention import Bound, History, OldFiles
from service.db.starts import RECENT_LAUNCHES
from service.db.tables import Finding, IdempotencyRecord, Launch, Node, Operation, Server, Transition
from service.nodes.contact import Contact
from service.servers.event import EventKind
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import Reason, State
from tests.db.test_writing import add_servers

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
OLD = NOW - timedelta(days=400)
BOUND = Bound(NOW - timedelta(days=365))


async def removed(database: Database, kind: History, bound: Bound = BOUND) -> list[Any]:
    """Remove in batches as the timed job does, and return the keys that went."""
    gone: list[Any] = []
    while True:
        async with database.read() as session:
            keys = await retention.old_rows(session, kind, bound, after=gone[-1] if gone else None)
        if not keys:
            return gone
        async with database.write() as session:
            await retention.remove_rows(session, kind, keys)
        gone += keys


async def add(database: Database, *rows: Table) -> None:
    async with database.write() as session:
        for row in rows:
            session.add(row)
            await session.flush()


def transition(at: datetime, launch_id: str | None) -> Transition:
    return Transition(
        subject="server", server_id="s", node_id="nd_1", launch_id=launch_id, before="a", after="b",
        reason=Reason.BECAME_READY, message="m", evidence={}, actor="t", at=at,
    )  # fmt: skip


def launch(server: Server, number: int, *, at: datetime = OLD, **fields: Any) -> Launch:
    return Launch(
        **{
            "id": f"ln_{server.name}_{number:04}", "server_id": server.id, "node_id": server.node_id,
            "number": number, "profile_id": server.profile_id, "profile_version": 1, "recipe": {}, "argv": [],
            "environment": {}, "port": server.port, "gpus": [], "model_path": "/m", "created_at": at, "ended_at": at,
            "timeline": [], "files_removed_at": NOW, **fields,
        }
    )  # fmt: skip


async def add_launches(database: Database, *launches: Launch, current: str | None = None) -> None:
    await add(database, *launches)
    async with database.write() as session:
        server = await session.get_one(Server, launches[0].server_id)
        server.launch_count = max(item.number for item in launches)
        server.launch_id = current


async def test_old_transitions_go_but_those_of_current_launches_and_the_newest(database: Database) -> None:
    (server,) = await add_servers(database, "a")
    await add_launches(database, launch(server, 1), launch(server, 2), current="ln_a_0002")
    rows = [
        transition(OLD, "ln_a_0001"),
        transition(OLD, "ln_a_0002"),
        transition(OLD, None),
        transition(NOW, "ln_a_0001"),
        transition(OLD, None),
    ]
    await add(database, *rows)
    assert await removed(database, retention.TRANSITIONS) == [rows[0].id, rows[2].id]


async def test_too_many_rows_go_from_the_oldest_on(database: Database) -> None:
    rows = [transition(NOW, None) for _ in range(20)]
    await add(database, *rows)
    async with database.read() as session:
        assert await retention.floor_of(session, retention.TRANSITIONS, 20) == rows[0].id
        assert await retention.floor_of(session, retention.TRANSITIONS, 21) is None
        floor = await retention.floor_of(session, retention.TRANSITIONS, 5)
    assert await removed(database, retention.TRANSITIONS, Bound(OLD, floor)) == [row.id for row in rows[:15]]


async def test_more_than_a_batch_goes_in_batches(database: Database) -> None:
    rows = [transition(OLD, None) for _ in range(7)]
    await add(database, *rows)
    small = History("transitions", Transition, retention.TRANSITIONS.key, retention.TRANSITIONS.at, batch=3)
    async with database.read() as session:
        assert len(await retention.old_rows(session, small, BOUND, after=None)) == 3
    assert await removed(database, small) == [row.id for row in rows[:6]]


async def test_the_newest_old_event_stays_to_tell_a_late_listener_of_the_gap(database: Database) -> None:
    times = (OLD, OLD, OLD, NOW, NOW)
    rows = [Event(kind=EventKind.SERVER_MOVED, node_id="n", document={}, at=at) for at in times]
    await add(database, *rows)
    assert await removed(database, retention.EVENTS) == [rows[0].id, rows[1].id]


async def test_open_findings_and_running_operations_stay_though_they_are_too_many(database: Database) -> None:
    (server,) = await add_servers(database, "a")
    findings = [
        Finding(
            subject_id="x", node_id="n", code=f"c{number}", summary="", remedy="", count=1, evidence=[], began_at=OLD,
            ended_at=ended_at,
        )
        for number, ended_at in enumerate((None, OLD, NOW, NOW))
    ]  # fmt: skip
    operations = [
        Operation(
            id=f"op_{number}", kind=OperationKind.STOP, server_id=server.id, state=state, step=OperationStep.DONE,
            actor="t", created_at=OLD, ended_at=ended_at,
        )
        for number, (state, ended_at) in enumerate(
            [
                (OperationState.RUNNING, None),
                (OperationState.FAILED, OLD),
                (OperationState.SUCCEEDED, NOW),
                (OperationState.SUCCEEDED, NOW),
            ]
        )
    ]  # fmt: skip
    await add(database, *findings, *operations)
    assert await removed(database, retention.FINDINGS) == [findings[1].id]
    assert await removed(database, retention.FINDINGS, Bound(OLD, findings[3].id)) == [findings[2].id]
    assert await removed(database, retention.OPERATIONS) == ["op_1"]
    assert await removed(database, retention.OPERATIONS, Bound(OLD, "op_3")) == ["op_2"]


async def test_answers_are_forgotten(database: Database) -> None:
    rows = [
        IdempotencyRecord(scope="s", key=str(number), body_hash="h", status=201, headers={}, created_at=at)
        for number, at in enumerate((OLD, NOW, NOW))
    ]
    await add(database, *rows)
    assert await removed(database, retention.ANSWERS) == [rows[0].id]


async def test_result_files_go_but_those_of_baselines(database: Database) -> None:
    await add_servers(database, "a")

    def run(number: int, at: datetime) -> BenchmarkRun:
        return BenchmarkRun(
            id=f"br_{number}", source=RunSource.OWN, state=RunState.SUCCEEDED, repeats=1, actor="t", created_at=at
        )

    def file(number: int) -> BenchmarkFile:
        return BenchmarkFile(
            run_id=f"br_{number}",
            point_index=0,
            repeat_index=0,
            sha256="",
            size_bytes=1,
            is_redacted=False,
            content=b"x",
        )

    baseline = Baseline(profile_id="pr_1", benchmark="b", run_id="br_1", actor="t", set_at=OLD)
    files = [file(0), file(1), file(2)]
    await add(database, run(0, OLD), run(1, OLD), run(2, NOW), baseline, *files)
    assert await removed(database, retention.RESULT_FILES) == [files[0].id]


async def _launches_to_go(database: Database, *, keep_launches: int = 200) -> list[str]:
    async with database.read() as session:
        return list(await retention.old_launches(session, BOUND.before, keep_launches=keep_launches, limit=500))


async def test_an_old_launch_goes_when_its_files_have_gone(database: Database) -> None:
    (server,) = await add_servers(database, "a")
    await add_launches(
        database,
        launch(server, 1),
        launch(server, 2, files_removed_at=None),
        launch(server, 3, at=NOW),
        launch(server, 4),
        current="ln_a_0004",
    )
    assert await _launches_to_go(database) == ["ln_a_0001"]
    async with database.write() as session:
        (await session.get_one(Node, "nd_1")).deleted_at = NOW
        (await session.get_one(Server, server.id)).deleted_at = NOW
    assert await _launches_to_go(database) == ["ln_a_0001", "ln_a_0002", "ln_a_0004"]


async def test_of_too_many_launches_of_a_server_the_oldest_go(database: Database) -> None:
    first, second = await add_servers(database, "a", "b")
    await add_launches(database, *(launch(first, n, at=NOW) for n in range(1, 8)), current="ln_a_0007")
    await add_launches(database, *(launch(second, n, at=NOW) for n in range(1, 4)), current="ln_b_0003")
    assert await _launches_to_go(database, keep_launches=5) == ["ln_a_0001", "ln_a_0002"]


async def test_a_launch_that_teaches_or_was_measured_stays(database: Database) -> None:
    (server,) = await add_servers(database, "a")
    count = RECENT_LAUNCHES + 3
    ready = [launch(server, number, ready_at=OLD) for number in range(1, count + 1)]
    await add_launches(database, *ready, current=ready[-1].id)
    run = BenchmarkRun(
        id="br_1", source=RunSource.OWN, state=RunState.SUCCEEDED, repeats=1, actor="t", created_at=OLD,
        server_id=server.id, launch_id=ready[1].id,
    )  # fmt: skip
    await add(database, run)
    assert await _launches_to_go(database) == [ready[0].id, ready[2].id]


async def test_launches_go_with_all_that_hangs_on_them(database: Database) -> None:
    (server,) = await add_servers(database, "a")
    await add_launches(database, launch(server, 1), launch(server, 2), current="ln_a_0002")
    async with database.write() as session:
        await retention.remove_launches(session, ["ln_a_0001"])
    async with database.read() as session:
        assert (await session.execute(select(col(Launch.id)))).scalars().all() == ["ln_a_0002"]


async def test_files_go_from_nodes_in_contact_alone_and_never_the_last_ones(database: Database) -> None:
    (server,) = await add_servers(database, "a", state=State.STOPPED)
    present = [launch(server, number, files_removed_at=None) for number in range(1, 6)]
    await add_launches(database, *present, current="ln_a_0005")

    def run(number: int, at: datetime | None, *, source: RunSource = RunSource.OWN) -> BenchmarkRun:
        state = RunState.SUCCEEDED if at else RunState.RUNNING
        return BenchmarkRun(
            id=f"br_{number}", source=source, state=state, repeats=1, actor="t", created_at=OLD, ended_at=at,
            node_id="nd_1",
        )  # fmt: skip

    await add(database, run(0, OLD), run(1, OLD, source=RunSource.IMPORT), run(2, None), run(3, NOW), run(4, OLD))

    async def old_files(per_node: int = 50) -> dict[str, OldFiles]:
        async with database.read() as session:
            return await retention.old_files(session, BOUND.before, keep_launches=200, per_node=per_node)

    ids = [item.id for item in present]
    assert await old_files() == {"nd_1": OldFiles(ids[:4], ["br_0", "br_4"])}
    assert await old_files(1) == {"nd_1": OldFiles(ids[:1], ["br_0"])}
    async with database.write() as session:
        await retention.note_files_removed(session, OldFiles(ids[:1], ["br_0"]), NOW)
    assert await old_files(2) == {"nd_1": OldFiles(ids[1:3], ["br_4"])}
    async with database.write() as session:
        node = await session.get_one(Node, "nd_1")
        node.sqlmodel_update({"contact": Contact.LOST})
    assert await old_files() == {}
