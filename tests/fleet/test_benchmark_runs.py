"""Benchmark runs through the API against the embedded fleet: what is kept, what ends them, what they tell meanwhile."""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from service.benchmarks.results import Result, ResultStatus
from service.benchmarks.runs import RunState
from service.benchmarks.workload import ClosedLoad, FileLayout, GoodputLimits, NodeFile, RandomIds, Workload
from service.db import benchmark_files
from service.db import benchmarks as benchmark_queries
from service.db.benchmark_tables import Benchmark, BenchmarkResult, BenchmarkRun
from service.ids import new_id
from tests.fleet.conftest import World

SMALL = {"dataset": RandomIds(input_tokens=16, output_tokens=8), "load": ClosedLoad(concurrency=2), "num_prompts": 6}
ENDLESS = {**SMALL, "dataset": RandomIds(input_tokens=16, output_tokens=100_000)}


async def define(world: World, name: str = "small", **fields: Any) -> Workload:
    """Write a definition; the route for it has tests of its own."""
    workload = Workload(**{**SMALL, **fields})
    control = world.api.parts.control
    async with control.database.write() as session:
        at = control.now()
        session.add(Benchmark(id=new_id("bm", at), name=name, workload=workload.model_dump(mode="json"), created_at=at))
    return workload


async def start(world: World, benchmark: str = "small", **body: Any) -> Any:
    return await world.post("/benchmark-runs", {"server": "one", "benchmark": benchmark, **body})


async def row_of(world: World, run_id: str) -> BenchmarkRun:
    async with world.api.parts.control.database.read() as session:
        return await benchmark_queries.get_run(session, run_id)


async def results_of(world: World, run_id: str) -> list[BenchmarkResult]:
    """Return the rows whole, in the order of points and repeats."""
    query = select(BenchmarkResult).where(col(BenchmarkResult.run_id) == run_id)
    order = (col(BenchmarkResult.point_index), col(BenchmarkResult.repeat_index))
    async with world.api.parts.control.database.read() as session:
        return list((await session.execute(query.order_by(*order))).scalars())


async def file_of(world: World, run_id: str) -> bytes:
    """Return what is kept of the first file of a run."""
    async with world.api.parts.control.database.read() as session:
        files = await benchmark_files.list_files(session, run_id)
        assert files[0].id is not None
        return await benchmark_files.read_content(session, files[0].id)


async def until_measuring(world: World, run_id: str) -> dict[str, Any]:
    """Wait until the client has sent requests that count; return the progress that is kept."""
    async with asyncio.timeout(30):
        while True:
            progress = (await row_of(world, run_id)).progress
            if progress is not None and progress["stage"] == "measuring":
                return progress
            await asyncio.sleep(0.05)


async def until_ended(world: World, accepted: Any) -> BenchmarkRun:
    """Wait until both the operation and the run have ended."""
    await world.until(f"/operations/{accepted['operation']['id']}", lambda row: row["state"] != "running")
    async with asyncio.timeout(30):
        while (run := await row_of(world, accepted["id"])).state is RunState.RUNNING:
            await asyncio.sleep(0.05)
    return run


