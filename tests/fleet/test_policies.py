"""What follows a crash by policy, and what earlier starts teach."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.conftest import World


@pytest.fixture(autouse=True)
async def atlas(world: World) -> None:
    await world.take_in(world.atlas)


async def place(world: World, script: str = "fast", **fields: object) -> None:
    await world.post("/profiles", {"name": "p", "recipe": world.recipe(script, **fields)}, expect=201)
    await world.post("/servers", {"name": "one", "profile": "p", "node": "atlas", "launch": True}, expect=201)


def crashing(tmp_path: Path, **content: Any) -> str:
    path = tmp_path / "crashing.json"
    event = {"do": "crash", "phase": "loading_weights", "step": 1, "failure": "cuda_oom_weights"}
    path.write_text(json.dumps({"time_scale": 0.1, "crash_pause_s": 0.2, "events": [event], **content}))
    return str(path)


async def test_a_crash_is_restarted_after_the_pause_and_a_wait_goes_on(world: World) -> None:
    await place(world, on_crash="restart", restart={"pause_s": 1})
    first = await world.until_state("one", "ready")
    os.kill(first["launch"]["pid"], 9)
    await world.until_state("one", "failed")
    again = await world.get("/servers/one/wait?timeout_s=30")
    assert (again["state"], again["launch"]["number"]) == ("ready", 2)
    restarts = [item for item in (await world.get("/operations?server=one"))["items"] if item["actor"] == "policy"]
    assert [(item["kind"], item["state"]) for item in restarts] == [("restart", "succeeded")]


async def test_the_same_diagnosis_twice_brakes_the_restarts(world: World, tmp_path: Path) -> None:
    script = crashing(tmp_path)
    await place(world, script, on_crash="restart", restart={"pause_s": 0, "max_restarts": 5, "same_diagnosis": 2})
    braked = await world.until("/transitions?server=one&reason=restart_braked", lambda page: page["items"])
    assert "cuda_oom_weights came 2 times in a row" in braked["items"][0]["message"]
    server = await world.get("/servers/one")
    assert (server["state"], server["launch"]["number"], server["desired"]) == ("failed", 2, "stopped")


async def test_by_default_nothing_follows_a_crash(world: World, tmp_path: Path) -> None:
    await place(world, crashing(tmp_path))
    await world.until_state("one", "failed")
    await world.until("/operations?server=one&state=running", lambda page: not page["items"])
    assert (await world.get("/servers/one"))["launch"]["number"] == 1


async def test_a_stop_ends_a_pausing_restart(world: World) -> None:
    await place(world, on_crash="restart", restart={"pause_s": 60})
    first = await world.until_state("one", "ready")
    os.kill(first["launch"]["pid"], 9)
    pausing = await world.until(
        "/servers/one", lambda server: server["operation"] and server["operation"]["step"] == "pausing"
    )
    assert pausing["operation"]["not_before_at"]
    await world.post("/servers/one/stop")
    await world.until_state("one", "stopped")


async def test_a_restart_by_policy_is_braked_by_a_preflight_that_fails(world: World) -> None:
    await place(world, on_crash="restart", restart={"pause_s": 1})
    first = await world.until_state("one", "ready")
    (world.atlas.models / "tiny-llama" / "config.json").unlink()
    os.kill(first["launch"]["pid"], 9)
    braked = await world.until("/transitions?server=one&reason=restart_braked", lambda page: page["items"])
    assert "model_config: " in braked["items"][0]["message"]
    server = await world.get("/servers/one")
    assert (server["state"], server["launch"]["number"], server["desired"]) == ("failed", 1, "stopped")
    (restart,) = [item for item in (await world.get("/operations?server=one"))["items"] if item["kind"] == "restart"]
    assert (restart["state"], restart["problem"]["code"]) == ("failed", "preflight_failed")


async def test_a_restart_by_policy_keeps_to_what_an_operator_overrode(world: World) -> None:
    await world.post("/profiles", {"name": "p", "recipe": world.recipe(on_crash="restart")}, expect=201)
    (world.atlas.models / "tiny-llama" / "generation_config.json").unlink()
    (world.atlas.models / "tiny-llama" / "model.safetensors.index.json").write_text("{")
    wish = {"name": "one", "profile": "p", "node": "atlas", "launch": True, "override": ["model_weight_files"]}
    await world.post("/servers", wish, expect=201)
    first = await world.until_state("one", "ready")
    os.kill(first["launch"]["pid"], 9)
    again = await world.until("/servers/one", lambda server: server["launch"]["number"] == 2)
    launch = await world.get(f"/launches/{again['launch']['id']}")
    assert launch["preflight"]["overridden"] == ["model_weight_files"]


async def restart_to_ready(world: World) -> None:
    """Restart the server and wait until its next launch is ready."""
    number = (await world.get("/servers/one"))["launch"]["number"] + 1

    def is_next(server: Any) -> bool:
        return bool(server["state"] == "ready" and server["launch"]["number"] == number)

    await world.post("/servers/one/restart")
    await world.until("/servers/one", is_next)


async def test_earlier_starts_give_an_eta_and_a_comparison(world: World, tmp_path: Path) -> None:
    script = tmp_path / "three-seconds.json"
    script.write_text(json.dumps({"time_scale": 0.5}))
    await place(world, str(script))
    first = await world.until_state("one", "ready")
    assert first["eta"] is None
    for _ in range(3):
        await restart_to_ready(world)
    history = await world.get("/profiles/p/startup-history?node=atlas")
    assert len(history["starts"]) == 4
    assert {"loading_weights", "capturing_graphs"} <= {item["phase"] for item in history["phases"]}
    assert history["last"]["start_count"] == 3
    assert history["last"]["verdict"] in {"usual", "slower", "faster"}
    await world.post("/servers/one/restart")
    starting = await world.until("/servers/one", lambda item: item["eta"])
    assert starting["eta"]["learned_from_starts"] == 4
    assert 0 <= starting["eta"]["remaining_p50_s"] <= starting["eta"]["remaining_p90_s"]


async def test_a_verdict_says_what_it_rests_on(world: World) -> None:
    await place(world, "default")
    starting = await world.until("/servers/one", lambda item: item["verdict"] and item["verdict"]["phase"])
    verdict = starting["verdict"]
    assert verdict["verdict"] == "progressing"
    assert verdict["deadline_source"] == "shipped"
    assert "no earlier start tells" in verdict["deadline_why"]
    assert verdict["hung_at"] > verdict["last_mark_at"]
    serving = await world.until(
        "/servers/one", lambda item: item["verdict"] and item["verdict"]["verdict"] == "healthy"
    )
    assert serving["state"] == "ready"


async def test_changes_of_verdict_are_transitions_of_their_own(world: World) -> None:
    await place(world)
    await world.until_state("one", "ready")
    page = await world.until("/transitions?server=one&subject=verdict", lambda page: len(page["items"]) == 2)
    rows = page["items"]
    assert [row["after"] for row in reversed(rows)] == ["progressing", "healthy"]
    assert all(row["reason"] == "verdict_changed" for row in rows)
