"""Preflights over the API: what is checked, what refuses a launch or a restart, and what may be overridden."""

import asyncio
import socket
from typing import Any

import pytest

from service.remote.node import NodeSession
from service.sglang.judgement import Judgement
from tests.fleet.conftest import World

NODE_CODES = {"node_gpus", "node_port", "node_disk", "node_shm", "node_limits", "node_driver", "node_clock"}
MODEL_CODES = {
    "model_path",
    "model_config",
    "model_weight_files",
    "model_architecture",
    "model_quantization",
    "model_tensor_parallel",
    "model_context_length",
    "model_weight_memory",
}


@pytest.fixture(autouse=True)
async def _taken_in(world: World) -> None:
    await world.take_in(world.atlas)


async def preflight(world: World, **wish: object) -> dict[str, Any]:
    """Return a preflight's checks by code; every check takes a time and says what it found."""
    document = await world.post("/preflights", wish, expect=200)
    checks = {check["code"]: check for check in document["checks"]}
    assert len(checks) == len(document["checks"])
    assert all(check["found"] and check["took_s"] >= 0 for check in checks.values())
    return checks


async def write(world: World, **fields: object) -> None:
    recipe = {**world.recipe(), **fields}
    status, made = await world.api.call("POST", "/profiles", {"name": "p", "recipe": recipe})
    if status == 409:
        status, made = await world.api.call("PUT", "/profiles/p", {"recipe": recipe})
    assert status in {200, 201}, made


async def test_a_sound_launch_passes_every_check_and_nothing_is_launched(world: World) -> None:
    await write(world)
    checks = await preflight(world, profile="p", node="atlas")
    assert set(checks) == NODE_CODES | MODEL_CODES | {
        "profile_secrets",
        "engine_environment",
        "engine_arguments",
        "speculative_arguments",
    }
    assert {code for code, check in checks.items() if check["outcome"] == "fail"} == set()
    assert checks["engine_arguments"]["outcome"] == "pass"
    assert (await world.get("/servers"))["items"] == []
    assert not [process for process in world.atlas.processes() if "launch_server" in process.command]


async def test_what_fails_refuses_the_launch_until_it_is_named(world: World) -> None:
    await write(world, server_args={"num-speculative-tokens": 3, "tensor-paralel-size": 1})
    await world.post("/servers", {"name": "one", "profile": "p", "node": "atlas"}, expect=201)
    problem = await world.post("/servers/one/launch", expect=409)
    assert problem["code"] == "preflight_failed"
    failed = [check for check in problem["context"]["preflight"]["checks"] if check["outcome"] == "fail"]
    arguments = next(check for check in failed if check["code"] == "engine_arguments")
    assert "--speculative-num-draft-tokens" in arguments["remedy"]
    assert "--tensor-parallel-size" in arguments["remedy"]
    assert (await world.get("/servers/one"))["launch"] is None

    half = [check["code"] for check in failed if check["code"] != "engine_arguments"]
    assert (await world.post("/servers/one/launch", {"override": half}, expect=409))["code"] == "preflight_failed"
    await world.post("/servers/one/launch", {"override": [check["code"] for check in failed]})
    failed_server = await world.until_state("one", "failed")
    launch = await world.get(f"/launches/{failed_server['launch']['id']}")
    assert launch["diagnosis"]["code"] == "invalid_argument"
    assert set(launch["preflight"]["overridden"]) == {check["code"] for check in failed}


async def test_an_override_of_what_has_not_failed_is_not_kept(world: World) -> None:
    await write(world)
    await world.post("/servers", {"name": "one", "profile": "p", "node": "atlas"}, expect=201)
    await world.post("/servers/one/launch", {"override": ["node_disk"]})
    server = await world.get("/servers/one/wait?timeout_s=30")
    launch = await world.get(f"/launches/{server['launch']['id']}")
    assert launch["preflight"]["overridden"] == []
    assert launch["preflight"]["engine_version"] == launch["engine_version"]


