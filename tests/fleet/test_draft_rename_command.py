"""`vigil draft-rename` against a service that runs: what it prints, and its exit codes."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.simulator.demo import node_body
from service.simulator.fleet import EmbeddedFleet
from service.simulator.node import SimulatedNode
from service.simulator.specs import NodeSpec
from tests.contract.vigil import Vigil, free_port
from tests.sglang.speculative.checkpoints import DRAFT_CONFIG, MODELOPT, SPECFORGE, read, write_model


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SimulatedNode]:
    async with EmbeddedFleet(tmp_path / "fleet", [NodeSpec(name="atlas", gpu_count=0)]) as fleet:
        write_model(fleet.nodes[0].models / "old", DRAFT_CONFIG, MODELOPT)
        yield fleet.nodes[0]


async def command(url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command while the fleet goes on in this process."""
    argv = [sys.executable, "-m", "service", "draft-rename", *arguments, "--url", url]
    return await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, check=False, timeout=60)


async def test_a_draft_is_renamed_by_command(tmp_path: Path, node: SimulatedNode) -> None:
    old, new = str(node.models / "old"), str(node.models / "new")
    vigil = Vigil(tmp_path / "state")
    await asyncio.to_thread(vigil.start)
    try:
        made = await asyncio.to_thread(vigil.http.post, "/api/v1/nodes", json=node_body(node))
        assert made.status_code == 201, made.text
        dry = await command(vigil.url, "atlas", old, new, "--engine-version", "0.5.10.post1", "--dry-run", "--json")
        assert (dry.returncode, dry.stderr) == (0, "")
        assert json.loads(dry.stdout)["patterns"] == ["layers.0.* -> midlayer.* (10)"]
        assert not (node.models / "new").exists()
        done = await command(vigil.url, "atlas", old, new, "--engine-version", "0.5.10.post1")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            "layers.0.* -> midlayer.* (10)",
            f"written to {new} on atlas: 1 weight files, 0 MiB",
        ]
        assert {tensor.name for tensor in read(new).tensors} == set(SPECFORGE) - {"t2d"}
        again = await command(vigil.url, "atlas", old, new, "--engine-version", "0.5.10.post1")
        assert (again.returncode, again.stdout) == (1, "")
        assert again.stderr.startswith("destination_exists: node atlas has ")
        unknown = await command(vigil.url, "nowhere", old, new, "--engine-version", "0.5.10.post1")
        assert (unknown.returncode, unknown.stderr.split(":")[0]) == (3, "not_found")
        bare = await command(vigil.url, "atlas", old, new)
        assert (bare.returncode, bare.stderr.split(":")[0]) == (3, "invalid_input")
    finally:
        await asyncio.to_thread(vigil.__exit__, None, None, None)


async def test_no_service_is_told() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = await command(url, "atlas", "/old", "/new", "--engine-version", "0.5.10.post1")
    assert (done.returncode, done.stdout) == (2, "")
    assert url in done.stderr
