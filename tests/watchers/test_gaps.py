"""After a gap in the watch nothing is concluded from what was seen before it."""

from datetime import timedelta

import pytest

from service.remote.messages import LogFact
from service.remote.observing import MetricsFact
from service.servers.observation import ListenerOwner
from service.servers.states import State
from service.sglang.health import HealthAnswer
from tests.watchers.conftest import READY_LINE, RECIPE, Scene, become_ready


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


async def test_a_busy_server_is_not_called_silent_before_it_was_looked_at_again(scene: Scene) -> None:
    """A long prefill failed /health while tokens moved; then the connection was away for two minutes."""
    watch = await scene.watch()
    await become_ready(scene, watch)
    for number in range(2):
        scene.seconds += 25
        page = f'sglang:realtime_tokens_total{{mode="prefill_compute"}} {8192 * number}'
        watch.fold(MetricsFact("ln_1", scene.now(), page))
        watch.live.note_health(HealthAnswer.UNAVAILABLE, 503, scene.now() - timedelta(seconds=20), scene.now())
        await scene.see(watch, ListenerOwner.OURS)
    assert watch.live.thought is not None
    assert watch.live.thought.verdict == "busy"
    scene.seconds += 120
    watch = await scene.watch()
    await scene.see(watch, ListenerOwner.OURS)
    assert await scene.state() is State.READY


async def test_a_server_that_is_silent_after_a_gap_too_is_called_so(scene: Scene) -> None:
    await become_ready(scene, await scene.watch())
    scene.seconds += 120
    watch = await scene.watch()
    for _ in range(2):
        scene.seconds += 25
        watch.live.note_health(HealthAnswer.UNAVAILABLE, 503, scene.now() - timedelta(seconds=20), scene.now())
        await scene.see(watch, ListenerOwner.OURS)
    assert await scene.state() is State.UNREADY


def bar(done: int) -> bytes:
    """Return the bar of a capture, as the engine redraws it."""
    return b"\rCapturing batches (bs=%d avail_mem=9.99 GB):  %d%%|##  | %d/52 [00:01<00:09]" % (60 - done, done, done)


async def test_a_log_that_is_cut_in_the_midst_of_a_capture_hides_none_of_its_graphs(scene: Scene) -> None:
    """Somebody made room on a full disk: what was logged before is gone, and the engine goes on."""
    await scene.change_launch(recipe={**RECIPE, "limits": {"hang_after_s": 100}})
    watch = await scene.watch()
    begun = b"[2026-11-29 12:00:00] Capture target verify CUDA graph begin. backend=x\n"
    watch.fold(LogFact("ln_1", 0, b"a line\n" * 300 + begun + bar(1)))
    await scene.see(watch, cpu_ticks=1)
    offset = 0
    for done in range(2, 6):
        scene.seconds += 60
        watch.fold(LogFact("ln_1", offset, bar(done)))
        offset += len(bar(done))
        await scene.see(watch, cpu_ticks=done)
        assert watch.live.thought is not None
        assert (watch.live.thought.verdict, watch.live.thought.details["phase"]) == ("progressing", "capturing_graphs")
        assert watch.live.thought.details["progress"]["done"] == done


async def test_a_cut_log_that_only_chatters_does_not_carry_a_frozen_capture(scene: Scene) -> None:
    await scene.change_launch(recipe={**RECIPE, "limits": {"hang_after_s": 100}})
    watch = await scene.watch()
    begun = b"[2026-11-29 12:00:00] Capture target verify CUDA graph begin. backend=x\n"
    watch.fold(LogFact("ln_1", 0, b"a line\n" * 300 + begun + bar(1)))
    await scene.see(watch, cpu_ticks=1)
    offset = 0
    for _ in range(8):
        scene.seconds += 60
        chatter = b"[rank3]:[W1129] still waiting\n"
        watch.fold(LogFact("ln_1", offset, chatter))
        offset += len(chatter)
        await scene.see(watch, cpu_ticks=1)
    assert watch.live.thought is not None
    assert watch.live.thought.verdict == "suspected_hung"


async def test_a_listener_that_comes_back_is_asked_before_it_is_called_healthy(scene: Scene) -> None:
    watch = await scene.watch()
    await become_ready(scene, watch)
    scene.seconds += 10
    await scene.see(watch, ListenerOwner.NONE)
    assert await scene.state() is State.UNREADY
    scene.seconds += 600
    await scene.see(watch, ListenerOwner.OURS)
    assert await scene.state() is State.UNREADY
    watch.live.note_health(HealthAnswer.OK, 200, scene.now(), scene.now())
    await scene.turn(watch)
    assert await scene.state() is State.READY


def shards(done: int) -> bytes:
    return f"Loading safetensors checkpoint shards:  {done}% Completed | {done}/100 [00:01<00:09,  1.00s/it]\n".encode()


@pytest.mark.parametrize(("moves", "verdict"), [(18, "progressing"), (1, "suspected_hung")])
async def test_a_log_that_was_cut_while_the_service_was_down_shows_progress(
    scene: Scene, moves: int, verdict: str
) -> None:
    await scene.change_launch(recipe={**RECIPE, "limits": {"hang_after_s": 60}})
    watch = await scene.watch()
    watch.fold(LogFact("ln_1", 0, b"INFO a line of no matter\n" * 200 + shards(5)))
    for _ in range(3):
        await scene.see(watch)
        scene.seconds += 10
    scene.restart_service()
    watch = await scene.watch()
    for turn in range(18):
        if turn < moves:
            watch.fold(LogFact("ln_1", watch.live.recent_log.end_offset, shards(6 + turn)))
        await scene.see(watch)
        scene.seconds += 10
    assert watch.live.thought is not None
    assert watch.live.thought.verdict == verdict
