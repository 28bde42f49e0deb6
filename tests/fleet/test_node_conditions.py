"""The embedded fleet's nodes as a preflight sees them: good ones pass, and each fault is told as what it is."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from service.nodes.endpoint import Endpoint, KeyFile
from service.nodes.inventory import GpuHolder
from service.preflights.node_checks import NodeWish, check_node
from service.remote.messages import LaunchOrder
from service.remote.node import NodeSession
from service.remote.ssh import open_connection
from service.sglang.checks import Check, CheckCode, Outcome
from service.simulator.fleet import EmbeddedFleet
from service.simulator.node import SimulatedNode
from service.simulator.specs import ENGINE_VERSIONS, NodeSpec
from tests.remote.conftest import eventually

SPECS = (
    NodeSpec(name="atlas", gpu_count=8, engine_versions=ENGINE_VERSIONS),
    NodeSpec(name="borealis", gpu_count=0),
    NodeSpec(name="old", gpu_count=1, driver_version="550.54.15"),
)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[EmbeddedFleet]:
    async with EmbeddedFleet(tmp_path / "fleet", SPECS) as running:
        yield running


@asynccontextmanager
async def session_of(node: SimulatedNode) -> AsyncIterator[NodeSession]:
    endpoint = Endpoint(
        address=node.address,
        port=node.port,
        user=node.user,
        credential=KeyFile(str(node.key_path)),
        host_key=node.host_key_line,
        jump=None,
    )
    connection = await open_connection(endpoint)
    try:
        yield NodeSession(connection)
    finally:
        await connection.close()


async def checks_of(
    node: SimulatedNode, *, python: str | None = None, gpu_count: int, own_launch_id: str | None = None
) -> dict[CheckCode, Check]:
    """Look at a node as a preflight does, and judge it for a server that would get its first GPUs."""
    port = node.port_range.start
    async with session_of(node) as session:
        asked_at = datetime.now(UTC)
        inventory, conditions = await asyncio.gather(
            session.inventory(),
            session.launch_conditions(
                host="127.0.0.1", port=port, python=python or node.engine_python, paths=(), environment={}
            ),
        )
        answered_at = datetime.now(UTC)
    wish = NodeWish(
        host="127.0.0.1",
        port=port,
        gpu_count=gpu_count,
        engine_version=None,
        asked_at=asked_at,
        answered_at=answered_at,
        own_launch_id=own_launch_id,
        chosen=tuple(gpu.uuid for gpu in inventory.gpus[:gpu_count]),
    )
    return {check.code: check for check in check_node(inventory, conditions, wish, now=answered_at)}


@pytest.mark.parametrize("version", ENGINE_VERSIONS)
async def test_a_good_node_refuses_nothing_for_any_engine(fleet: EmbeddedFleet, version: str) -> None:
    atlas = fleet.nodes[0]
    checks = await checks_of(atlas, python=atlas.engine_pythons[version], gpu_count=8)
    assert [check for check in checks.values() if check.outcome is Outcome.FAIL] == []
    for code in (CheckCode.NODE_GPUS, CheckCode.NODE_PORT, CheckCode.NODE_DRIVER, CheckCode.NODE_SHM):
        assert checks[code].outcome is Outcome.PASS, checks[code]


async def test_a_node_without_gpus_serves_a_server_that_wants_none(fleet: EmbeddedFleet) -> None:
    checks = await checks_of(fleet.nodes[1], gpu_count=0)
    assert (checks[CheckCode.NODE_GPUS].outcome, checks[CheckCode.NODE_DRIVER].outcome) == (
        Outcome.PASS,
        Outcome.SKIPPED,
    )
    assert (await checks_of(fleet.nodes[1], gpu_count=1))[CheckCode.NODE_GPUS].outcome is Outcome.FAIL


async def test_an_old_driver_refuses_an_engine_for_a_newer_cuda(fleet: EmbeddedFleet) -> None:
    check = (await checks_of(fleet.nodes[2], gpu_count=1))[CheckCode.NODE_DRIVER]
    assert check.outcome is Outcome.FAIL
    assert "CUDA 13.0, which needs driver 580 or newer, and the node has 550.54.15" in check.found


async def test_a_gpu_that_needs_a_reset_refuses(fleet: EmbeddedFleet) -> None:
    fleet.nodes[0].set_gpu_fault({"cells": {"1": {"temperature.gpu": "[GPU requires reset]"}}})
    check = (await checks_of(fleet.nodes[0], gpu_count=2))[CheckCode.NODE_GPUS]
    assert (check.outcome, "GPU requires reset" in check.found) == (Outcome.FAIL, True)
    assert (await checks_of(fleet.nodes[0], gpu_count=1))[CheckCode.NODE_GPUS].outcome is Outcome.PASS


async def test_an_engine_that_was_killed_leaves_orphans_that_are_named(fleet: EmbeddedFleet, tmp_path: Path) -> None:
    atlas = fleet.nodes[0]
    script = tmp_path / "script.json"
    script.write_text('{"has_orphans": true, "phases": {"loading_weights": 30}}')
    order = LaunchOrder(
        launch_id="ln_orphans",
        server="s",
        port=atlas.port_range.start,
        argv=(
            atlas.engine_python,
            "-m",
            "sglang.launch_server",
            "--model-path",
            atlas.model_path("tiny-llama"),
            "--port",
            str(atlas.port_range.start),
        ),
        created_at=datetime.now(UTC),
        environment={
            "CUDA_VISIBLE_DEVICES": atlas.gpu_uuids[0],
            "VIGIL_SIM_SCRIPT": str(script),
            "VIGIL_LAUNCH_ID": "ln_orphans",
            "SPT_NOENV": "1",
        },
    )
    async with session_of(atlas) as session:
        started = await session.stage_and_start(order)
        assert started.pid
        held = await held_by_launch(session)
        check = (await checks_of(atlas, gpu_count=1))[CheckCode.NODE_GPUS]
        assert (check.outcome, check.facts["orphan_pids"]) == (Outcome.FAIL, [])
        assert f"pid {held.pid} of launch ln_orphans" in check.found
        os.kill(started.pid, signal.SIGKILL)
        await eventually(lambda: not Path(f"/proc/{started.pid}").exists())
    check = (await checks_of(atlas, gpu_count=1))[CheckCode.NODE_GPUS]
    assert check.outcome is Outcome.FAIL
    assert f"pid {held.pid} of launch ln_orphans of user" in check.found
    assert "an orphan whose server is gone" in check.found
    assert (check.remedy or "").startswith(f"kill -9 {held.pid}")
    assert held.pid in cast("list[int]", check.facts["orphan_pids"])
    assert (await checks_of(atlas, gpu_count=1, own_launch_id="ln_orphans"))[
        CheckCode.NODE_GPUS
    ].outcome is Outcome.PASS


async def held_by_launch(session: NodeSession) -> GpuHolder:
    """Wait until the first GPU is held, and return who holds it."""
    async with asyncio.timeout(10):
        while not (holders := (await session.inventory()).gpus[0].holders):
            await asyncio.sleep(0.05)
    return holders[0]
