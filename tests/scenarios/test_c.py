"""The ten-second verdict: an old server was killed, and the new one was "ready after 10 seconds".

True, or an old process that still answered on the port?
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from service.simulator.specs import TINY_LLAMA
from tests.contract.other_engine import other_engine
from tests.scenarios.conftest import Stage, phases, seconds_between, spent_s

NCCL = {
    "NCCL_DEBUG": "WARN",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_IB_DISABLE": "1",
    "NCCL_SHM_DISABLE": "0",
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": "Simple",
    "NCCL_MIN_NCHANNELS": "8",
    "NCCL_SOCKET_IFNAME": "lo",
}
FLAGS = {"disable-cuda-graph": True, "disable-radix-cache": True}
ENVIRONMENT = {**NCCL, "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1", "DUMP_DIR": "/dev/shm/dump"}


def small(stage: Stage, script: str, *, has_special_flags: bool = False) -> dict[str, Any]:
    """Return a recipe for a model whose files can really be read, on two GPUs; with the story's flags or without."""
    flags, environment = (FLAGS, ENVIRONMENT) if has_special_flags else ({}, {})
    return stage.recipe(
        gpu_count=2, server_args={"tp-size": 2, **flags}, env={"VIGIL_SIM_SCRIPT": script, **environment}
    )


def weights(stage: Stage) -> list[Path]:
    return sorted((stage.atlas.models / TINY_LLAMA.name).glob("*.safetensors"))


def drop_from_page_cache(paths: list[Path]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def environment_of(pid: int) -> dict[str, str]:
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


async def test_the_old_one_is_proven_gone_before_the_new_one_with_other_flags_begins(stage: Stage) -> None:
    place = {"gpus": [0, 1], "port": stage.atlas.port_range.start + 5}
    await stage.begin(small(stage, "fast"), server="old", **place)
    old = await stage.get("/servers/old/wait?timeout_s=30")
    await stage.write(small(stage, "scenario_c", has_special_flags=True))
    await stage.post("/servers", {"name": "new", "profile": "kimi", "node": "atlas", **place}, expect=201)
    problem = await stage.post("/servers/new/launch", expect=409)
    assert (problem["code"], problem["context"]["holder"]) == ("port_taken", "old")

    await stage.end("old")
    (verified,) = await stage.transitions("old", reason="stop_verified")
    found = (await stage.get(f"/launches/{old['launch']['id']}"))["leftovers"]
    assert verified["evidence"] == found
    assert (found["processes"], found["gpu"], found["shm"], found["gpu_error"]) == ([], [], [], None)
    assert found["listener"]["owner"] == "none"
    assert max((await stage.used_mib())[:2]) < 1000
    assert not [process for process in stage.atlas.processes() if "launch_server" in process.command]

    await stage.post("/servers/new/launch")
    new = await stage.get("/servers/new/wait?timeout_s=30")
    (requested,) = await stage.transitions("new", reason="launch_requested")
    assert requested["at"] > verified["at"]
    (became_ready,) = await stage.transitions("new", reason="became_ready")
    assert became_ready["evidence"]["listener"] == {"owner": "ours", "pid": new["launch"]["pid"]}
    assert new["launch"]["pid"] != old["launch"]["pid"]

    launch = await stage.launch_of("new")
    assert launch["profile_version"] == 2
    assert {"--disable-cuda-graph", "--disable-radix-cache"} <= set(launch["argv"])
    given = environment_of(new["launch"]["pid"])
    assert ENVIRONMENT.items() <= given.items()
    assert given["VIGIL_LAUNCH_ID"] == launch["id"]


async def test_a_restart_proves_the_end_of_the_one_before(stage: Stage) -> None:
    await stage.begin(small(stage, "scenario_c", has_special_flags=True))
    first = await stage.get("/servers/one/wait?timeout_s=30")
    await stage.post("/servers/one/restart")
    again = await stage.get("/servers/one/wait?timeout_s=30")
    assert (again["launch"]["number"], again["port"]) == (2, first["port"])
    rows = await stage.transitions(subject="server")
    before, after = first["launch"]["id"], again["launch"]["id"]
    assert [(row["reason"], row["launch_id"]) for row in rows] == [
        ("launch_requested", before),
        ("became_ready", before),
        ("stop_requested", before),
        ("stop_verified", before),
        ("launch_requested", after),
        ("became_ready", after),
    ]
    leftovers = (await stage.get(f"/launches/{before}"))["leftovers"]
    assert (leftovers["processes"], leftovers["gpu"], leftovers["shm"]) == ([], [], [])
    (_, became_ready) = await stage.transitions(reason="became_ready")
    assert became_ready["evidence"]["process"]["pid"] == again["launch"]["pid"] != first["launch"]["pid"]


async def test_another_engine_that_answers_on_the_port_makes_nothing_ready(stage: Stage) -> None:
    port = stage.atlas.port_range.start + 6
    recipe = small(stage, "scenario_c")
    with other_engine(port):
        (refused,) = (await stage.refused(recipe, port=port)).values()
        assert refused["code"] == "node_port"
        await stage.begin(recipe, port=port, override=["node_port"])
        failed = await stage.until_state("one", "failed")
    assert failed["launch"]["diagnosis"]["code"] == "port_in_use"
    log = await stage.api.http.get(f"/api/v1/launches/{failed['launch']['id']}/log")
    assert "fired up and ready to roll" in log.text  # the engine warmed the other one up, and believed it
    assert await stage.transitions(reason="became_ready") == []


async def test_a_fast_start_is_believed_for_a_reason(stage: Stage, tmp_path: Path) -> None:
    cold = tmp_path / "cold.json"
    cold.write_text(json.dumps({"time_scale": 0.2, "phases": {"loading_weights": 25, "capturing_graphs": 3}}))
    drop_from_page_cache(weights(stage))
    earlier = ["first", "second", "third"]
    for server in earlier:
        await stage.begin(small(stage, str(cold)), server=server)
    await asyncio.gather(*(stage.get(f"/servers/{server}/wait?timeout_s=30") for server in earlier))
    for path in weights(stage):
        path.read_bytes()
    await stage.begin(small(stage, "scenario_c", has_special_flags=True))
    await stage.get("/servers/one/wait?timeout_s=30")
    launch = await stage.launch_of()
    assert launch["cached_share"] == 1.0
    assert "capturing_graphs" in phases(await stage.launch_of("first"))
    assert "capturing_graphs" not in phases(launch)
    assert spent_s(launch, "loading_weights") < 2 < spent_s(await stage.launch_of("first"), "loading_weights")
    assert seconds_between(launch["created_at"], launch["ready_at"]) < 10

    last = (await stage.get("/profiles/kimi/startup-history?node=atlas"))["last"]
    assert (last["verdict"], last["start_count"]) == ("faster", 3)
    assert last["why"][0].startswith("loading_weights took ")
    assert "100% of the model's files were in the page cache before it" in last["why"][-1]
