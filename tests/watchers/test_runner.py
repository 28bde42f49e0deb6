"""The runner: no accepted operation is without somebody who carries it out for long, and none is disturbed by that."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from sqlalchemy import event
from sqlmodel import select

from service.db.tables import Launch, Operation, Server
from service.errors import RemoteTimeout
from service.operations import journal, launching, runner
from service.operations.control import Control
from service.operations.runner import OperationRunner
from service.remote.messages import LaunchFact, LaunchOrder, Started
from service.remote.node import NodeSession
from service.servers.observation import ListenerFact, ListenerOwner, ProcessFact, ProcessState
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import State
from service.watchers.fleet_watch import FleetWatch
from tests.watchers.conftest import Scene
from tests.watchers.test_hangs import hang


async def operations(control: Control) -> list[Operation]:
    async with control.database.read() as session:
        return list((await session.execute(select(Operation))).scalars())


@pytest.fixture
def carried_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let a stop do nothing but say that it was begun, and take as long as it likes."""
    begun: list[str] = []

    async def stop(_control: Control, operation_id: str) -> None:
        begun.append(operation_id)
        await asyncio.Event().wait()

    steps = {**runner._CARRY_OUT, OperationStep.STOPPING: stop}
    monkeypatch.setattr(runner, "_CARRY_OUT", cast("Any", steps))
    return begun


async def test_a_stop_whose_hang_was_let_go_of_as_it_was_accepted_is_carried_out(
    scene: Scene, carried_out: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks while the commit is on its way to the disk: the operation is there, and nobody knows."""
    scene.node.is_stuck = True
    watch = await hang(scene)
    acting = watch._acting
    assert acting is not None
    engine = scene.control.database._write_engine.sync_engine
    event.listen(engine, "commit", lambda _: asyncio.get_running_loop().call_soon(acting.cancel), once=True)
    await asyncio.sleep(0.05)
    scene.node.way.set()
    await asyncio.gather(acting, return_exceptions=True)
    await watch.end()
    (stop,) = await operations(scene.control)
    assert (acting.cancelled(), stop.state, scene.submitted) == (True, OperationState.RUNNING, [])

    monkeypatch.setattr("service.watchers.fleet_watch.RESUME_EVERY_S", 0.05)
    runs = OperationRunner(scene.control)
    fleet = FleetWatch(scene.control, runs)
    await fleet.start()
    try:
        async with asyncio.timeout(5):
            while not carried_out:
                await asyncio.sleep(0.02)
    finally:
        await fleet.close()
        await runs.close()
    assert carried_out == [stop.id]


async def test_an_operation_that_is_carried_out_is_not_begun_anew(scene: Scene, carried_out: list[str]) -> None:
    async with scene.control.database.write() as session:
        server = await session.get_one(Server, "sv_1")
        operation = await journal.begin(
            session, server, OperationKind.STOP, OperationStep.STOPPING, at=scene.now(), actor="somebody"
        )
    assert (await operations(scene.control))[0].id == operation.id
    runs = OperationRunner(scene.control)
    runs.submit(operation)
    await asyncio.sleep(0.05)
    await runs.resume()
    await asyncio.sleep(0.05)
    assert carried_out == [operation.id]
    await runs.close()


class Deaf(NodeSession):
    """A node that does what it is told, and whose answer to a start is lost."""

    def __init__(self) -> None:
        self.orders: list[LaunchOrder] = []

    async def engine_version(self, python: str) -> str | None:
        """Say which engine there is."""
        return "0.5.6" if python == "/opt/python" else None

    async def cached_share(self, paths: Sequence[str], *, environment: Mapping[str, str] | None = None) -> float | None:
        """Say that nothing of the model was read yet."""
        return 0.0 if paths and not environment else None

    async def stage_and_start(self, order: LaunchOrder) -> Started:
        """Start it, and say nothing."""
        self.orders.append(order)
        raise RemoteTimeout("no answer")


async def test_a_launch_whose_answer_was_lost_is_known_all_the_same_once_it_has_ended(scene: Scene) -> None:
    """The watcher may see its end before the start is asked for again, and then it never is."""
    control, node = scene.control, Deaf()
    control.node = cast("Any", node)
    async with control.database.write() as session:
        server = await session.get_one(Server, "sv_1")
        operation = await journal.begin(
            session, server, OperationKind.LAUNCH, OperationStep.STARTING, at=scene.now(), actor="somebody"
        )
        launch = await session.get_one(Launch, "ln_1")
        launch.started_at = None
    with pytest.raises(RemoteTimeout):
        await launching.start(control, operation.id)
    watch = await scene.watch()
    ended = ProcessFact(ProcessState.EXITED, pid=7, exit_code=2)
    watch.fold(LaunchFact("ln_1", scene.now(), ended, ListenerFact(ListenerOwner.NONE), None))
    await scene.turn(watch)
    assert await scene.state() is State.FAILED
    async with control.database.read() as session:
        launch = await session.get_one(Launch, "ln_1")
    assert node.orders
    assert (tuple(launch.argv), launch.engine_version) == (node.orders[0].argv, "0.5.6")
    assert launch.started_at is not None
