"""Benchmark runs by the real engine's own client, through the API: a server on the CPU, the tiny model."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.vigil import Vigil
from tests.engine.conftest import VERSIONS, EngineSite
from tests.engine.engines import installed
from tests.sshd import Sshd

pytestmark = pytest.mark.engine

RUN_S = 600
BASE: dict[str, Any] = {
    "dataset": {"kind": "random_ids", "input_tokens": 24, "output_tokens": 12},
    "load": {"kind": "closed", "concurrency": 2},
    "num_prompts": 10,
    "timeout_s": 400,
}
LATENCIES = {"ttft_ms": "ttft", "tpot_ms": "tpot", "itl_ms": "itl", "e2e_ms": "e2e_latency"}


class Bench:
    """A real server under a running Vigil, and what these tests ask of it."""

    def __init__(self, vigil: Vigil, site: EngineSite) -> None:
        self.vigil = vigil
        self.site = site
        self._count = 0

    def start(self, *, repeats: int = 1, **fields: Any) -> Any:
        """Define a workload and start a run of it; returns what the request was answered."""
        self._count += 1
        name = f"workload-{self._count}"
        self.vigil.post("/benchmarks", {"name": name, "workload": {**BASE, **fields}}, expect=201)
        body = {"server": "one", "benchmark": name, "repeats": repeats}
        return self.vigil.post("/benchmark-runs", body, expect=202)

    def ended(self, accepted: Any) -> Any:
        """Wait for the end of a run and return it."""

        def has_ended() -> Any:
            run = self.vigil.get(f"/benchmark-runs/{accepted['id']}")
            return run if run["state"] != "running" else None

        return self.vigil.until("the run has ended", has_ended, deadline_s=RUN_S)

    def results(self, run: Any) -> list[Any]:
        """Return the results of a run in the order of points and repeats."""
        rows = self.vigil.get(f"/benchmark-runs/{run['id']}/results")["items"]
        rows.sort(key=lambda row: (row["point_index"], row["repeat_index"]))
        return [row["result"] for row in rows]

    def until_measuring(self, accepted: Any, *, answered: int) -> None:
        """Wait until a run measures and so many requests were answered."""

        def is_measuring() -> bool:
            progress = self.vigil.get(f"/benchmark-runs/{accepted['id']}")["progress"]
            return bool(progress) and progress["stage"] == "measuring" and progress["done"] >= answered

        self.vigil.until("it measures", is_measuring, deadline_s=240)

    def clients(self, accepted: Any) -> list[Path]:
        """Return the directories of a run's clients on the node."""
        launches = self.site.sshd.home / ".vigil" / "launches"
        return sorted(path for path in launches.iterdir() if path.name.startswith(f"{accepted['id']}_"))

    def alive(self, accepted: Any) -> list[int]:
        """Return the processes of a run's clients."""
        mark = f"VIGIL_LAUNCH_ID={accepted['id']}_".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found


@pytest.fixture(scope="module", params=VERSIONS)
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    root = tmp_path_factory.mktemp("bench")
    engine = installed(request.param)
    with Sshd(root / "sshd") as sshd, Vigil(root / "vigil") as vigil:
        site = EngineSite(engine, sshd)
        vigil.post("/nodes", site.node(), expect=201)
        vigil.until_contact(site.name)
        vigil.post("/profiles", {"name": "tiny", "recipe": site.recipe()}, expect=201)
        vigil.post("/servers", {"name": "one", "profile": "tiny", "node": site.name, "launch": True}, expect=201)
        vigil.wait("one", timeout_s=site.start_s)
        yield Bench(vigil, site)
        vigil.post("/servers/one/stop", expect=202)
        vigil.wait("one", until="stopped")


def test_three_repeats_give_the_numbers_of_the_clients_own_files(bench: Bench) -> None:
    accepted = bench.start(repeats=3)
    run = bench.ended(accepted)
    assert (run["state"], run["problem"]) == ("succeeded", None)
    results = bench.results(run)
    clients = bench.clients(accepted)
    assert len(results) == len(clients) == 3
    for repeat, (result, client) in enumerate(zip(results, clients, strict=True)):
        (line,) = (client / "work" / "result.jsonl").read_text().splitlines()
        written = json.loads(line)
        assert result["repeat_index"] == repeat
        assert result["workload"]["seed"] == 42 + repeat
        assert result["totals"]["requests_completed"] == written["completed"] == 10
        assert result["totals"]["output_tokens"] == written["total_output_tokens"] == 120
        assert result["totals"]["duration_s"] == written["duration"]
        assert result["rates"]["output_throughput_tps"] == pytest.approx(written["output_throughput"])
        assert result["rates"]["request_throughput_rps"] == pytest.approx(written["request_throughput"])
        assert result["rates"]["mean_concurrency"] == pytest.approx(written["concurrency"])
        for name, label in LATENCIES.items():
            for statistic, prefix in (("mean", "mean"), ("p50", "median"), ("p99", "p99")):
                assert result["latencies"][name][statistic] == written[f"{prefix}_{label}_ms"]
        assert result["server"]["engine_version"] == bench.site.engine.version
        assert result["server"]["model_path"] == str(bench.site.engine.model)
        assert result["server"]["tp"] == 1
    assert len({result["server"]["server_instance_id"] for result in results}) == 1
    log = bench.vigil.http.get(f"/api/v1/benchmark-runs/{accepted['id']}/log", params={"point": 0, "repeat": 2})
    assert "Serving Benchmark Result" in log.text


