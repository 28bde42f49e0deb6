"""Servers: claims, failures, stops that leave something, cancels, waiting."""

import asyncio
import json
import os

import pytest

from service.operations import stopping
from service.simulator.homes import state_dir
from tests.fleet.conftest import World


@pytest.fixture(autouse=True)
async def atlas(world: World) -> None:
    await world.take_in(world.atlas)


def engines_of(world: World) -> list[str]:
    """Return the command lines of the engines that live on atlas."""
    return [item.command for item in world.atlas.processes() if "sglang.launch_server" in item.command]


async def test_of_two_launches_for_one_gpu_one_wins(world: World) -> None:
    await world.place("a", gpus=[0])
    await world.place("b", gpus=[0])
    answers = await asyncio.gather(*(world.api.call("POST", f"/servers/{name}/launch") for name in ("a", "b")))
    assert sorted(status for status, _ in answers) == [202, 409]
    winner = "a" if answers[0][0] == 202 else "b"
    (refused,) = [document for status, document in answers if status == 409]
    assert (refused["code"], refused["context"]["holder"]) == ("gpu_taken", winner)
    assert (await world.get(f"/servers/{'b' if winner == 'a' else 'a'}"))["state"] == "stopped"


async def test_of_two_launches_for_one_port_one_wins(world: World) -> None:
    port = world.atlas.port_range.start + 3
    await world.place("a", port=port)
    await world.place("b", port=port)
    answers = await asyncio.gather(*(world.api.call("POST", f"/servers/{name}/launch") for name in ("a", "b")))
    assert sorted(status for status, _ in answers) == [202, 409]
    (refused,) = [document for status, document in answers if status == 409]
    assert refused["code"] == "port_taken"


async def test_twenty_launches_with_one_key_start_one(world: World) -> None:
    await world.place()
    calls = [world.api.call("POST", "/servers/one/launch", key="again") for _ in range(20)]
    answers = await asyncio.gather(*calls)
    assert {status for status, _ in answers} == {202}
    assert len({document["id"] for _, document in answers}) == 1
    await world.until_state("one", "ready")
    assert (await world.get("/servers/one"))["launch"]["number"] == 1


async def test_free_gpus_are_chosen_and_run_out(world: World) -> None:
    first = await world.bring_up("a")
    second = await world.bring_up("b")
    assert first["launch"]["gpus"][0]["uuid"] != second["launch"]["gpus"][0]["uuid"]
    await world.place("c")
    problem = await world.post("/servers/c/launch", expect=409)
    assert problem["code"] == "preflight_failed"
    assert "node_gpus: " in problem["detail"]
    assert "held by server a" in problem["detail"]


async def test_an_environment_that_is_not_there(world: World) -> None:
    recipe = world.recipe(python="/not/there/python")
    await world.post("/profiles", {"name": "p", "recipe": recipe}, expect=201)
    wish = {"name": "one", "profile": "p", "node": "atlas", "launch": True}
    problem = await world.post("/servers", wish, expect=409)
    assert "engine_environment: there is no /not/there/python" in problem["detail"]
    created = await world.post("/servers", {**wish, "override": ["engine_environment"]}, expect=201)
    failed = await world.until_state("one", "failed")
    assert failed["reason"] == "start_failed"
    launch = await world.get(f"/launches/{failed['launch']['id']}")
    assert launch["preflight"]["overridden"] == ["engine_environment"]
    assert "/not/there/python" in failed["message"]
    operation = await world.get(f"/operations/{created['operation']['id']}")
    assert (operation["state"], operation["problem"]["code"]) == ("failed", "start_failed")
    await world.until("/operations?server=one&state=running", lambda page: not page["items"])
    again = {"override": ["engine_environment"]}
    await world.post("/servers/one/launch", again)  # the claims were given back


