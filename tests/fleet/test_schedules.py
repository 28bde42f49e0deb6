"""Turns of schedules against the embedded fleet: a run when the server is ready and idle, else the reason."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import httpx2

from service.operations import scheduling
from tests.fleet.conftest import PATIENCE_S, World

WORKLOAD = {
    "dataset": {"kind": "random_ids", "input_tokens": 16, "output_tokens": 8},
    "load": {"kind": "closed", "concurrency": 2},
    "num_prompts": 6,
}


async def schedule(world: World) -> str:
    """Bring a server up and have it measured by the clock, once a year."""
    await world.take_in(world.atlas)
    await world.bring_up()
    await world.post("/benchmarks", {"name": "small", "workload": WORKLOAD}, expect=201)
    body = {"name": "yearly", "cron": "0 0 1 1 *", "server": "one", "benchmark": "small", "repeats": 2}
    return str((await world.post("/schedules", body, expect=201))["id"])


async def take_turn(world: World, schedule_id: str) -> Any:
    """Take a turn now and return the schedule after it."""
    parts = world.api.parts
    await scheduling.take_turn(parts.control, schedule_id, parts.runner.submit, at=datetime.now(UTC))
    return await world.get("/schedules/yearly")


async def until_idle(world: World) -> None:
    """Wait until the server's counters are known and count no request."""
    await until_running(world, 0)


async def until_running(world: World, count: int) -> None:
    server = await world.get("/servers/one")
    live = world.api.parts.control.live.launches[server["launch"]["id"]]
    async with asyncio.timeout(PATIENCE_S):
        while True:
            counters = live.verdicts.flow.counters if live.verdicts else None
            if counters is not None and counters.running_requests == count:
                return
            await asyncio.sleep(0.05)


async def test_a_turn_begins_a_run_and_the_next_is_skipped_while_it_goes_on(world: World) -> None:
    schedule_id = await schedule(world)
    await until_idle(world)
    begun = await take_turn(world, schedule_id)
    assert (begun["last_skip"], begun["last_skip_detail"]) == (None, None)
    again = await take_turn(world, schedule_id)
    assert again["last_skip"] == "operation_in_progress"
    assert again["last_run_id"] == begun["last_run_id"]
    run = await world.until(f"/benchmark-runs/{begun['last_run_id']}", lambda item: item["state"] != "running")
    assert (run["state"], run["actor"], run["benchmark"], len(run["results"])) == (
        "succeeded",
        "schedule:yearly",
        "small",
        2,
    )
    assert [item["id"] for item in (await world.get("/benchmark-runs?server=one&source=own"))["items"]] == [run["id"]]


async def test_a_server_that_serves_is_not_measured(world: World) -> None:
    schedule_id = await schedule(world)
    await until_idle(world)
    server = await world.get("/servers/one")
    url = f"http://127.0.0.1:{server['port']}/generate"
    long_request = {"text": "x", "sampling_params": {"max_new_tokens": 100_000}, "stream": True}
    async with httpx2.AsyncClient(timeout=60) as client, client.stream("POST", url, json=long_request) as answer:
        assert answer.status_code == 200
        await until_running(world, 1)
        skipped = await take_turn(world, schedule_id)
    assert skipped["last_skip"] == "serving_requests"
    assert "1 requests were running" in skipped["last_skip_detail"]
    assert (await world.get("/benchmark-runs"))["items"] == []


async def test_a_server_or_a_benchmark_that_is_gone_is_told(world: World) -> None:
    schedule_id = await schedule(world)
    await until_idle(world)
    assert (await world.api.call("DELETE", "/benchmarks/small"))[0] == 204
    assert (await take_turn(world, schedule_id))["last_skip"] == "benchmark_gone"
    await world.post("/benchmarks", {"name": "small", "workload": WORKLOAD}, expect=201)
    await world.post("/servers/one/stop")
    await world.get(f"/servers/one/wait?until=stopped&timeout_s={PATIENCE_S}")
    assert (await take_turn(world, schedule_id))["last_skip"] == "not_ready"
    await world.until("/operations?server=one&state=running", lambda page: not page["items"])
    assert (await world.api.call("DELETE", "/servers/one"))[0] == 204
    gone = await take_turn(world, schedule_id)
    assert (gone["last_skip"], gone["server"]) == ("server_gone", "one")
