"""A restart by policy that waits for its time."""

import pytest

from service.db.tables import Node, Operation, Server
from service.operations import crashing, journal
from service.remote.messages import LaunchFact
from service.servers.observation import EffortFact, ListenerFact, ListenerOwner, ProcessFact, ProcessState
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import Desired, State
from tests.watchers.conftest import Scene


async def crash(scene: Scene) -> str:
    """Let the engine end, and a restart by policy wait; returns its id."""
    watch = await scene.watch()
    process = ProcessFact(ProcessState.EXITED, pid=7, exit_code=1)
    watch.fold(LaunchFact("ln_1", scene.now(), process, ListenerFact(ListenerOwner.NONE), EffortFact()))
    await scene.turn(watch)
    assert await scene.state() is State.FAILED
    at, (cleanup,) = scene.now(), scene.submitted
    async with scene.control.database.write() as session:
        await journal.end(session, cleanup.id, OperationState.SUCCEEDED, at=at)
        server = await session.get_one(Server, "sv_1")
        pausing = await journal.begin(
            session, server, OperationKind.RESTART, OperationStep.PAUSING, at=at, actor="policy"
        )
    return pausing.id


@pytest.mark.parametrize("trouble", [{"is_draining": True}, {"inventory": {"gpu_error": "driver not loaded"}}])
async def test_a_node_that_takes_no_launch_ends_the_restart(scene: Scene, trouble: dict[str, object]) -> None:
    operation_id = await crash(scene)
    async with scene.control.database.write() as session:
        node = await session.get_one(Node, "nd_1")
        for name, value in trouble.items():
            setattr(node, name, value)
    assert await crashing.go_on(scene.control, operation_id) == 0
    async with scene.control.database.read() as session:
        operation = await session.get_one(Operation, operation_id)
        server = await session.get_one(Server, "sv_1")
    assert (operation.state, server.desired) == (OperationState.FAILED, Desired.STOPPED)
    assert (await scene.reasons())[-1] == "restart_braked"
