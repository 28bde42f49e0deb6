"""The embedded fleet as a site of the contract: it runs beside the tests, on an event loop of its own."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from service.simulator.demo import node_body
from service.simulator.fleet import EmbeddedFleet
from service.simulator.node import SimulatedNode
from service.simulator.specs import TINY_LLAMA, NodeSpec

SPEC = NodeSpec(name="atlas", gpu_count=2, engine_versions=("0.5.23", "0.5.16", "0.5.10.post1"))


class FleetSite:
    """One simulated node with two GPUs."""

    start_s = 60.0
    health_timeout_s = 2.0
    hang_after_s = 3
    clean_exit_code = 0

    def __init__(self, node: SimulatedNode) -> None:
        self.name = node.name
        self._node = node

    def node(self) -> dict[str, Any]:
        return dict(node_body(self._node))

    def slow(self, recipe: dict[str, Any]) -> dict[str, Any]:
        return {**recipe, "env": {"VIGIL_SIM_SCRIPT": "default"}}

    def recipe(self, **server_args: object) -> dict[str, Any]:
        return {
            "python": self._node.engine_python,
            "model_path": self._node.model_path(TINY_LLAMA.name),
            "gpu_count": 1,
            "env": {"VIGIL_SIM_SCRIPT": "fast"},
            "server_args": server_args,
        }


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedFleet]:
    """Run a fleet on an event loop of its own, beside the tests."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fleet")
    thread.start()
    made = EmbeddedFleet(tmp_path_factory.mktemp("fleet"), [SPEC])
    asyncio.run_coroutine_threadsafe(made.start(), loop).result(30)
    yield made
    asyncio.run_coroutine_threadsafe(made.close(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def site(fleet: EmbeddedFleet) -> FleetSite:
    return FleetSite(fleet.nodes[0])
