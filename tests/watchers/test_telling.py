"""What is thought of a launch reaches the database, whatever goes wrong at the moment when that changes."""

from contextlib import suppress
from typing import Any

import pytest
from sqlmodel import col, select

from service.db.tables import Transition
from service.operations import transitioning
from tests.watchers.conftest import RECIPE, Scene


async def verdicts(scene: Scene) -> list[tuple[str | None, str | None]]:
    async with scene.control.database.read() as session:
        query = select(Transition).where(col(Transition.subject) == "verdict").order_by(col(Transition.id))
        return [(row.before, row.after) for row in (await session.execute(query)).scalars()]


async def test_a_verdict_that_could_not_be_written_is_written_later(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_verdict = transitioning.note_verdict
    failures = ["slow"]

    def fail_once(session: Any, server: Any, before: str, details: dict[str, Any], **more: Any) -> None:
        if details["verdict"] in failures:
            failures.remove(details["verdict"])
            raise OSError("the disk is full")
        note_verdict(session, server, before, details, **more)

    monkeypatch.setattr(transitioning, "note_verdict", fail_once)
    await scene.change_launch(recipe={**RECIPE, "limits": {"hang_after_s": 100}})
    watch = await scene.watch()
    with suppress(OSError):
        for _ in range(8):
            await scene.see(watch)
            scene.seconds += 10
    assert not failures
    await watch.end()
    await scene.see(await scene.watch())  # as the watcher of the node begins anew after any fault
    assert await verdicts(scene) == [("unknown", "progressing"), ("progressing", "slow")]
