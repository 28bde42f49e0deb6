"""After a gap in the watch nothing is concluded from what was seen before it."""

from service.remote.messages import LogFact
from service.servers.observation import ListenerOwner
from service.servers.states import State
from service.sglang.health import HealthAnswer
from tests.watchers.conftest import RECIPE, Scene

READY_LINE = b"[2026-11-29 12:05:00] The server is fired up and ready to roll!\n"


async def test_a_limit_that_ran_out_in_a_gap_does_not_end_a_start_on_what_was_seen_before_it(scene: Scene) -> None:
    await scene.change_launch(recipe={**RECIPE, "limits": {"start_s": 600}})
    await scene.see(await scene.watch())
    scene.seconds = 900
    watch = await scene.watch()
    await scene.turn(watch)
    assert await scene.state() is State.STARTING
    await scene.see(watch, ListenerOwner.OURS)
    assert await scene.state() is State.STARTING
    watch.fold(LogFact("ln_1", 0, READY_LINE))
    watch.live.note_health(HealthAnswer.OK, 200, scene.now(), scene.now())
    await scene.turn(watch)
    assert await scene.state() is State.READY


async def test_a_limit_that_ran_out_while_the_service_was_down_does_not_end_what_became_ready(scene: Scene) -> None:
    await scene.change_launch(recipe={**RECIPE, "limits": {"start_s": 600}})
    await scene.see(await scene.watch())
    scene.seconds = 900
    scene.restart_service()
    watch = await scene.watch()
    await scene.see(watch, ListenerOwner.OURS)
    assert await scene.state() is State.STARTING


async def test_a_start_that_is_not_ready_after_a_good_look_has_failed_by_its_limit(scene: Scene) -> None:
    await scene.change_launch(recipe={**RECIPE, "limits": {"start_s": 600}})
    scene.seconds = 900
    watch = await scene.watch()
    await scene.see(watch)
    scene.seconds = 1000
    await scene.see(watch)
    assert (await scene.state(), (await scene.reasons())[-1]) == (State.FAILED, "start_timed_out")


async def test_a_limit_ends_a_start_that_was_watched_all_the_time(scene: Scene) -> None:
    await scene.change_launch(recipe={**RECIPE, "limits": {"start_s": 10}})
    watch = await scene.watch()
    await scene.see(watch)
    scene.seconds = 10
    await scene.see(watch)
    assert await scene.state() is State.FAILED