def clients_of(run_id: str) -> list[int]:
    """Return the living processes that carry the mark of one of a run's clients."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if f"VIGIL_LAUNCH_ID={run_id}_".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


async def test_a_sweep_with_repeats_is_measured_and_kept(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await define(world, load=ClosedLoad(concurrency=[1, 3]), goodput=GoodputLimits(ttft_ms=60_000))
    accepted = await start(world, repeats=2)
    assert (accepted["steps"], accepted["operation"]["kind"]) == (4, "benchmark")
    run = await until_ended(world, accepted)
    assert (run.state, run.problem) == (RunState.SUCCEEDED, None)
    rows = await results_of(world, run.id)
    assert [(row.point_index, row.repeat_index) for row in rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    results = [Result.model_validate(row.result) for row in rows]
    assert [result.load.max_concurrency for result in results] == [1, 1, 3, 3]
    assert [result.workload.seed for result in results] == [42, 43, 1042, 1043]
    begun = sorted(range(4), key=lambda index: str(results[index].started_at))
    assert begun == [0, 2, 3, 1]  # there, and back
    assert {row.status for row in rows} == {ResultStatus.OK}
    assert [row.comparability_key == rows[0].comparability_key for row in rows] == [True, True, False, False]
    launch = await world.get(f"/launches/{(await world.get('/servers/one'))['launch']['id']}")
    for result in results:
        assert (result.totals.requests_completed, result.rates.slo_attainment) == (6, 1)
        assert result.server.server_instance_id == launch["id"]
        assert result.server.launch_argv == tuple(launch["argv"])
        assert (result.server.profile, result.server.profile_version, result.server.tp) == ("one-profile", 1, 1)
        assert (result.host.gpu_count_used, result.host.other_gpu_processes) == (1, 0)
        assert result.client.argv[1:3] == ("-m", "sglang.benchmark.serving")
    assert_is_the_clients_own(world, run.id, rows[0], json.loads(await file_of(world, run.id)))
    assert run.model == launch["recipe"]["model_path"]
    assert run.provenance is not None
    assert (run.provenance["node_name"], run.provenance["server_name"]) == ("atlas", "one")
    assert run.provenance["host"]["gpu_uuids"] == [gpu["uuid"] for gpu in run.provenance["gpus"]]


def assert_is_the_clients_own(world: World, run_id: str, row: BenchmarkResult, kept: dict[str, Any]) -> None:
    """Compare a result with the file that its client wrote on the node."""
    content = client_file(world, run_id).read_bytes()
    written = json.loads(content)
    result = Result.model_validate(row.result)
    assert result.latencies.ttft_ms is not None
    assert result.latencies.ttft_ms.p99 == written["p99_ttft_ms"]
    assert result.rates.output_throughput_tps == pytest.approx(written["output_throughput"])
    assert kept["p99_ttft_ms"] == written["p99_ttft_ms"]
    assert "generated_texts" not in kept
    assert row.raw_sha256 == result.client.raw_sha256 == hashlib.sha256(content).hexdigest()


def client_file(world: World, run_id: str) -> Path:
    return world.atlas.home / ".vigil" / "launches" / f"{run_id}_0_0" / "work" / "result.jsonl"


async def test_what_happens_meanwhile_is_told_and_kept(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await define(world, dataset=RandomIds(input_tokens=16, output_tokens=150))
    accepted = await start(world, repeats=2)
    run_id = accepted["id"]
    progress = await until_measuring(world, run_id)
    assert (progress["step"], progress["steps"], progress["load"]) == (1, 2, "concurrency 2")
    assert (await world.get("/servers/one"))["state"] == "ready"
    status, problem = await world.api.call("POST", "/benchmark-runs", {"server": "one", "benchmark": "small"})
    assert (status, problem["code"]) == (409, "operation_in_progress")
    run = await until_ended(world, accepted)
    assert run.state is RunState.SUCCEEDED
    first, _ = await results_of(world, run_id)
    assert first.samples is not None
    assert max(sample.get("running_requests") or 0 for sample in first.samples) == 2
    gpus = [sample for sample in first.samples if "gpus" in sample and sample["stage"] == "measuring"]
    result = Result.model_validate(first.result)
    assert result.energy is not None
    assert result.energy.mean_power_w == pytest.approx(gpus[0]["gpus"][0]["power_w"])
    assert result.host.power_limit_w is not None
    log = f"/api/v1/benchmark-runs/{run_id}/log"
    answer = await world.api.http.get(f"{log}?point=0&repeat=0")
    assert "Serving Benchmark Result" in answer.text
    assert answer.headers["X-Benchmark-Client"] == f"{run_id}_0_0"
    assert (await world.api.http.get(f"{log}?tail=3")).headers["X-Benchmark-Client"] == f"{run_id}_0_1"
    for query, expected in (("point=1&repeat=0", 404), ("point=0", 422), ("tail=1&offset=0", 422)):
        assert (await world.api.http.get(f"{log}?{query}")).status_code == expected


async def test_two_servers_are_measured_in_turns(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await world.bring_up("two")
    await define(world)
    status, _ = await world.api.call(
        "POST", "/benchmark-runs", {"server": "one", "against": "one", "benchmark": "small"}
    )
    assert status == 422
    accepted = await start(world, repeats=2, against="two")
    runs = [await until_ended(world, part) for part in (accepted, accepted["against"])]
    assert [run.state for run in runs] == [RunState.SUCCEEDED] * 2
    begun = {
        str(row.result["started_at"]): name
        for name, run in zip("AB", runs, strict=True)
        for row in await results_of(world, run.id)
    }
    assert "".join(begun[at] for at in sorted(begun)) == "ABBA"


async def test_a_run_goes_on_when_the_other_of_a_pair_is_removed(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await world.bring_up("two")
    await define(world, dataset=RandomIds(input_tokens=16, output_tokens=150))
    accepted = await start(world, repeats=2, against="two")
    await until_measuring(world, accepted["id"])
    other = accepted["against"]
    await world.post(f"/operations/{other['operation']['id']}/cancel")
    assert (await until_ended(world, other)).state is RunState.CANCELED
    assert (await world.api.call("DELETE", f"/benchmark-runs/{other['id']}"))[0] == 204
    assert (await until_ended(world, accepted)).state is RunState.SUCCEEDED


async def test_a_canceled_run_leaves_the_server_and_no_client(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await define(world, "endless", **ENDLESS)
    accepted = await start(world, "endless")
    await until_measuring(world, accepted["id"])
    assert clients_of(accepted["id"])
    operation = accepted["operation"]["id"]
    canceled = await world.post(f"/operations/{operation}/cancel")
    assert (canceled["id"], canceled["step"]) == (operation, "canceling")
    run = await until_ended(world, accepted)
    assert run.state is RunState.CANCELED
    assert (await world.get(f"/operations/{operation}"))["state"] == "canceled"
    assert clients_of(accepted["id"]) == []
    status, problem = await world.api.call("POST", f"/operations/{operation}/cancel")
    assert (status, problem["code"]) == (409, "illegal_move")
    assert (await world.get("/servers/one"))["state"] == "ready"
    await define(world)
    again = await until_ended(world, await start(world, repeats=1))
    assert again.state is RunState.SUCCEEDED


async def test_a_restart_and_a_stop_take_the_place_of_a_run(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await define(world, "endless", **ENDLESS)
    for verb, state in (("restart", "ready"), ("stop", "stopped")):
        accepted = await start(world, "endless")
        await until_measuring(world, accepted["id"])
        await world.post(f"/servers/one/{verb}")
        run = await until_ended(world, accepted)
        assert (run.state, (run.problem or {})["code"]) == (RunState.CANCELED, "superseded")
        assert clients_of(accepted["id"]) == []
        await world.until_state("one", state)


async def test_the_end_of_the_server_ends_the_run(world: World) -> None:
    await world.take_in(world.atlas)
    server = await world.bring_up()
    await define(world, "endless", **ENDLESS)
    accepted = await start(world, "endless")
    await until_measuring(world, accepted["id"])
    os.kill(server["launch"]["pid"], signal.SIGKILL)
    await world.until_state("one", "failed")
    run = await until_ended(world, accepted)
    assert run.state is RunState.FAILED
    assert run.problem is not None
    assert clients_of(accepted["id"]) == []


async def test_what_goes_wrong_is_told(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await define(world, "failing", dataset=RandomIds(input_tokens=5000, output_tokens=4))
    run = await until_ended(world, await start(world, "failing", repeats=1))
    assert (run.state, (run.problem or {})["code"]) == (RunState.FAILED, "requests_failed")
    assert "6 of 6 requests failed" in (run.problem or {})["detail"]
    assert "no text came" in (run.problem or {})["detail"]
    (row,) = await results_of(world, run.id)
    assert row.status is ResultStatus.FAILED
    json.dumps(row.result, allow_nan=False)

    garbled = world.atlas.home / "garbled.jsonl"
    garbled.write_text("no prompts\n")
    await define(world, "garbled", dataset=NodeFile(path=str(garbled), layout=FileLayout.CUSTOM))
    accepted = await start(world, "garbled", repeats=3)
    run = await until_ended(world, accepted)
    assert (run.state, (run.problem or {})["code"]) == (RunState.FAILED, "client_failed")
    assert "ended with code 1" in (run.problem or {})["detail"]
    assert "JSONDecodeError" in (run.problem or {})["detail"]
    assert await results_of(world, run.id) == []
    operation = await world.get(f"/operations/{accepted['operation']['id']}")
    assert (operation["state"], operation["problem"]["code"]) == ("failed", "client_failed")

    await define(world, "endless", **ENDLESS, timeout_s=10)
    accepted = await start(world, "endless")
    run = await until_ended(world, accepted)
    assert (run.state, (run.problem or {})["code"]) == (RunState.FAILED, "client_timed_out")
    assert clients_of(accepted["id"]) == []


async def test_prompts_come_from_the_file_that_is_meant(world: World) -> None:
    path = world.atlas.home / "prompts.jsonl"
    path.write_text('{"conversations": [{"value": "a"}, {"value": "b c d e f g h i j"}]}\n' * 6)
    await world.take_in(world.atlas)
    await world.bring_up()
    dataset: dict[str, Any] = {"path": str(path), "layout": "custom", "output_tokens": 4}
    await define(world, "other", dataset=NodeFile(**dataset, sha256="0" * 64))
    refused = await until_ended(world, await start(world, "other", repeats=1))
    assert (refused.state, (refused.problem or {})["code"]) == (RunState.FAILED, "dataset_mismatch")
    await define(world, "absent", dataset=NodeFile(**{**dataset, "path": "/no/such/prompts.jsonl"}))
    absent = await until_ended(world, await start(world, "absent", repeats=1))
    assert (absent.state, (absent.problem or {})["code"]) == (RunState.FAILED, "remote_command_failed")
    await define(world, "right", dataset=NodeFile(**dataset))
    run = await until_ended(world, await start(world, "right", repeats=1))
    (row,) = await results_of(world, run.id)
    assert run.state is RunState.SUCCEEDED
    assert row.result["workload"]["dataset_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


async def test_prompts_that_change_under_a_client_end_it_too(world: World) -> None:
    """The connection drops while the client runs; the file is another one when the step is taken up again."""
    path = world.atlas.home / "prompts.jsonl"
    path.write_text('{"conversations": [{"value": "a"}, {"value": "b c d e f g h i j"}]}\n' * 6)
    await world.take_in(world.atlas)
    await world.bring_up()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    dataset = NodeFile(path=str(path), layout=FileLayout.CUSTOM, output_tokens=100_000, sha256=digest)
    await define(world, "endless", dataset=dataset)
    accepted = await start(world, "endless", repeats=1)
    await until_measuring(world, accepted["id"])
    path.write_text("another file\n")
    world.atlas.drop_connections()
    run = await until_ended(world, accepted)
    assert (run.state, (run.problem or {})["code"]) == (RunState.FAILED, "dataset_mismatch")
    assert clients_of(accepted["id"]) == []


async def test_only_a_ready_server_and_a_known_benchmark_can_be_had(world: World) -> None:
    await world.take_in(world.atlas)
    await world.place()
    body = {"server": "one", "benchmark": "smoke"}
    for wrong, expected in (
        (body, (409, "illegal_move")),
        ({**body, "server": "nobody"}, (404, "not_found")),
        ({**body, "benchmark": "nothing"}, (404, "not_found")),
        ({**body, "repeats": 0}, (422, "invalid_input")),
    ):
        status, problem = await world.api.call("POST", "/benchmark-runs", wrong)
        assert (status, problem["code"]) == expected


async def test_a_secret_of_the_server_is_nowhere_but_on_the_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-fleet-secret-0815"  # noqa: S105  made up here
    monkeypatch.setenv("FLEET_KEY", secret)
    await world.take_in(world.atlas)
    recipe = {**world.recipe(), "secret_args": {"api-key": {"env": "FLEET_KEY"}}}
    await world.post("/profiles", {"name": "locked", "recipe": recipe}, expect=201)
    await world.post("/servers", {"name": "one", "profile": "locked", "node": "atlas", "launch": True}, expect=201)
    await world.until_state("one", "ready")
    await define(world, dataset=RandomIds(input_tokens=16, output_tokens=120))
    accepted = await start(world, repeats=1)
    await until_measuring(world, accepted["id"])
    pids = clients_of(accepted["id"])
    assert pids
    assert not any(secret.encode() in command_line(pid) for pid in pids)
    run = await until_ended(world, accepted)
    assert run.state is RunState.SUCCEEDED, run.problem
    (row,) = await results_of(world, run.id)
    log = await world.api.http.get(f"/api/v1/benchmark-runs/{run.id}/log")
    kept = (await file_of(world, run.id)).decode()
    assert not any(secret in text for text in (json.dumps(row.model_dump(mode="json")), kept, log.text))
    assert '"api_key": "*****"' in kept
    assert secret in client_file(world, run.id).read_text()  # the engine tells its key to whoever has it
    state = world.api.parts.control.settings.resolved_state_dir()
    assert not [path.name for path in state.iterdir() if path.is_file() and secret.encode() in path.read_bytes()]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
