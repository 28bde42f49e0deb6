"""Nodes: host keys, logins, contact, inventory."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.exc import TimeoutError as SQLAlchemyTimeout

from service.errors import RemoteCommandFailed
from service.operations import transitioning
from service.remote.messages import FoundEngine
from service.remote.node import NodeSession
from service.simulator.demo import node_body
from tests.fleet.conftest import World


async def test_a_host_key_is_shown_first_and_pinned_when_confirmed(world: World) -> None:
    body = {**node_body(world.atlas), "trust_on_first_use": False}
    shown = await world.post("/nodes", body, expect=201)
    assert shown["host_key"] is None
    assert shown["offered_host_key"]["fingerprint"] == world.atlas.host_key_fingerprint
    await world.until_contact("atlas", "lost", "host_key_untrusted")
    wrong = "SHA256:" + "A" * 43
    problem = await world.post("/nodes/atlas/trust", {"fingerprint": wrong}, expect=409)
    assert problem["code"] == "host_key_mismatch"
    fingerprint = world.atlas.host_key_fingerprint
    trusted = await world.post("/nodes/atlas/trust", {"fingerprint": fingerprint}, expect=200)
    assert (trusted["host_key"]["fingerprint"], trusted["offered_host_key"]) == (fingerprint, None)
    await world.until_contact("atlas", "ok")


async def test_a_changed_host_key_stops_everything_until_it_is_confirmed(world: World) -> None:
    await world.take_in(world.atlas)
    await world.atlas.change_host_key()
    world.atlas.drop_connections()
    await world.until_contact("atlas", "lost", "host_key_changed")
    await asyncio.sleep(1.5)  # longer than the longest pause between attempts: nobody may have tried again
    losses = (await world.get("/transitions?node=atlas&reason=contact_lost"))["items"]
    assert world.atlas.connection_count == 0
    assert [row["evidence"]["code"] for row in losses].count("host_key_changed") == 1
    problem = await world.post("/nodes/atlas/refresh", expect=502)
    assert problem["code"] == "host_key_changed"
    offered = (await world.get("/nodes/atlas"))["offered_host_key"]
    assert offered["fingerprint"] == world.atlas.host_key_fingerprint
    await world.post("/nodes/atlas/trust", {"fingerprint": offered["fingerprint"]}, expect=200)
    await world.until_contact("atlas", "ok")


async def test_a_refused_login_is_not_tried_again_until_somebody_acts(world: World) -> None:
    world.atlas.refuse_login(is_refused=True)
    await world.post("/nodes", node_body(world.atlas), expect=201)
    refused = await world.until_contact("atlas", "lost", "authentication_refused")
    since = refused["contact"]["since_at"]
    world.atlas.refuse_login(is_refused=False)
    await asyncio.sleep(1.5)
    assert (await world.get("/nodes/atlas"))["contact"]["since_at"] == since
    await world.api.call("POST", "/nodes/atlas/refresh")
    await world.until_contact("atlas", "ok")


async def test_lost_contact_keeps_the_state_and_comes_back_by_itself(world: World) -> None:
    await world.take_in(world.atlas)
    server = await world.bring_up()
    world.atlas.stop()
    lost = await world.until_contact("atlas", "lost", "node_unreachable")
    assert lost["contact"]["heard_at"]
    kept = await world.get("/servers/one")
    assert (kept["state"], kept["contact"]["state"]) == ("ready", "lost")
    await world.atlas.start()
    await world.until_contact("atlas", "ok")
    again = await world.until("/servers/one", lambda document: document["observed_at"] > kept["observed_at"])
    assert (again["state"], again["launch"]["pid"]) == ("ready", server["launch"]["pid"])
    assert await world.reasons("one") == ["launch_requested", "became_ready"]


async def test_a_closed_port_is_told_with_its_cause(world: World) -> None:
    """The connection is lost first; why it cannot be made again is known a moment later, under the same code."""
    await world.take_in(world.atlas)
    world.atlas.stop()

    def tells_the_cause(node: Any) -> bool:
        return node["contact"]["state"] == "lost" and "no connection to" in node["contact"]["detail"]

    async with asyncio.timeout(5):
        await world.until("/nodes/atlas", tells_the_cause)
    losses = (await world.get("/transitions?node=atlas&reason=contact_lost"))["items"]
    assert len(losses) == 1  # the same loss, told better


async def test_an_error_while_a_loss_is_written_does_not_end_the_watch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.take_in(world.atlas)
    written = transitioning.record_contact
    failures: list[str] = []

    async def failing_once(*arguments: Any, **named: Any) -> None:
        if not failures:
            failures.append("the database did not answer")
            raise SQLAlchemyTimeout(failures[0])
        await written(*arguments, **named)

    monkeypatch.setattr(transitioning, "record_contact", failing_once)
    world.atlas.drop_connections()
    async with asyncio.timeout(10):
        while not failures or world.atlas.connection_count == 0:
            await asyncio.sleep(0.05)
    await world.until_contact("atlas", "ok")
    world.atlas.stop()
    await world.until_contact("atlas", "lost", "node_unreachable")


async def test_a_frozen_node_is_found_out_and_answers_of_the_api_stay_quick(world: World) -> None:
    await world.take_in(world.atlas)
    await world.take_in(world.borealis)
    world.atlas.freeze()
    await world.until("/nodes/atlas", lambda document: document["contact"]["state"] == "lost")
    async with asyncio.timeout(4):
        assert (await world.get("/nodes/borealis"))["contact"]["state"] == "ok"
        await world.get("/servers")
    world.atlas.thaw()
    await world.until_contact("atlas", "ok")


async def test_what_died_while_contact_was_lost_is_found_when_it_returns(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    world.atlas.stop()
    await world.until("/nodes/atlas", lambda document: document["contact"]["state"] == "lost")
    await world.atlas.kill_processes()
    assert (await world.get("/servers/one"))["state"] == "ready"
    await world.atlas.start()
    failed = await world.until_state("one", "failed")
    assert failed["reason"] in {"process_lost", "process_exited"}


async def test_a_node_behind_a_jump_host(world: World) -> None:
    jump = {"address": "127.0.0.1", "port": world.borealis.port, "user": world.borealis.user}
    jump["credential"] = {"kind": "key_file", "path": str(world.borealis.key_path)}
    body = {**node_body(world.atlas), "jump": jump, "trust_on_first_use": False}
    shown = await world.post("/nodes", body, expect=201)
    assert shown["offered_host_key"]["fingerprint"] == world.borealis.host_key_fingerprint
    jump_key = {"fingerprint": world.borealis.host_key_fingerprint}
    second = await world.post("/nodes/atlas/trust", jump_key, expect=200)
    assert second["offered_host_key"]["fingerprint"] == world.atlas.host_key_fingerprint
    await world.post("/nodes/atlas/trust", {"fingerprint": world.atlas.host_key_fingerprint}, expect=200)
    await world.until_contact("atlas", "ok")
    assert world.borealis.connection_count >= 1


async def test_inventory(world: World) -> None:
    atlas = await world.take_in(world.atlas)
    inventory = atlas["inventory"]
    assert [gpu["uuid"] for gpu in inventory["gpus"]] == list(world.atlas.gpu_uuids)
    assert inventory["driver_version"] == world.atlas.spec.driver_version
    assert inventory["engines"] == [{"python": world.atlas.engine_python, "sglang_version": "0.5.23", "error": None}]
    assert inventory["cpu_count"] > 0
    assert inventory["boot_id"]
    borealis = await world.take_in(world.borealis, engines=["/not/there/python"])
    assert (borealis["inventory"]["gpus"], borealis["inventory"]["gpu_error"]) == ([], None)
    assert borealis["inventory"]["engines"][0]["error"]


async def test_who_holds_a_gpu_is_shown(world: World) -> None:
    await world.take_in(world.atlas)
    server = await world.bring_up()
    node = await world.post("/nodes/atlas/refresh", expect=200)
    held = next(gpu for gpu in node["inventory"]["gpus"] if gpu["uuid"] == server["launch"]["gpus"][0]["uuid"])
    assert held["claimed_by"] == "one"
    assert {holder["launch_id"] for holder in held["holders"]} == {server["launch"]["id"]}


async def test_a_draining_node_takes_no_launch(world: World) -> None:
    await world.take_in(world.atlas)
    await world.place()
    await world.post("/nodes/atlas/drain", expect=200)
    problem = await world.post("/servers/one/launch", expect=409)
    assert problem["code"] == "node_draining"
    await world.post("/nodes/atlas/undrain", expect=200)
    await world.post("/servers/one/launch")


async def test_readiness_names_the_watchers(world: World) -> None:
    await world.take_in(world.atlas)
    answer = await world.api.http.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["watchers"]["atlas"] < 5
    assert {"inventory", "offsets"} <= set(answer.json()["jobs"])
    assert answer.json()["late"] == []


async def test_readiness_names_who_does_not_watch(world: World) -> None:
    await world.take_in(world.borealis)
    live, long_ago = world.api.parts.control.live, datetime.now(UTC) - timedelta(hours=1)
    live.fleet_at = live.jobs["offsets"].known_at = long_ago
    live.jobs["retention"].known_at = long_ago - timedelta(hours=2)
    answer = await world.api.http.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["late"] == ["fleet watch", "offsets"]
    live.fleet_at = live.jobs["offsets"].known_at = datetime.now(UTC)
    answer = await world.api.http.get("/readyz")
    assert (answer.status_code, answer.json()["late_upkeep"]) == (200, ["retention"])


async def test_engines_that_cannot_be_looked_for_keep_nobody_from_the_node(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_self: NodeSession) -> tuple[FoundEngine, ...]:
        raise RemoteCommandFailed("/proc cannot be read")

    monkeypatch.setattr(NodeSession, "find_engines", refuse)
    node = await world.take_in(world.atlas)
    assert node["contact"]["state"] == "ok"
    assert node["inventory"]["gpus"]
    assert node["inventory"]["found_engines"] == []


async def test_who_holds_the_gpus_is_younger_than_the_last_look(world: World) -> None:
    await world.take_in(world.atlas)
    assert (await world.get("/nodes/atlas"))["gpu_holders"] is None
    server = await world.bring_up()
    (gpu,) = server["launch"]["gpus"]

    def is_held(node: Any) -> bool:
        return bool(node["gpu_holders"] and node["gpu_holders"]["holders"])

    node = await world.until("/nodes/atlas", is_held)
    held = node["gpu_holders"]
    assert held["error"] is None
    assert held["at"] > node["inventory"]["at"]
    for holder in held["holders"]:
        assert (holder["gpu_uuid"], holder["launch_id"]) == (gpu["uuid"], server["launch"]["id"])
        assert holder["memory_mib"] > 0
