"""A backup taken under load, put back in another place: the service that starts there takes up what runs."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.app import create_app
from service.clock import utc_now
from service.db.backup import back_up, check, restore
from service.db.holding import DatabaseInUse
from service.settings import Access, Settings
from service.simulator.fleet import EmbeddedFleet
from tests.api.conftest import Api
from tests.fleet.conftest import SPECS, World


def _settings(directory: Path) -> Settings:
    return Settings(
        access=Access.OPEN, state_dir=directory, connect_deadline_s=3, retry_max_s=0.5, health_interval_s=0.2
    )


async def test_what_runs_is_taken_up_from_a_backup_that_was_made_under_load(tmp_path: Path) -> None:
    first, second = _settings(tmp_path / "first"), _settings(tmp_path / "second")
    async with EmbeddedFleet(tmp_path / "fleet", SPECS) as fleet:
        app = create_app(first)
        async with app.router.lifespan_context(app), _client(app) as http:
            world = World(Api(http, app.state.parts), fleet)
            await world.take_in(world.atlas)
            await world.bring_up()
            (before,) = (await world.get("/servers/one/launches"))["items"]
            loading = asyncio.create_task(_keep_writing(world))
            made = await asyncio.to_thread(back_up, first.resolved_database_url(), tmp_path / "copy.db")
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
        check(made.path)
        restore(made.path, second.resolved_database_url(), at=utc_now())

        app = create_app(second)
        async with app.router.lifespan_context(app), _client(app) as http:
            world = World(Api(http, app.state.parts), fleet)
            await world.until_contact("atlas", "ok")
            after = await world.until("/servers/one", lambda server: server["observed_at"] is not None)
            assert (after["state"], after["launch"]["id"]) == ("ready", before["id"])
            assert before["pid"] in {process.pid for process in world.atlas.processes()}
            assert await world.reasons("one") == ["launch_requested", "became_ready"]
            await world.post("/servers/one/stop")
            await world.until_state("one", "stopped")


async def test_what_was_launched_after_the_backup_is_found_and_taken_over(tmp_path: Path) -> None:
    first, second = _settings(tmp_path / "first"), _settings(tmp_path / "second")
    async with EmbeddedFleet(tmp_path / "fleet", SPECS) as fleet:
        app = create_app(first)
        async with app.router.lifespan_context(app), _client(app) as http:
            world = World(Api(http, app.state.parts), fleet)
            await world.take_in(world.atlas)
            made = await asyncio.to_thread(back_up, first.resolved_database_url(), tmp_path / "copy.db")
            await world.bring_up()
            (launch,) = (await world.get("/servers/one/launches"))["items"]
            assert await _found(world, launch["pid"]) is None
        restore(made.path, second.resolved_database_url(), at=utc_now())

        app = create_app(second)
        async with app.router.lifespan_context(app), _client(app) as http:
            world = World(Api(http, app.state.parts), fleet)
            await world.until_contact("atlas", "ok")
            found = await _found(world, launch["pid"])
            assert (found["launch_id"], found["port"]) == (launch["id"], launch["port"])
            wish = {"name": "again", "node": "atlas", "pid": found["pid"]}
            await world.post("/servers/adopt", wish, expect=201)
            ready = await world.until_state("again", "ready")
            assert ready["launch"]["id"] == launch["id"]
            assert await _found(world, launch["pid"]) is None
            await world.post("/servers/again/stop")
            await world.until_state("again", "stopped")


async def test_two_services_do_not_share_a_database(tmp_path: Path) -> None:
    app, other = create_app(_settings(tmp_path)), create_app(_settings(tmp_path))
    async with app.router.lifespan_context(app):
        with pytest.raises(DatabaseInUse, match=r"a service runs on .*vigil\.db; end it first"):
            async with other.router.lifespan_context(other):
                pass
    async with other.router.lifespan_context(other):
        pass


def _client(app: object) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)  # type: ignore[arg-type]
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60)


async def _found(world: World, pid: int) -> Any:
    """Look at the node now, and return the engine with this pid if it is listed as nobody's."""
    node = await world.post("/nodes/atlas/refresh", expect=200)
    return next((item for item in node["inventory"]["found_engines"] if item["pid"] == pid), None)


async def _keep_writing(world: World) -> None:
    number = 0
    while True:
        number += 1
        await world.post("/profiles", {"name": f"p{number}", "recipe": world.recipe()}, expect=201)
