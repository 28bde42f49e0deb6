"""An engine that was told to wait longer for a token before it fails /health is given as long here."""

import asyncio
from datetime import timedelta

import pytest

from service.remote.http import Answer
from service.remote.observing import MetricsFact
from service.servers.observation import ListenerOwner
from service.servers.states import State
from service.sglang.health import HealthAnswer
from service.watchers import health_probe
from tests.watchers.conftest import RECIPE, Scene, become_ready

PATIENT = {**RECIPE, "env": {"SGLANG_HEALTH_CHECK_TIMEOUT": "60"}}
TOKENS = 'sglang:realtime_tokens_total{mode="decode"}'


@pytest.mark.parametrize(("text", "least_s", "most_s"), [("60", 61, 75), ("3", 25, 25), ("soon", 25, 25)])
async def test_health_is_waited_for_as_long_as_the_engine_waits(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, text: str, least_s: float, most_s: float
) -> None:
    deadlines: list[float] = []

    async def ask(*_given: object, deadline_s: float, **_more: object) -> Answer:
        deadlines.append(deadline_s)
        return Answer(200, b"")

    monkeypatch.setattr(health_probe, "ask", ask)
    await scene.change_launch(recipe={**RECIPE, "env": {"SGLANG_HEALTH_CHECK_TIMEOUT": text}})
    watch = await scene.watch()
    await scene.see(watch, ListenerOwner.OURS)
    answered = asyncio.Event()
    watch.begin(answered.set)
    async with asyncio.timeout(5):
        await answered.wait()
    await watch.end()
    assert least_s <= deadlines[0] <= most_s


@pytest.mark.parametrize(("recipe", "state"), [(RECIPE, State.UNREADY), (PATIENT, State.READY)])
async def test_what_the_engine_takes_for_a_long_prefill_is_not_silence(
    scene: Scene, recipe: dict[str, object], state: State
) -> None:
    await scene.change_launch(recipe=recipe)
    watch = await scene.watch()
    await become_ready(scene, watch)
    for number in (0, 1):
        watch.fold(MetricsFact("ln_1", scene.now(), f"{TOKENS} {number}"))
    for _ in range(2):
        scene.seconds += 25
        watch.fold(MetricsFact("ln_1", scene.now(), f"{TOKENS} 1"))
        watch.live.note_health(HealthAnswer.UNAVAILABLE, 503, scene.now() - timedelta(seconds=20), scene.now())
        await scene.see(watch, ListenerOwner.OURS)
    assert await scene.state() is state
