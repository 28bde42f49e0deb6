"""A server that does not tell its numbers, because its profile or whoever started it left /metrics out."""

from datetime import timedelta

import pytest

from service.remote.messages import LogFact
from service.servers.observation import ListenerOwner
from service.servers.states import State
from service.sglang.health import HealthAnswer
from service.watchers.launch_watch import LaunchWatch
from tests.watchers.conftest import Scene, become_ready


async def go_without_answers(scene: Scene, watch: LaunchWatch, line: str) -> None:
    """Let /health fail for minutes, while the log goes on every ten seconds."""
    for turn in range(20):
        scene.seconds += 10
        text = f"[2026-11-29 12:07:{turn:02}] {line}\n".encode()
        watch.fold(LogFact("ln_1", watch.live.recent_log.end_offset, text))
        if turn % 2:
            watch.live.note_health(HealthAnswer.UNAVAILABLE, 503, scene.now() - timedelta(seconds=20), scene.now())
        await scene.see(watch, ListenerOwner.OURS)


async def test_a_long_prefill_of_many_chunks_is_busy_by_its_log(scene: Scene) -> None:
    watch = await scene.watch()
    await become_ready(scene, watch)
    await go_without_answers(
        scene, watch, "Prefill batch, #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.10, #queue-req: 0"
    )
    assert await scene.state() is State.READY
    assert watch.live.thought is not None
    assert watch.live.thought.verdict == "busy"


@pytest.mark.parametrize(
    "line",
    [
        "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
        'INFO:     127.0.0.1:40000 - "GET /health HTTP/1.1" 503 Service Unavailable',
    ],
)
async def test_a_log_that_only_complains_does_not_make_it_busy(scene: Scene, line: str) -> None:
    watch = await scene.watch()
    await become_ready(scene, watch)
    await go_without_answers(scene, watch, line)
    assert await scene.state() is State.UNREADY
