"""Fixtures: a home with three engine versions, and a fleet of one node."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from service.simulator.fleet import EmbeddedFleet
from service.simulator.homes import build_home
from service.simulator.node import SimulatedNode
from service.simulator.specs import ENGINE_VERSIONS, KIMI_EAGLE3, KIMI_LIKE, TINY_LLAMA, NodeSpec
from tests.simulator.clients import Client, connect
from tests.simulator.engines import EngineHome

ENGINE_NODE = NodeSpec(
    name="bench", gpu_count=8, engine_versions=ENGINE_VERSIONS, models=(TINY_LLAMA, KIMI_LIKE, KIMI_EAGLE3)
)


@pytest.fixture(scope="session")
def built_home(tmp_path_factory: pytest.TempPathFactory) -> EngineHome:
    root = tmp_path_factory.mktemp("engines")
    build_home(ENGINE_NODE, root / "home")
    (root / "logs").mkdir()
    return EngineHome(ENGINE_NODE, root / "home", root / "logs")


@pytest.fixture
def home(built_home: EngineHome) -> Iterator[EngineHome]:
    with built_home.cleaned():
        yield built_home


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SimulatedNode]:
    async with EmbeddedFleet(tmp_path / "fleet", [NodeSpec(name="solo", gpu_count=2)]) as fleet:
        yield fleet.nodes[0]


@pytest.fixture
async def client(node: SimulatedNode) -> AsyncIterator[Client]:
    async with connect(node) as connection:
        yield connection


@pytest.fixture
def write_script(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "script.json"
        path.write_text(text, encoding="utf-8")
        return path

    return write
