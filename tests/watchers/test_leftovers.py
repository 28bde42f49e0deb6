"""What follows a crash whose cleanup finds something left."""

from typing import cast

import pytest

from service.db.tables import Node, Server
from service.operations import stopping
from service.remote.messages import LaunchFact, LeftoverProcess, Leftovers, Signalled, SignalStep
from service.remote.node import NodeSession
from service.servers.observation import EffortFact, ListenerFact, ListenerOwner, ProcessFact, ProcessState
from service.servers.states import Desired, State
from tests.watchers.conftest import RECIPE, Scene

ENDED = ProcessFact(ProcessState.EXITED, pid=7, exit_code=1)
LEFT = Leftovers((LeftoverProcess(8, "python"),), ListenerFact(ListenerOwner.NONE), (), (), is_clear=False)


class CrowdedNode:
    """A node where a process of the launch does not end; to look at it takes a minute."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    async def list_launches(self, only: list[str]) -> list[object]:
        """Return none."""
        assert only
        return []

    async def signal(self, _launch_id: str, _step: SignalStep) -> Signalled:
        """Send a signal that ends nothing."""
        return Signalled((8,), ENDED)

    async def verify(self, _launch_id: str, *, port: int, gpu_uuids: tuple[str, ...]) -> Leftovers:
        """Say what is left."""
        assert port
        assert not gpu_uuids
        self._scene.seconds += 60
        return LEFT


@pytest.mark.parametrize("on_crash", ["restart", "alert"])
async def test_a_restart_that_leftovers_prevent_is_told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, on_crash: str
) -> None:
    async def reached(_node: Node) -> NodeSession:
        return cast("NodeSession", CrowdedNode(scene))

    await scene.change_launch(recipe={**RECIPE, "on_crash": on_crash})
    watch = await scene.watch()
    watch.fold(LaunchFact("ln_1", scene.now(), ENDED, ListenerFact(ListenerOwner.NONE), EffortFact()))
    await scene.turn(watch)
    monkeypatch.setattr(scene.control, "node_session", reached)
    assert await stopping.stop(scene.control, scene.submitted[0].id) is None
    assert await scene.state() is State.FAILED
    async with scene.control.database.read() as session:
        desired = (await session.get_one(Server, "sv_1")).desired
    is_braked = (await scene.reasons())[-1] == "restart_braked"
    assert (is_braked, desired) == ((True, Desired.STOPPED) if on_crash == "restart" else (False, Desired.RUNNING))
