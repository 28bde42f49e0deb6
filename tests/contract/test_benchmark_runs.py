"""Benchmark runs outlive the service, and the command that asks for them tells scripts how they ended."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.site import Site
from tests.contract.test_commands import vigil_command
from tests.contract.vigil import Vigil

WORKLOAD = {
    "dataset": {"kind": "random_ids", "input_tokens": 16, "output_tokens": 60},
    "load": {"kind": "closed", "concurrency": 2},
    "num_prompts": 8,
}


@pytest.fixture
def vigil(tmp_path: Path, site: Site) -> Iterator[Vigil]:
    with Vigil(tmp_path / "vigil") as service:
        service.post("/nodes", site.node(), expect=201)
        service.until_contact(site.name)
        service.post("/profiles", {"name": "tiny", "recipe": site.recipe()}, expect=201)
        service.post("/servers", {"name": "one", "profile": "tiny", "node": site.name, "launch": True}, expect=201)
        service.wait("one", timeout_s=site.start_s)
        service.post("/benchmarks", {"name": "small", "workload": WORKLOAD}, expect=201)
        yield service
        service.http.post("/api/v1/servers/one/stop")
        service.until_at_rest("one")


def progress_of(vigil: Vigil, run_id: str) -> dict[str, Any]:
    return dict(vigil.get(f"/benchmark-runs/{run_id}")["progress"] or {})


def test_a_run_goes_on_while_the_service_is_dead_and_is_recorded_once(vigil: Vigil) -> None:
    body = {"server": "one", "benchmark": "small", "repeats": 3}
    accepted = vigil.post("/benchmark-runs", body, expect=202, key="once")
    run_id = accepted["id"]
    vigil.until("it measures", lambda: progress_of(vigil, run_id).get("stage") == "measuring")
    vigil.kill()
    vigil.start()
    run = vigil.until(
        "the run has ended",
        lambda: found if (found := vigil.get(f"/benchmark-runs/{run_id}"))["state"] != "running" else None,
        deadline_s=90,
    )
    assert (run["state"], run["problem"], run["actor"]) == ("succeeded", None, accepted["operation"]["actor"])
    assert [repeat["repeat_index"] for repeat in run["results"]] == [0, 1, 2]
    assert len({file["sha256"] for file in run["files"]}) == 3
    assert [point["repeats"] for point in run["points"]] == [3]
    assert vigil.get(f"/operations/{accepted['operation']['id']}")["state"] == "succeeded"
    assert vigil.post("/benchmark-runs", body, expect=202, key="once") == accepted
    assert len(vigil.get("/benchmark-runs")["items"]) == 1


def test_the_command_waits_and_says_how_it_ended(vigil: Vigil) -> None:
    done = vigil_command("bench", "run", "one", "small", "--repeats", "1", "--wait", url=vigil.url)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "succeeded" in done.stdout
    assert "output_throughput_tps" in done.stdout
    too_long = {**WORKLOAD, "dataset": {**WORKLOAD["dataset"], "input_tokens": 9000}}  # type: ignore[dict-item]
    vigil.post("/benchmarks", {"name": "too-long", "workload": too_long}, expect=201)
    failed = vigil_command("bench", "run", "one", "too-long", "--wait", "--json", url=vigil.url)
    assert (failed.returncode, json.loads(failed.stdout)["state"]) == (1, "failed"), failed.stderr
    begun = vigil_command("bench", "run", "one", "small", url=vigil.url)
    assert (begun.returncode, "5 clients" in begun.stdout) == (0, True)
    refused = vigil_command("bench", "run", "one", "small", url=vigil.url)
    assert (refused.returncode, "operation_in_progress" in refused.stderr) == (1, True)
    unknown = vigil_command("bench", "run", "one", "nothing", url=vigil.url)
    assert (unknown.returncode, "not_found" in unknown.stderr) == (3, True)
