"""The stage of the stories: one node with eight GPUs, a big model, a draft that fits it and two that do not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.app import create_app
from service.settings import Access, Settings
from service.simulator.fleet import EmbeddedFleet
from service.simulator.specs import (
    KIMI_EAGLE3,
    KIMI_LIKE,
    NEWEST_ENGINE,
    RTX_PRO_6000,
    TINY_LLAMA,
    ModelSpec,
    NodeSpec,
)
from tests.api.conftest import Api
from tests.fleet.conftest import PATIENCE_S, World

OLD_ENGINE = "0.5.10.post1"
MISNAMED_DRAFT = replace(KIMI_EAGLE3, name="misnamed-eagle3", draft_layer_prefix="layers.0.")
"""Its layer is named as this engine's loader does not know it: random weights, and not a line in the log."""
SHORT_DRAFT = replace(KIMI_EAGLE3, name="short-eagle3", max_position_embeddings=131072)
"""Made for half of the target's context."""
SPECS = (
    NodeSpec(
        name="atlas",
        gpu_count=8,
        gpu=RTX_PRO_6000,
        engine_versions=(NEWEST_ENGINE, OLD_ENGINE),
        models=(KIMI_LIKE, KIMI_EAGLE3, MISNAMED_DRAFT, SHORT_DRAFT, TINY_LLAMA),
    ),
    NodeSpec(name="borealis", gpu_count=0),
)
THREE_NUMBERS: dict[str, object] = {
    "speculative-num-steps": 3,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4,
}


class Stage(World):
    """The application, the node, and what the stories do and look at."""

    def kimi(
        self,
        script: str,
        *,
        scale: float | None = None,
        draft: ModelSpec = KIMI_EAGLE3,
        numbers: dict[str, object] | None = None,
        **fields: object,
    ) -> dict[str, Any]:
        """Return a recipe for the big model on all eight GPUs with a draft."""
        speculation = {
            "speculative-algorithm": "EAGLE3",
            "speculative-draft-model-path": self.atlas.model_path(draft.name),
            **(THREE_NUMBERS if numbers is None else numbers),
        }
        env = {"VIGIL_SIM_SCRIPT": script} | ({"VIGIL_SIM_TIME_SCALE": str(scale)} if scale else {})
        return {
            "python": self.atlas.engine_python,
            "model_path": self.atlas.model_path(KIMI_LIKE.name),
            "server_args": {"tp-size": 8, "trust-remote-code": True, **speculation},
            "env": env,
            "gpu_count": 8,
            "stop_grace_s": 10,
            **fields,
        }

    async def write(self, recipe: dict[str, Any]) -> None:
        """Write the profile `kimi`, or its next version."""
        status, made = await self.api.call("POST", "/profiles", {"name": "kimi", "recipe": recipe})
        if status == 409:
            status, made = await self.api.call("PUT", "/profiles/kimi", {"recipe": recipe})
        assert status in {200, 201}, made

    async def refused(self, recipe: dict[str, Any], *, server: str = "one", **place: object) -> dict[str, Any]:
        """Write a recipe down, ask for a launch that its preflight refuses, and return the failed checks by code."""
        await self.write(recipe)
        wish = {"name": server, "profile": "kimi", "node": "atlas", "launch": True, **place}
        problem = await self.post("/servers", wish, expect=409)
        assert problem["code"] == "preflight_failed"
        preflight = problem["context"]["preflight"]
        assert preflight["took_s"] < 20
        return {check["code"]: check for check in preflight["checks"] if check["outcome"] == "fail"}

    async def begin(self, recipe: dict[str, Any], *, server: str = "one", **wish: object) -> Any:
        """Write a recipe down and launch a new server of it; `override` names checks that may fail."""
        await self.write(recipe)
        body = {"name": server, "profile": "kimi", "node": "atlas", "launch": True, **wish}
        return await self.post("/servers", body, expect=201)

    async def end(self, server: str = "one") -> Any:
        """Stop a server and wait for the proof."""
        await self.post(f"/servers/{server}/stop")
        return await self.get(f"/servers/{server}/wait?until=stopped&timeout_s={PATIENCE_S}")

    async def fail(self, server: str = "one") -> Any:
        """Wait as the operator would for a start that fails; return the problem, once what it held is free again."""
        status, problem = await self.api.call("GET", f"/servers/{server}/wait?timeout_s={PATIENCE_S}")
        assert (status, problem["code"]) == (409, "wait_pointless"), problem
        await self.until(f"/operations?server={server}&state=running", lambda page: not page["items"])
        return problem

    async def watch(self, until: Callable[[Any], Any], *, server: str = "one") -> list[Any]:
        """Return what the API said of a server at each look, until something is true of it."""
        said: list[Any] = []

        def is_over(document: Any) -> Any:
            said.append(document)
            return until(document)

        await self.until(f"/servers/{server}", is_over)
        return said

    async def watch_start(self, server: str = "one") -> list[Any]:
        """Return what the API said of a start at each look, until it is no start any more."""
        return await self.watch(lambda document: document["state"] != "starting", server=server)

    async def transitions(self, server: str = "one", **filters: str) -> list[Any]:
        """Return the transitions of a server, oldest first."""
        query = "&".join(f"{name}={value}" for name, value in {"server": server, **filters}.items())
        page = await self.get(f"/transitions?limit=200&{query}")
        return list(reversed(page["items"]))

    async def until_recorded(self, verdict: str, server: str = "one") -> list[Any]:
        """Wait until the change to a verdict is written down, and return the changes so far, oldest first.

        The API tells a verdict from the live picture as soon as it is thought; its transition is committed just after.
        """
        path = f"/transitions?limit=200&server={server}&reason=verdict_changed"
        await self.until(path, lambda page: verdict in [row["after"] for row in page["items"]])
        return await self.transitions(server, reason="verdict_changed")

    async def verdicts(self, server: str = "one") -> list[str]:
        """Return the verdicts on a server that were recorded, oldest first."""
        return [row["after"] for row in await self.transitions(server, reason="verdict_changed")]

    async def launch_of(self, server: str = "one") -> Any:
        """Return the whole of the current launch."""
        return await self.get(f"/launches/{(await self.get(f'/servers/{server}'))['launch']['id']}")

    async def used_mib(self) -> list[int]:
        """Return the memory that is used on each GPU, by a look at the node now."""
        node = await self.post("/nodes/atlas/refresh", expect=200)
        return [gpu["memory_used_mib"] for gpu in node["inventory"]["gpus"]]