def test_a_sweep_of_three_concurrencies(bench: Bench) -> None:
    run = bench.ended(bench.start(load={"kind": "closed", "concurrency": [1, 2, 4]}))
    assert run["state"] == "succeeded"
    results = bench.results(run)
    assert [result["load"]["max_concurrency"] for result in results] == [1, 2, 4]
    seen = [result["rates"]["mean_concurrency"] for result in results]
    assert seen == sorted(seen)
    assert seen[0] <= 1.01


def test_a_canceled_run(bench: Bench) -> None:
    accepted = bench.start(num_prompts=5000, repeats=2)
    bench.until_measuring(accepted, answered=0)
    assert bench.alive(accepted)
    began = time.monotonic()
    bench.vigil.post(f"/operations/{accepted['operation']['id']}/cancel", expect=202)
    run = bench.ended(accepted)
    assert time.monotonic() - began < 30
    assert (run["state"], bench.results(run)) == ("canceled", [])
    assert bench.alive(accepted) == []
    assert bench.vigil.get("/servers/one")["state"] == "ready"


def test_requests_that_all_fail(bench: Bench) -> None:
    dataset = {**BASE["dataset"], "input_tokens": 3000}
    run = bench.ended(bench.start(dataset=dataset))
    assert (run["state"], run["problem"]["code"]) == ("failed", "requests_failed")
    assert "no text came" in run["problem"]["detail"]  # though the client counts ten answers and ends with 0
    (result,) = bench.results(run)
    assert (result["status"], result["totals"]["requests_failed"]) == ("failed", 10)


def test_requests_of_which_some_fail(bench: Bench) -> None:
    path = bench.site.sshd.home / "prompts.jsonl"
    long = "word " * 3000
    lines = [
        {"conversations": [{"value": "a short one" if number % 2 else long}, {"value": "an answer of some words"}]}
        for number in range(10)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    dataset = {"kind": "file", "path": str(path), "layout": "custom", "output_tokens": 8}
    run = bench.ended(bench.start(dataset=dataset, warmup_requests=0))
    assert (run["state"], run["problem"]["code"]) == ("degraded", "requests_failed")
    (result,) = bench.results(run)
    totals = result["totals"]
    assert (result["status"], totals["requests_completed"], totals["requests_failed"]) == ("degraded", 5, 5)


def test_a_client_that_fails(bench: Bench) -> None:
    path = bench.site.sshd.home / "garbled.jsonl"
    path.write_text("no prompts\n")
    dataset = {"kind": "file", "path": str(path), "layout": "custom", "output_tokens": 8}
    run = bench.ended(bench.start(dataset=dataset, repeats=2))
    assert (run["state"], run["problem"]["code"], bench.results(run)) == ("failed", "client_failed", [])
    assert "ended with code 1" in run["problem"]["detail"]


def test_a_control_plane_killed_in_the_middle_of_a_run(bench: Bench) -> None:
    accepted = bench.start(num_prompts=60, repeats=2)
    bench.until_measuring(accepted, answered=1)
    (client,) = bench.clients(accepted)
    pid = int((client / "pid").read_text().split()[0])
    bench.vigil.kill()
    assert pid in bench.alive(accepted)
    time.sleep(3)
    bench.vigil.start()
    run = bench.ended(accepted)
    assert (run["state"], run["problem"]) == ("succeeded", None)
    results = bench.results(run)
    assert [result["repeat_index"] for result in results] == [0, 1]
    for result, folder in zip(results, bench.clients(accepted), strict=True):
        (line,) = (folder / "work" / "result.jsonl").read_text().splitlines()
        assert result["totals"]["duration_s"] == json.loads(line)["duration"]
    operation = bench.vigil.get(f"/operations/{accepted['operation']['id']}")
    assert (operation["state"], operation["kind"]) == ("succeeded", "benchmark")
