"""A fleet of two small nodes, and the application that looks after it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.app import create_app
from service.settings import Access, Settings
from service.simulator.demo import node_body
from service.simulator.fleet import EmbeddedFleet
from service.simulator.node import SimulatedNode
from service.simulator.specs import TINY_LLAMA, NodeSpec
from tests.api.conftest import Api

SPECS = (NodeSpec(name="atlas", gpu_count=2), NodeSpec(name="borealis", gpu_count=0))
PATIENCE_S = 30


class World:
    """The application, the fleet, and what most tests do first."""

    def __init__(self, api: Api, fleet: EmbeddedFleet) -> None:
        self.api = api
        self.fleet = fleet
        self.atlas, self.borealis = fleet.nodes

    async def get(self, path: str) -> Any:
        """Return the document of a GET that must succeed."""
        status, document = await self.api.call("GET", path)
        assert status == 200, document
        return document

    async def post(self, path: str, body: object = None, *, expect: int = 202) -> Any:
        """Return the document of a POST that must answer `expect`."""
        status, document = await self.api.call("POST", path, body)
        assert status == expect, document
        return document

    async def until(self, path: str, is_true: Callable[[Any], Any]) -> Any:
        """Look at a resource until something is true of it, and return it."""
        document: Any = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    document = await self.get(path)
                    if is_true(document):
                        return document
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{path} stayed at {document}") from None

    async def until_state(self, server: str, state: str) -> Any:
        """Look at a server until it is in a state."""
        return await self.until(f"/servers/{server}", lambda document: document["state"] == state)

    async def until_contact(self, node: str, state: str, code: str | None = None) -> Any:
        """Look at a node until its contact is so, for this cause."""

        def is_so(document: Any) -> bool:
            contact = document["contact"]
            return bool(contact["state"] == state and contact["code"] == code)

        return await self.until(f"/nodes/{node}", is_so)

    async def take_in(self, node: SimulatedNode, **fields: object) -> Any:
        """Register a node and wait until it answers."""
        await self.post("/nodes", {**node_body(node), **fields}, expect=201)
        return await self.until_contact(node.name, "ok")

    async def place(self, name: str = "one", *, script: str = "fast", **wish: object) -> None:
        """Make a profile and a stopped server of it on atlas."""
        recipe = self.recipe(script)
        await self.post("/profiles", {"name": f"{name}-profile", "recipe": recipe}, expect=201)
        body = {"name": name, "profile": f"{name}-profile", "node": "atlas", **wish}
        await self.post("/servers", body, expect=201)

    def recipe(self, script: str = "fast", **fields: object) -> dict[str, object]:
        """Return a recipe for atlas that uses one GPU."""
        return {
            "python": self.atlas.engine_python,
            "model_path": self.atlas.model_path(TINY_LLAMA.name),
            "gpu_count": 1,
            "env": {"VIGIL_SIM_SCRIPT": script},
            "stop_grace_s": 10,
            **fields,
        }

    async def bring_up(self, name: str = "one", *, script: str = "fast") -> Any:
        """Place, launch, and wait for ready."""
        await self.place(name, script=script)
        await self.post(f"/servers/{name}/launch")
        return await self.get(f"/servers/{name}/wait?timeout_s={PATIENCE_S}")

    async def reasons(self, server: str) -> list[str]:
        """Return the reasons of a server's transitions, oldest first."""
        rows = (await self.get(f"/transitions?server={server}&subject=server"))["items"]
        return [row["reason"] for row in reversed(rows)]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Give a running application and a fleet that it does not know yet."""
    settings = Settings(
        access=Access.OPEN,
        state_dir=tmp_path / "state",
        connect_deadline_s=3,
        retry_max_s=0.5,
        health_interval_s=0.2,
        beat_lost_after_s=4,
    )
    app = create_app(settings)
    async with EmbeddedFleet(tmp_path / "fleet", SPECS) as fleet, app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            yield World(Api(http, app.state.parts), fleet)