async def test_a_missing_secret_refuses_the_launch_and_names_the_reference(world: World) -> None:
    recipe = world.recipe(secret_args={"api-key": {"env": "VIGIL_TEST_NOT_SET"}})
    await world.post("/profiles", {"name": "p", "recipe": recipe}, expect=201)
    wish = {"name": "one", "profile": "p", "node": "atlas", "launch": True}
    problem = await world.post("/servers", wish, expect=409)
    assert "profile_secrets: api-key" in problem["detail"]
    assert "VIGIL_TEST_NOT_SET" in problem["detail"]
    assert (await world.get("/servers"))["items"] == [], "neither placed nor launched"


async def test_a_stop_that_leaves_something_says_what_and_can_be_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "PROOF_S", 1)
    server = await world.bring_up()
    gpu = server["launch"]["gpus"][0]["uuid"]
    driver = state_dir(world.atlas.home) / "nvidia-smi.json"
    driver.write_text(json.dumps({"cells": {"0": {"memory.used": "4096"}}}))  # held, and nobody is listed for it
    await world.post("/servers/one/stop")
    failed = await world.until_state("one", "failed")
    assert failed["reason"] == "stop_incomplete"
    assert f"memory of GPU {gpu}" in failed["message"]
    problem = await world.post("/servers/one/launch", expect=409)
    assert problem["code"] == "leftovers_remain"
    assert (await world.api.call("DELETE", "/servers/one"))[1]["code"] == "leftovers_remain"
    driver.unlink()
    await world.post("/servers/one/stop")
    await world.until_state("one", "stopped")
    assert await world.reasons("one") == [
        "launch_requested",
        "became_ready",
        "stop_requested",
        "stop_incomplete",
        "stop_requested",
        "stop_verified",
    ]


async def test_a_stop_takes_the_place_of_a_launch(world: World) -> None:
    await world.place(script="default")
    launch = await world.post("/servers/one/launch")
    await world.until("/servers/one", lambda document: document["launch"]["phase"])
    await world.post("/servers/one/stop")
    await world.until_state("one", "stopped")
    assert (await world.get(f"/operations/{launch['id']}"))["state"] == "canceled"
    assert engines_of(world) == []


async def test_a_stop_at_once_after_a_launch_leaves_nothing_running(world: World) -> None:
    await world.place()
    await world.post("/servers/one/launch")
    await world.post("/servers/one/stop")
    await world.until_state("one", "stopped")
    await asyncio.sleep(1)
    assert engines_of(world) == []
    await world.post("/servers/one/launch")
    await world.until_state("one", "ready")


async def test_canceling_a_launch_stops_it(world: World) -> None:
    await world.place(script="default")
    launch = await world.post("/servers/one/launch")
    stop = await world.post(f"/operations/{launch['id']}/cancel")
    assert stop["kind"] == "stop"
    await world.until_state("one", "stopped")
    problem = await world.post(f"/operations/{stop['id']}/cancel", expect=409)
    assert problem["code"] == "illegal_move"


async def test_requests_that_do_not_fit_the_state(world: World) -> None:
    await world.bring_up()
    assert (await world.post("/servers/one/launch", expect=409))["code"] == "illegal_move"
    assert (await world.api.call("DELETE", "/servers/one"))[1]["code"] == "illegal_move"
    await world.post("/servers/one/stop")
    assert (await world.post("/servers/one/stop", expect=409))["code"] == "operation_in_progress"
    await world.until_state("one", "stopped")


async def test_a_stopped_server_is_restarted_by_a_launch(world: World) -> None:
    await world.place()
    await world.post("/servers/one/restart")
    await world.until_state("one", "ready")
    await world.post("/servers/one/restart")
    again = await world.until("/servers/one", lambda item: item["state"] == "ready" and item["launch"]["number"] == 2)
    assert again["desired"] == "running"


async def test_waiting(world: World) -> None:
    await world.place(script="default")
    assert (await world.api.call("GET", "/servers/one/wait"))[0] == 409
    await world.post("/servers/one/launch")
    status, problem = await world.api.call("GET", "/servers/one/wait?timeout_s=0.5")
    assert (status, problem["code"], problem["context"]["state"]) == (504, "wait_timed_out", "starting")
    waits = [world.api.call("GET", f"/servers/one/wait?timeout_s=30&x={number}") for number in range(30)]
    assert {status for status, _ in await asyncio.gather(*waits)} == {200}


