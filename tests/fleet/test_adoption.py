"""An engine that somebody else started is listed, taken over without a jolt, watched, and stopped."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from service.simulator.homes import session_environment
from service.simulator.specs import TINY_LLAMA
from tests.contract.vigil import free_port
from tests.fleet.conftest import World


@pytest.fixture
async def foreign(world: World, tmp_path: Path) -> AsyncIterator[tuple[int, int]]:
    """Start an engine by hand on atlas, as an operator would; give its pid and port."""
    atlas, port = world.atlas, free_port()
    environment = {**session_environment(atlas.spec, atlas.home), "VIGIL_SIM_SCRIPT": "fast"}
    environment["CUDA_VISIBLE_DEVICES"] = atlas.gpu_uuids[0]
    with (tmp_path / "by-hand.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(atlas.engine_python, "-m", "sglang.launch_server", "--model-path", atlas.model_path(TINY_LLAMA.name)),
            *("--port", str(port), "--enable-metrics", "--context-length", "1024"),
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process.pid, port
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
        await process.wait()


async def test_a_foreign_engine_is_listed_adopted_and_stopped(world: World, foreign: tuple[int, int]) -> None:
    pid, port = foreign
    await world.take_in(world.atlas)

    async def listed() -> object:
        node = await world.post("/nodes/atlas/refresh", expect=200)
        return next((item for item in node["inventory"]["found_engines"] if item["pid"] == pid), None)

    found = None
    async with asyncio.timeout(20):
        while not (found := await listed()) or not found["gpu_uuids"]:  # type: ignore[index]
            await asyncio.sleep(0.2)
    assert found["port"] == port  # type: ignore[index]
    adopted = await world.post("/servers/adopt", {"name": "old", "node": "atlas", "pid": pid}, expect=201)
    assert adopted["port"] == port
    ready = await world.until_state("old", "ready")
    assert ready["launch"]["pid"] == pid
    assert await world.reasons("old") == ["adopted", "became_ready"]
    recipe = (await world.get("/profiles/old"))["recipe"]
    assert recipe["server_args"] == {"context-length": "1024", "enable-metrics": True}
    assert (await world.post("/servers/adopt", {"name": "x", "node": "atlas", "pid": pid}, expect=409))[
        "code"
    ] == "in_use"
    await world.post("/servers/old/stop")
    await world.until_state("old", "stopped")
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


async def test_an_adopted_engine_may_be_restarted_on_its_own_gpus(world: World, foreign: tuple[int, int]) -> None:
    pid, _ = foreign
    await world.take_in(world.atlas)
    async with asyncio.timeout(20):
        while not any(gpu["holders"] for gpu in (await refreshed(world))["gpus"]):
            await asyncio.sleep(0.2)
    await world.post("/servers/adopt", {"name": "old", "node": "atlas", "pid": pid}, expect=201)
    adopted = await world.until_state("old", "ready")
    gpu = (await refreshed(world))["gpus"][0]
    assert [holder["launch_id"] for holder in gpu["holders"]] == [adopted["launch"]["id"]]
    await world.post("/servers/old/restart")
    again = await world.until("/servers/old", lambda it: it["state"] == "ready" and it["launch"]["number"] == 2)
    assert again["launch"]["gpus"] == adopted["launch"]["gpus"]


async def refreshed(world: World) -> Any:
    """Look at atlas now and return what it has."""
    return (await world.post("/nodes/atlas/refresh", expect=200))["inventory"]


async def test_what_is_no_engine_cannot_be_adopted(world: World) -> None:
    await world.take_in(world.atlas)
    body = {"name": "old", "node": "atlas", "pid": os.getpid()}
    assert (await world.post("/servers/adopt", body, expect=404))["code"] == "not_found"
    assert (await world.api.call("GET", "/servers"))[1]["items"] == []
