"""A restart by policy that waits for its time."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from service.db.tables import Launch, Node, Operation, Server, Transition
from service.errors import NodeUnreachable
from service.nodes.contact import Contact
from service.operations import crashing, journal, launching
from service.remote.messages import LaunchFact
from service.servers.observation import EffortFact, ListenerFact, ListenerOwner, ProcessFact, ProcessState
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import Desired, Reason, State
from tests.watchers.conftest import RECIPE, Scene


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


@pytest.mark.parametrize("pause_s", [0, 3600])
async def test_a_restart_whose_node_stays_out_of_contact_is_not_made_hours_later(scene: Scene, pause_s: int) -> None:
    operation_id = await crash(scene)
    async with scene.control.database.write() as session:
        (await session.get_one(Node, "nd_1")).contact = Contact.LOST
        operation = await session.get_one(Operation, operation_id)
        operation.not_before_at = scene.now() + timedelta(seconds=pause_s)
    scene.seconds += pause_s + launching.REACH_NODE_S - 1
    with pytest.raises(NodeUnreachable):
        await crashing.go_on(scene.control, operation_id)
    scene.seconds += 1
    assert await crashing.go_on(scene.control, operation_id) == 0
    async with scene.control.database.read() as session:
        operation = await session.get_one(Operation, operation_id)
        server = await session.get_one(Server, "sv_1")
    assert (operation.state, server.desired) == (OperationState.FAILED, Desired.STOPPED)
    assert (await scene.reasons())[-1] == "restart_braked"


async def test_what_served_for_weeks_is_restarted_though_it_ends_as_before(scene: Scene) -> None:
    recipe = {**RECIPE, "on_crash": "restart"}
    diagnosis = {"code": "cuda_oom_runtime"}
    await crash(scene)
    at = scene.now()
    await scene.change_launch(recipe=recipe, diagnosis=diagnosis, ready_at=at - timedelta(days=20), ended_at=at)
    async with scene.control.database.write() as session:
        await session.execute(update(Operation).values(state=OperationState.FAILED))
        earlier = Launch(
            id="ln_0", server_id="sv_1", node_id="nd_1", number=2, profile_id="pr_1", profile_version=1, recipe=recipe,
            argv=[], environment={}, port=1, gpus=[], model_path="/models/m", created_at=at - timedelta(days=21),
            ended_at=at - timedelta(days=21), diagnosis=diagnosis, timeline=[],
        )  # fmt: skip
        session.add(earlier)
        await session.flush()
        session.add(
            Transition(
                subject="server", server_id="sv_1", node_id="nd_1", launch_id="ln_0", before="ready", after="failed",
                reason=Reason.PROCESS_EXITED, message="", evidence={}, actor="watcher", at=at - timedelta(days=21),
            )
        )  # fmt: skip
        await session.flush()
        server, launch = await session.get_one(Server, "sv_1"), await session.get_one(Launch, "ln_1")
        begun = await crashing.after_cleanup(session, server, launch, at=at)
    assert begun is not None
    assert (begun.kind, begun.step) == (OperationKind.RESTART, OperationStep.PAUSING)
