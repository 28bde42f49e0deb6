"""The service's own clock is set, an hour on or back: nothing moved or stood still for that."""

from datetime import timedelta

import pytest

from service.remote.observing import MetricsFact
from service.servers.observation import ListenerOwner
from service.servers.states import State
from service.sglang.health import HealthAnswer
from service.watchers.launch_watch import LaunchWatch
from tests.watchers.conftest import Scene, become_ready

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
