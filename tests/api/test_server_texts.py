"""The JSON of servers is that of their documents, also right after something has changed."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from service.api.schemas.servers import server_public
from service.db import servers as server_queries
from service.db.tables import Launch
from service.ids import new_id
from service.operations.live import LiveLaunch
from service.operations.verdicts import VerdictWatch
from service.profiles.profile import Profile
from service.servers.progress import History
from service.servers.states import State
from service.sglang.startup_log import StartupLog
from tests.api.conftest import RECIPE, Api

LINE = b"[2026-11-29 12:00:01] Load weight begin. avail mem=78.50 GB\n"


async def add_launch(api: Api, name: str) -> Launch:
    """Give a server a launch that is under way."""
    now = datetime.now(UTC)
    async with api.parts.control.database.write() as session:
        server = await server_queries.get_server(session, name)
        server.state, server.launch_id = State.STARTING, new_id("ln", now)
        launch = Launch(
            id=server.launch_id, server_id=server.id, node_id=server.node_id, number=1, profile_id=server.profile_id,
            profile_version=1, recipe=dict(RECIPE), argv=[], environment={}, port=server.port, gpus=[],
            model_path="/m", created_at=now, timeline=[],
        )  # fmt: skip
        session.add(launch)
    return launch


async def document(api: Api, name: str) -> Any:
    """Return what the documents say of a server, made anew."""
    async with api.parts.control.database.read() as session:
        (row,) = await server_queries.with_surroundings(session, [await server_queries.get_server(session, name)])
    return json.loads(server_public(row, api.parts.control.live, api.parts.control.now()).model_dump_json())


async def require_same(api: Api, name: str) -> Any:
    """Ask for the server by itself and in a list, twice each, and compare with its document."""
    for _ in range(2):
        expected = await document(api, name)
        _, one = await api.call("GET", f"/servers/{name}")
        _, page = await api.call("GET", "/servers")
        assert one == expected
        assert [item for item in page["items"] if item["name"] == name] == [expected]
        assert list(one) == list(expected)
    return one


async def test_every_change_is_shown_at_once(api: Api) -> None:
    await api.add_node()
    await api.add_server("one")
    await api.add_server("two")
    await require_same(api, "two")
    launch = await add_launch(api, "one")
    assert (await require_same(api, "one"))["launch"]["phase"] is None

    live = api.parts.control.live.launches[launch.id] = LiveLaunch(log=StartupLog(utc_offset_s=0))
    live.log = live.log.feed(LINE, datetime.now(UTC))
    live.observed_at = datetime.now(UTC)
    profile = Profile.model_validate(RECIPE)
    live.verdicts = VerdictWatch(profile, launch, History(), now=launch.created_at)
    live.verdicts.think_of_start(datetime.now(UTC), datetime.now(UTC))
    coming_up = await require_same(api, "one")
    assert coming_up["launch"]["phase"] == "loading_weights"
    assert coming_up["verdict"]["verdict"] == "progressing"

    async with api.parts.control.database.write() as session:
        server = await server_queries.get_server(session, "one")
        server.state, server.message = State.READY, "it “answers”"
        row = await session.get_one(Launch, launch.id)
        row.phase, row.ready_at = "serving", datetime.now(UTC)
    assert (await require_same(api, "one"))["message"] == "it “answers”"
    live.observed_at += timedelta(seconds=1)
    await require_same(api, "one")
    live.verdicts = None
    assert (await require_same(api, "one"))["verdict"] is None
    api.parts.control.live.launches.clear()
    assert (await require_same(api, "one"))["observed_at"] is None


async def test_a_page_without_rows_and_its_cursor(api: Api) -> None:
    assert await api.call("GET", "/servers") == (200, {"items": [], "next_cursor": None})
    await api.add_node()
    await api.add_server("one")
    await api.add_server("two")
    _, page = await api.call("GET", "/servers?limit=1")
    _, rest = await api.call("GET", f"/servers?limit=1&cursor={page['next_cursor']}")
    assert [item["name"] for item in (*page["items"], *rest["items"])] == ["two", "one"]
    assert rest["next_cursor"] is None
