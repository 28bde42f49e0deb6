"""What follows a suspected hang follows once, whatever comes between the suspicion and the answer."""

import asyncio

from service.operations.transitioning import note
from service.servers.states import Reason, State
from service.watchers.launch_watch import LaunchWatch
from tests.watchers.conftest import RECIPE, Scene


async def hang(scene: Scene, on_hang: str = "stop") -> LaunchWatch:
    """Let a start stand still until it is suspected hung."""
    await scene.change_launch(recipe={**RECIPE, "on_hang": on_hang, "limits": {"hang_after_s": 60}})
    watch = await scene.watch()
    for _ in range(8):
        await scene.see(watch, cpu_ticks=int(scene.seconds))
        scene.seconds += 10
    assert watch.live.thought is not None
    assert watch.live.thought.verdict == "suspected_hung"
    return watch


async def go_on(scene: Scene, watch: LaunchWatch, turns: int = 6) -> None:
    """Let time pass, with what goes on beside it."""
    for _ in range(turns):
        scene.seconds += 10
        await scene.see(watch, cpu_ticks=int(scene.seconds))
        await asyncio.sleep(0.05)


async def test_a_hang_is_answered_though_the_connection_broke_meanwhile(scene: Scene) -> None:
    scene.node.is_stuck = True
    watch = await hang(scene)
    await asyncio.sleep(0.05)
    await watch.end()
    scene.node.is_stuck = False
    await go_on(scene, await scene.watch())
    assert (await scene.state(), scene.node.asked) == (State.STOPPING, 2)
    assert [operation.kind for operation in scene.submitted] == ["stop"]


async def test_a_hang_is_answered_though_the_service_died_meanwhile(scene: Scene) -> None:
    scene.node.is_stuck = True
    watch = await hang(scene)
    await asyncio.sleep(0.05)
    await watch.end()
    scene.node.is_stuck = False
    scene.restart_service()
    await go_on(scene, await scene.watch())
    assert await scene.state() is State.STOPPING


async def test_a_hang_that_nothing_follows_is_looked_into_once(scene: Scene) -> None:
    watch = await hang(scene, "alert")
    await go_on(scene, watch)
    assert (await scene.state(), scene.node.asked) == (State.STARTING, 1)


async def test_an_answer_that_outlived_the_service_is_not_given_again(scene: Scene) -> None:
    scene.node.is_stuck = True
    watch = await hang(scene)
    await watch.end()
    async with scene.control.database.write() as session:
        note(session, watch.server, Reason.SUSPECTED_HUNG, "it is enough", {"policy": "brake"}, at=scene.now())
    scene.node.is_stuck = False
    scene.restart_service()
    await go_on(scene, await scene.watch())
    assert await scene.state() is State.STARTING
    assert (await scene.reasons()).count("suspected_hung") == 1