async def test_a_restart_whose_preflight_fails_leaves_the_running_server_untouched(world: World) -> None:
    before = await world.bring_up()
    (world.atlas.models / "tiny-llama" / "config.json").rename(world.atlas.models / "config.json.away")
    problem = await world.post("/servers/one/restart", expect=409)
    assert problem["code"] == "preflight_failed"
    assert "model_config: " in problem["detail"]
    after = await world.get("/servers/one")
    assert (after["state"], after["launch"]["id"], after["operation"]) == ("ready", before["launch"]["id"], None)
    assert await world.reasons("one") == ["launch_requested", "became_ready"]

    (world.atlas.models / "config.json.away").rename(world.atlas.models / "tiny-llama" / "config.json")
    await world.post("/servers/one/restart")
    restarted = await world.until("/servers/one", lambda server: server["launch"]["number"] == 2)
    assert restarted["port"] == before["port"]


async def test_the_next_launch_of_a_running_server_is_judged_as_if_the_present_one_were_gone(world: World) -> None:
    await world.bring_up()
    own = await preflight(world, server="one")
    assert own["node_port"]["outcome"] == own["node_gpus"]["outcome"] == "pass"
    server = await world.get("/servers/one")
    other = await preflight(world, profile="one-profile", node="atlas", port=server["port"], gpus=[0])
    assert other["node_port"]["outcome"] == other["node_gpus"]["outcome"] == "fail"
    assert "held by server one" in other["node_port"]["found"]
    assert "server one" in other["node_gpus"]["found"]


async def test_a_port_that_a_stranger_listens_on_is_found_before_the_start(world: World) -> None:
    await write(world)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        checks = await preflight(world, profile="p", node="atlas", port=port)
    assert checks["node_port"]["outcome"] == "fail"
    assert str(port) in checks["node_port"]["found"]


async def test_arguments_that_were_judged_are_not_judged_again(world: World) -> None:
    await write(world)
    first = await preflight(world, profile="p", node="atlas")
    assert len(world.api.parts.control.judgements) == 1
    second = await preflight(world, profile="p", node="atlas")
    assert len(world.api.parts.control.judgements) == 1
    assert first["engine_arguments"]["found"] == second["engine_arguments"]["found"]
    config = world.atlas.models / "tiny-llama" / "config.json"
    config.write_text(config.read_text().replace('"max_position_embeddings"', ' "max_position_embeddings"'))
    await preflight(world, profile="p", node="atlas")
    assert len(world.api.parts.control.judgements) == 2, "the model's config.json has changed"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "give `server`, or `profile` and `node`"),
        ({"profile": "p"}, "give `server`, or `profile` and `node`"),
        ({"server": "one", "node": "atlas"}, "give `server` alone"),
        ({"profile": "p", "node": "atlas", "gpus": []}, "at least 1 item"),
        ({"profile": "p", "node": "atlas", "port": 0}, "port"),
        ({"profile": "p", "node": "atlas", "prot": 30000}, "prot"),
    ],
)
async def test_a_wish_that_makes_no_sense(world: World, body: dict[str, object], said: str) -> None:
    problem = await world.post("/preflights", body, expect=422)
    assert problem["code"] == "invalid_input"
    assert said in problem["detail"]


async def test_what_is_not_there(world: World) -> None:
    await write(world)
    assert (await world.post("/preflights", {"profile": "q", "node": "atlas"}, expect=404))["code"] == "not_found"
    assert (await world.post("/preflights", {"profile": "p", "node": "zeus"}, expect=404))["code"] == "not_found"
    assert (await world.post("/preflights", {"server": "zeus"}, expect=404))["code"] == "not_found"


async def test_a_code_that_does_not_exist_cannot_be_overridden(world: World) -> None:
    await write(world)
    await world.post("/servers", {"name": "one", "profile": "p", "node": "atlas"}, expect=201)
    problem = await world.post("/servers/one/launch", {"override": ["everything"]}, expect=422)
    assert problem["code"] == "invalid_input"


async def test_many_that_ask_at_once_make_the_engine_judge_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(world)
    asked: list[str] = []
    judge_arguments = NodeSession.judge_arguments

    async def counted(self: NodeSession, **request: Any) -> Judgement:
        asked.append(request["python"])
        return await judge_arguments(self, **request)

    monkeypatch.setattr(NodeSession, "judge_arguments", counted)
    await asyncio.gather(*(preflight(world, profile="p", node="atlas") for _ in range(6)))
    assert len(asked) == 1