async def test_a_crash_while_serving_is_recorded_and_its_log_is_kept(world: World) -> None:
    server = await world.bring_up()
    os.kill(server["launch"]["pid"], 9)
    failed = await world.until_state("one", "failed")
    assert failed["reason"] == "process_exited"
    log = await world.api.http.get(f"/api/v1/launches/{failed['launch']['id']}/log?tail=5")
    assert log.text.count("\n") <= 6
    assert int(log.headers["X-Log-Size"]) > 1000


async def test_the_log_is_read_in_parts_and_followed(world: World) -> None:
    server = await world.bring_up()
    path = f"/api/v1/launches/{server['launch']['id']}/log"
    whole = (await world.api.http.get(path, params={"limit": 1000})).content
    first = await world.api.http.get(path, params={"offset": 0, "limit": 100})
    rest = await world.api.http.get(path, params={"offset": first.headers["X-Log-Next-Offset"], "limit": 900})
    assert first.content + rest.content == whole
    only = await world.api.http.get(path, params={"contains": "fired up"})
    assert only.text.count("\n") == 1
    both = await world.api.http.get(path, params={"offset": 0, "tail": 1})
    assert both.json()["code"] == "invalid_input"
    await world.post("/servers/one/stop")
    stream = await world.api.http.get(path, headers={"Accept": "text/event-stream", "Last-Event-ID": "100"})
    events = [block for block in stream.text.split("\n\n") if block.startswith("event: log")]
    texts = [json.loads(block.split("data: ", 1)[1]) for block in events]
    final = (await world.api.http.get(path)).content
    assert "".join(texts).encode() == final[100:]
    assert "event: end" in stream.text


async def test_a_restart_may_move_to_another_version_of_the_profile(world: World) -> None:
    await world.bring_up()
    recipe = world.recipe(server_args={"mem-fraction-static": 0.5})
    assert (await world.api.call("PUT", "/profiles/one-profile", {"recipe": recipe}))[0] == 200
    await world.post("/servers/one/restart")
    second = await world.until("/servers/one", lambda it: it["state"] == "ready" and it["launch"]["number"] == 2)
    assert second["profile_version"] == 1, "a new version is taken up by nobody who has not asked for it"
    assert (await world.post("/servers/one/restart", {"version": 3}, expect=404))["code"] == "not_found"
    await world.post("/servers/one/restart", {"version": 2})
    third = await world.until("/servers/one", lambda it: it["state"] == "ready" and it["launch"]["number"] == 3)
    assert third["profile_version"] == 2
    launch = await world.get(f"/launches/{third['launch']['id']}")
    assert "--mem-fraction-static" in launch["argv"]


@pytest.mark.parametrize(
    ("query", "place"), [("?contains=HTTP", "0"), ("?tail=5", "0"), ("", "abc"), ("", "-1"), ("", "9" * 30)]
)
async def test_a_log_that_cannot_be_followed_so_is_refused(world: World, query: str, place: str) -> None:
    """All of it was sent, though only some lines were asked for, or those behind a place that is none."""
    server = await world.bring_up()
    path = f"/api/v1/launches/{server['launch']['id']}/log{query}"
    async with asyncio.timeout(10):
        refused = await world.api.http.get(path, headers={"Accept": "text/event-stream", "Last-Event-ID": place})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")


async def test_a_remedy_fits_what_was_asked(world: World) -> None:
    await world.bring_up()
    operation = (await world.get("/operations?server=one"))["items"][0]["id"]
    ended = await world.post(f"/operations/{operation}/cancel", expect=409)
    assert (ended["code"], "stop or launch" in ended["remedy"]) == ("illegal_move", False)
    absent = await world.post("/servers/one/restart", {"version": 9}, expect=404)
    assert absent["detail"] == "profile 'one-profile' has no version 9"
