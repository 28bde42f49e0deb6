"""Everything that happens to a fleet is told once, in order, with the change itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.api.schemas.events import StreamedEvent
from service.db import events as event_queries
from service.simulator.homes import state_dir
from tests.fleet.conftest import World

TRANSITIONS = {"server_moved", "contact_changed", "verdict_changed", "policy_decided"}


@pytest.fixture(autouse=True)
async def atlas(world: World) -> None:
    await world.take_in(world.atlas)


async def told(world: World) -> list[dict[str, Any]]:
    """Return every event so far, read as a reader reads it; each fits its model."""
    feed, found, position = world.api.parts.control.feed, [], 0
    async with world.api.parts.control.database.read() as session:
        newest = (await event_queries.id_range(session))[1]
    while position < newest and await feed.wait(position, timeout_s=5):
        stretch = await feed.after(position)
        found += [json.loads(item.text) for item in stretch.told]
        position = stretch.told[-1].id
    for document in found:
        StreamedEvent.model_validate(document)
    return found


async def test_a_life_of_a_server(world: World) -> None:
    """Launch, ready, stop: every transition, every phase, every step of its operations, and nothing twice."""
    await world.bring_up()
    await world.post("/servers/one/stop")
    await world.until("/operations?server=one&state=running", lambda page: not page["items"])
    found = await told(world)
    assert [event["id"] for event in found] == sorted({event["id"] for event in found})

    transitions = list(reversed((await world.get("/transitions?limit=200"))["items"]))
    assert [(item["at"], item["message"]) for item in transitions] == [
        (event["at"], event["document"]["message"]) for event in found if event["kind"] in TRANSITIONS
    ]
    launch = await world.get(f"/launches/{(await world.get('/servers/one'))['launch']['id']}")
    phases = [event["document"] for event in found if event["kind"] == "phase_changed"]
    assert [phase["after"] for phase in phases] == [span["phase"] for span in launch["timeline"]]
    assert [phase["position"] for phase in phases] == list(range(len(phases)))
    assert phases[-1]["after"] == "serving"
    steps = [
        (event["kind"], event["document"]["operation"], event["document"]["state"], event["document"]["step"])
        for event in found
        if event["kind"].startswith("operation_")
    ]
    assert steps == [
        ("operation_began", "launch", "running", "starting"),
        ("operation_advanced", "launch", "running", "watching"),
        ("operation_ended", "launch", "succeeded", "done"),
        ("operation_began", "stop", "running", "stopping"),
        ("operation_ended", "stop", "succeeded", "done"),
    ]
    of_server = [event for event in found if event["server_id"]]
    assert {(event["server"], event["node"]) for event in of_server} == {("one", "atlas")}
    assert {event["launch_id"] for event in of_server if event["kind"] == "phase_changed"} == {launch["id"]}


async def test_a_crash_is_told_with_its_cause(world: World, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    crash = {"do": "crash", "failure": "cuda_oom_weights", "phase": "loading_weights", "step": 1}
    script.write_text(json.dumps({"time_scale": 0.1, "crash_pause_s": 0.2, "events": [crash]}))
    await world.place(script=str(script))
    await world.post("/servers/one/launch")
    await world.until_state("one", "failed")
    found = await told(world)
    (failed,) = [event for event in found if event["kind"] == "server_moved" and event["document"]["after"] == "failed"]
    assert failed["document"]["diagnosis"] == "cuda_oom_weights"
    (ended,) = [event for event in found if event["kind"] == "operation_ended" and event["id"] > failed["id"] - 1]
    assert (ended["document"]["state"], ended["document"]["code"]) == ("failed", "process_exited")


async def test_a_finding_is_told_when_it_begins_and_when_it_ends(world: World) -> None:
    driver = state_dir(world.atlas.home) / "nvidia-smi.json"
    driver.write_text(json.dumps({"cells": {"1": {"temperature.gpu": "[GPU requires reset]"}}}))
    for _ in range(3):
        await world.post("/nodes/atlas/refresh", expect=200)
    driver.unlink()
    for _ in range(2):
        await world.post("/nodes/atlas/refresh", expect=200)
    found = [event for event in await told(world) if event["kind"].startswith("finding_")]
    assert [event["kind"] for event in found] == ["finding_began", "finding_ended"]
    assert {(event["node"], event["server"], event["launch_id"]) for event in found} == {("atlas", None, None)}
    assert [event["document"]["ended_at"] is None for event in found] == [True, False]


async def test_a_lost_node_is_told_with_its_cause(world: World) -> None:
    world.atlas.stop()
    await world.until_contact("atlas", "lost", "node_unreachable")
    lost = [event for event in await told(world) if event["kind"] == "contact_changed"][-1]
    assert (lost["document"]["after"], lost["document"]["code"], lost["node"]) == ("lost", "node_unreachable", "atlas")


async def test_progress_and_health_are_no_events(world: World) -> None:
    """What comes every second is no event: a fleet of a thousand nodes must not drown its listeners."""
    await world.bring_up()
    before = len(await told(world))
    for _ in range(5):
        await world.post("/nodes/atlas/refresh", expect=200)
    after = [event["kind"] for event in (await told(world))[before:]]
    assert after in ([], ["verdict_changed"]), "a server that has just become ready gets its first verdict"