def instant(text: str) -> datetime:
    """Read an instant of the API."""
    return datetime.fromisoformat(text)


def seconds_between(earlier: str, later: str) -> float:
    """Return the seconds between two instants of the API."""
    return (instant(later) - instant(earlier)).total_seconds()


def phases(launch: Any) -> list[str]:
    """Return the phases of a launch's timeline in their order."""
    return [stay["phase"] for stay in launch["timeline"]]


def spent_s(launch: Any, phase: str) -> float:
    """Return how long a launch was in a phase, all stays together."""
    stays = [stay for stay in launch["timeline"] if stay["phase"] == phase]
    return sum(seconds_between(stay["started_at"], stay["ended_at"]) for stay in stays)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Give a running application that has taken the node in."""
    settings = Settings(
        access=Access.OPEN, state_dir=tmp_path / "state", connect_deadline_s=5, retry_max_s=0.5, health_interval_s=0.2
    )
    app = create_app(settings)
    async with EmbeddedFleet(tmp_path / "fleet", SPECS) as fleet, app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            stage = Stage(Api(http, app.state.parts), fleet)
            await stage.take_in(stage.atlas)
            yield stage


class Operator:
    """Somebody who asks an engine by hand, as in the story: what /health answered."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self.answers: list[tuple[int, bytes]] = []

    async def poll_health(self) -> datetime:
        """Ask every tenth of a second until the first 200 and return when that was; a refusal is no answer."""
        async with httpx2.AsyncClient(base_url=self._url, timeout=10) as http:
            while True:
                try:
                    answer = await http.get("/health")
                except httpx2.TransportError:
                    pass
                else:
                    self.answers.append((answer.status_code, answer.content))
                    if answer.status_code == 200:
                        return datetime.now(UTC)
                await asyncio.sleep(0.1)

    async def generate(self, tokens: int) -> None:
        """Have a text of so many tokens made."""
        wish = {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0}
        async with httpx2.AsyncClient(base_url=self._url, timeout=60) as http:
            answer = await http.post("/generate", json={"text": "Tell a story.", "sampling_params": wish})
        assert answer.status_code == 200, answer.text
