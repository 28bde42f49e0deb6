"""The runner: no accepted operation is without somebody who carries it out for long, and none is disturbed by that."""

import asyncio
from typing import Any, cast

import pytest
from sqlalchemy import event
from sqlmodel import select

from service.db.tables import Operation, Server
from service.operations import journal, runner
from service.operations.control import Control
from service.operations.runner import OperationRunner
from service.servers.operation import OperationKind, OperationState, OperationStep
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
