"""A profile whose new version has another model: what its starts took before tells nothing of it."""

from datetime import timedelta

import pytest

from service.db import starts
from service.db.tables import Launch, LaunchPhase
from service.operations.startup_history import read_starts
from service.sglang.phases import Phase
from tests.watchers.conftest import BEGAN_AT, RECIPE, Scene


async def start_before(scene: Scene, number: int, model_path: str, seconds: float) -> None:
    """Put an earlier start of the profile on record."""
    async with scene.control.database.write() as session:
        launch_id = f"ln_0{number}"
        session.add(
            Launch(
                id=launch_id, server_id="sv_1", node_id="nd_1", number=100 + number, profile_id="pr_1",
                profile_version=1, recipe=RECIPE, argv=[], environment={}, port=1, gpus=[], model_path=model_path,
                created_at=BEGAN_AT, ready_at=BEGAN_AT + timedelta(seconds=seconds), timeline=[],
            )
        )  # fmt: skip
        await session.flush()
        session.add(
            LaunchPhase(
                launch_id=launch_id, position=0, phase=Phase.LOADING_WEIGHTS, duration_s=seconds, has_ended_well=True
            )
        )


async def test_nothing_is_learned_from_starts_of_another_model(scene: Scene) -> None:
    for number in range(3):
        await start_before(scene, number, "/models/small", 5)
    async with scene.control.database.read() as session:
        history = await starts.history_of(session, await session.get_one(Launch, "ln_1"))
    assert history.profile_on_node == ()


@pytest.mark.parametrize(("model_path", "is_told"), [("/models/small", False), ("/models/m", True)])
async def test_a_start_is_not_compared_with_those_of_another_model(
    scene: Scene, model_path: str, *, is_told: bool
) -> None:
    for number in range(3):
        await start_before(scene, number, model_path, 5)
    await start_before(scene, 9, "/models/m", 800)
    async with scene.control.database.read() as session:
        found = await read_starts(session, "pr_1", node_id="nd_1")
    assert (found.comparison is not None) is is_told
