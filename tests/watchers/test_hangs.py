"""What follows a suspected hang follows once, whatever comes between the suspicion and the answer."""

import asyncio
from datetime import timedelta

import pytest
from sqlmodel import col, select

from service.db.tables import Launch, Transition
from service.operations import hanging
from service.operations.transitioning import note
from service.servers.states import Reason, State
from service.watchers.launch_watch import LaunchWatch
from tests.watchers.conftest import BEGAN_AT, RECIPE, Scene


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
        if watch._acting is not None:
            await watch._acting


async def asked(scene: Scene) -> None:
    """Wait until the node was asked for the evidence."""
    async with asyncio.timeout(10):
        while not scene.node.asked:
            await asyncio.sleep(0.01)


async def test_a_hang_is_answered_though_the_connection_broke_meanwhile(scene: Scene) -> None:
    scene.node.is_stuck = True
    watch = await hang(scene)
    await asked(scene)
    await watch.end()
    scene.node.is_stuck = False
    await go_on(scene, await scene.watch())
    assert (await scene.state(), scene.node.asked) == (State.STOPPING, 2)
    assert [operation.kind for operation in scene.submitted] == ["stop"]


async def test_a_hang_is_answered_though_the_service_died_meanwhile(scene: Scene) -> None:
    scene.node.is_stuck = True
    watch = await hang(scene)
    await asked(scene)
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


@pytest.mark.parametrize(("served_s", "answer"), [(None, "brake"), (86_400, "restart")])
async def test_a_suspicion_that_healed_before_the_server_served_brakes_no_restart(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, served_s: int | None, answer: str
) -> None:
    async def no_checks(*_given: object) -> None:
        """Make no checks: then nothing is restarted, and the decision is noted all the same."""

    monkeypatch.setattr(hanging, "_preflight", no_checks)
    at = BEGAN_AT - timedelta(days=2)
    async with scene.control.database.write() as session:
        session.add(
            Launch(
                id="ln_0", server_id="sv_1", node_id="nd_1", number=2, profile_id="pr_1", profile_version=1,
                recipe=RECIPE, argv=[], environment={}, port=1, gpus=[], model_path="/models/m", created_at=at,
                ready_at=at if served_s else None, ended_at=at + timedelta(seconds=served_s or 0), timeline=[],
                hang_evidence={"stacks": []},
            )
        )  # fmt: skip
    await go_on(scene, await hang(scene, "restart"))
    async with scene.control.database.read() as session:
        decided = (await session.execute(select(Transition).where(col(Transition.subject) == "policy"))).scalars()
        assert [row.evidence["policy"] for row in decided] == [answer]
