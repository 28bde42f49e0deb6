"""A failed start ends with its cause, its proof and a remedy; what a serving engine complains of is a finding."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.simulator.homes import state_dir
from tests.fleet.conftest import World

CRASHES = ["cuda_oom_weights", "cuda_oom_graph_capture", "kv_cache_no_memory", "gpu_kernel_crash", "nccl_timeout"]


@pytest.fixture(autouse=True)
async def atlas(world: World) -> None:
    await world.take_in(world.atlas)


def script(tmp_path: Path, **content: Any) -> str:
    """Write a script for the engine stand-in and return its path."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"time_scale": 0.1, "crash_pause_s": 0.2, **content}))
    return str(path)


@pytest.mark.parametrize("failure", CRASHES)
async def test_a_crash_is_diagnosed(world: World, tmp_path: Path, failure: str) -> None:
    phase = {"cuda_oom_weights": "loading_weights", "kv_cache_no_memory": "allocating_kv_cache"}
    place = {"phase": phase.get(failure, "capturing_graphs"), "step": 1}
    events = [{"do": "crash", "failure": failure, **place}]
    await world.place(script=script(tmp_path, events=events))
    await world.post("/servers/one/launch")
    failed = await world.until_state("one", "failed")
    diagnosis = failed["launch"]["diagnosis"]
    assert diagnosis["code"] == failure
    assert diagnosis["evidence"]
    assert failed["message"].startswith(diagnosis["summary"])
    transition = (await world.get("/transitions?server=one&reason=process_exited"))["items"][0]
    assert transition["evidence"]["diagnosis"] == failure


async def test_an_end_on_request_is_no_failure(world: World) -> None:
    await world.bring_up()
    await world.post("/servers/one/stop")
    stopped = await world.until_state("one", "stopped")
    assert stopped["launch"]["diagnosis"] is None


async def test_a_complaint_is_a_finding_with_a_beginning_and_an_end(world: World, tmp_path: Path) -> None:
    line = "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.1 -> 0.2"
    events = [{"do": "say", "phase": "serving", "after_s": 12.0 * number, "lines": [line]} for number in range(1, 5)]
    await world.bring_up(script=script(tmp_path, events=events))
    found = await world.until("/servers/one", lambda server: server["findings"])
    (finding,) = found["findings"]
    assert (finding["code"], finding["ended_at"]) == ("kv_cache_retract", None)
    assert finding["evidence"][0]["text"].endswith(line)
    assert len((await world.get("/findings?server=one&is_open=true"))["items"]) == 1
    await world.post("/servers/one/stop")
    await world.until_state("one", "stopped")
    assert (await world.get("/findings?server=one&is_open=true"))["items"] == []
    (over,) = (await world.get("/findings?server=one&is_open=false"))["items"]
    assert over["ended_at"] >= over["began_at"]


async def test_a_sick_gpu_is_a_finding_of_its_node_until_it_is_well(world: World) -> None:
    driver = state_dir(world.atlas.home) / "nvidia-smi.json"
    driver.write_text(json.dumps({"cells": {"1": {"temperature.gpu": "[GPU requires reset]"}}}))
    await world.post("/nodes/atlas/refresh", expect=200)
    (finding,) = (await world.get("/findings?node=atlas&is_open=true"))["items"]
    assert finding["code"] == "gpu_hardware_error"
    assert "GPU 1" in finding["summary"]
    driver.unlink()
    await world.post("/nodes/atlas/refresh", expect=200)
    assert (await world.get("/findings?node=atlas&is_open=true"))["items"] == []
