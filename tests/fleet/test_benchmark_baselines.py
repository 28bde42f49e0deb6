"""Vigil's own runs, compared by themselves with the baseline of their profile."""

from typing import Any

from tests.fleet.conftest import World

WORKLOAD = {
    "dataset": {"kind": "random_ids", "input_tokens": 16, "output_tokens": 8},
    "load": {"kind": "closed", "concurrency": 2},
    "num_prompts": 6,
}


async def measure(world: World) -> Any:
    """Measure the server and return the ended run."""
    accepted = await world.post("/benchmark-runs", {"server": "one", "benchmark": "small", "repeats": 2})
    await world.until("/operations?server=one&state=running", lambda page: not page["items"])
    return await world.until(f"/benchmark-runs/{accepted['id']}", lambda run: run["state"] != "running")


async def test_a_run_is_compared_with_the_baseline_when_it_ends(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await world.post("/benchmarks", {"name": "small", "workload": WORKLOAD}, expect=201)
    first = await measure(world)
    assert (first["state"], first["baseline"]) == ("succeeded", None)
    status, _ = await world.api.call("PUT", "/profiles/one-profile/baseline", {"run": first["id"]})
    assert status == 200
    second = await measure(world)
    verdict = second["baseline"]
    assert verdict["baseline_run_id"] == first["id"]
    assert verdict["verdict"] in {"improved", "regressed", "equivalent", "inconclusive"}
    (point,) = verdict["points"]
    assert point["load"] == "C=2"
    assert point["candidate"] == second["points"][0]["metrics"]["output_throughput_tps"]
    history = await world.get("/benchmark-history?profile=one-profile")
    assert [item["run"] for item in history["points"]] == [first["id"], second["id"]]
    raw = await world.api.http.get(f"/api/v1/benchmark-runs/{second['id']}/raw")
    assert raw.status_code == 200
    assert len(raw.text.splitlines()) == 2
