"""The service's own clock is set, an hour on or back: nothing moved or stood still for that."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

import pytest

from service.db.tables import Server
from service.operations import stopping
from service.remote.messages import LaunchFact, Signalled, SignalStep
from service.remote.node import NodeSession
from service.remote.observing import MetricsFact
from service.servers.observation import EffortFact, ListenerFact, ListenerOwner, ProcessFact, ProcessState
from service.servers.states import State
from service.sglang.health import HealthAnswer
from service.watchers.launch_watch import LaunchWatch
from tests.watchers.conftest import BEGAN_AT, RECIPE, Scene, become_ready

HOUR_S = 3600.0


async def stand_still(scene: Scene, watch: LaunchWatch, seconds: int) -> str:
    """Let a start stand still for a while; returns what is thought of it then."""
    for _ in range(seconds // 5):
        scene.seconds += 5
        await scene.see(watch, cpu_ticks=int(scene.seconds))
    assert watch.live.thought is not None
    return watch.live.thought.verdict


async def test_an_hour_that_never_was_is_not_held_against_a_start(scene: Scene) -> None:
    watch = await scene.watch()
    assert await stand_still(scene, watch, 60) == "progressing"
    scene.step_s = HOUR_S
    assert await stand_still(scene, watch, 60) == "progressing"


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
async def test_a_frozen_start_is_found_though_the_clock_was_set(scene: Scene, step_s: float) -> None:
    watch = await scene.watch()
    await stand_still(scene, watch, 60)
    scene.step_s = step_s
    assert await stand_still(scene, watch, 700) == "suspected_hung"


async def test_a_frozen_start_is_found_though_the_clock_was_set_back_while_the_service_was_down(scene: Scene) -> None:
    await stand_still(scene, await scene.watch(), 60)
    scene.step_s = -HOUR_S
    scene.restart_service()
    assert await stand_still(scene, await scene.watch(), 700) == "suspected_hung"


async def test_a_silent_engine_is_found_though_the_clock_was_set_back(scene: Scene) -> None:
    watch = await scene.watch()
    await become_ready(scene, watch)
    for number in range(4):
        scene.seconds += 5
        watch.fold(MetricsFact("ln_1", scene.now(), f'sglang:realtime_tokens_total{{mode="decode"}} {number}'))
        await scene.see(watch, ListenerOwner.OURS)
    scene.step_s = -HOUR_S
    for _ in range(4):
        scene.seconds += 25
        watch.fold(MetricsFact("ln_1", scene.now(), 'sglang:realtime_tokens_total{mode="decode"} 3'))
        watch.live.note_health(HealthAnswer.UNAVAILABLE, 503, scene.now() - timedelta(seconds=20), scene.now())
        await scene.see(watch, ListenerOwner.OURS)
    assert await scene.state() is State.UNREADY


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S])
async def test_the_limit_of_a_start_is_as_long_though_the_clock_was_set(scene: Scene, step_s: float) -> None:
    await scene.change_launch(recipe={**RECIPE, "limits": {"start_s": 600}})
    watch = await scene.watch()
    await stand_still(scene, watch, 60)
    scene.step_s = step_s
    await stand_still(scene, watch, 530)
    assert await scene.state() is State.STARTING
    scene.seconds += 10
    await scene.see(watch)
    assert (await scene.state(), (await scene.reasons())[-1]) == (State.FAILED, "start_timed_out")


async def test_a_gap_in_which_the_clock_was_set_leaves_a_start_its_limit(scene: Scene) -> None:
    await scene.change_launch(recipe={**RECIPE, "limits": {"start_s": 600}})
    await stand_still(scene, await scene.watch(), 60)
    scene.step_s = HOUR_S
    watch = await scene.watch()
    await stand_still(scene, watch, 530)
    assert await scene.state() is State.STARTING


@dataclass
class BusyNode:
    """A node where the engine never ends by itself; each look at it takes a second."""

    scene: Scene
    step_s: float
    killed_at: list[float] = field(default_factory=list)

    async def signal(self, _launch_id: str, step: SignalStep) -> Signalled:
        """Note when a process is killed."""
        if step is SignalStep.KILL:
            self.killed_at.append(self.scene.seconds)
        return Signalled((7,), ProcessFact(ProcessState.RUNNING, pid=7))

    async def list_launches(self, only: list[str]) -> list[LaunchFact]:
        """Say that it runs; the clock is set after ten seconds."""
        self.scene.seconds += 1
        self.scene.step_s = self.step_s if self.scene.seconds >= 10 else 0.0
        process = ProcessFact(ProcessState.RUNNING, pid=7)
        return [LaunchFact(only[0], self.scene.now(), process, ListenerFact(ListenerOwner.OURS, 7), EffortFact())]

    async def verify(self, _launch_id: str, *, port: int, gpu_uuids: tuple[str, ...]) -> None:
        """End the test: what follows is not looked at."""
        raise AssertionError(f"{port} {gpu_uuids}")


@pytest.mark.parametrize("step_s", [0.0, HOUR_S, -HOUR_S])
async def test_the_grace_of_a_stop_is_as_long_though_the_clock_was_set(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    node = BusyNode(scene, step_s)

    async def reached(_node: object) -> NodeSession:
        return cast("NodeSession", node)

    monkeypatch.setattr(scene.control, "node_session", reached)
    monkeypatch.setattr(stopping, "POLL_S", 0.0)
    await scene.change_launch(recipe={**RECIPE, "stop_grace_s": 60})
    async with scene.control.database.write() as session:
        server = await session.get_one(Server, "sv_1")
        operation = await stopping.accept_stop(session, server, at=BEGAN_AT, actor="a")
    with pytest.raises(AssertionError):
        await stopping.stop(scene.control, operation.id)
    assert node.killed_at == [60]
