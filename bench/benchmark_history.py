"""What a history of 100,000 benchmark runs costs: lists, filters, comparisons and histories over HTTP, on SQLite.

Fills a database with runs of 21 profiles, one of which has two runs in five, each run with one point of load and its
repeats in the canonical schema; then asks the application in this process, so that all of it is in the times but the
network. Prints the median and the 95th percentile of wall time, and of this process' CPU time, and says whether the
promise holds: every question but pictures within 50 ms at p95.
Usage: python bench/benchmark_history.py [--runs 100000] [--repeats 3] [--asks 40]
"""

import argparse
import asyncio
import json
import math
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2

from service.app import create_app
from service.benchmarks.comparability import comparability_key
from service.benchmarks.metrics import metric_values
from service.benchmarks.results import (
    ClientProvenance,
    Distribution,
    HostProvenance,
    ItlKind,
    Latencies,
    LoadFacts,
    LoadMode,
    Rates,
    Result,
    ServerProvenance,
    SpecDecode,
    Totals,
    WorkloadFacts,
)
from service.db import migrating
from service.ids import new_id
from service.settings import Access, Settings

PROMISE_MS = 50.0
PROFILES, SERVERS, MODELS, NAMES = 21, 50, 10, ("smoke", "nightly", "chat-1k-1k", "long", "open")
START = datetime(2024, 1, 1, tzinfo=UTC)
NOISE = 0.02
BATCH = 5000
Row = tuple[Any, ...]


def fill(path: Path, *, runs: int, repeats: int) -> None:
    """Write runs, results and points straight into the tables of an empty database."""
    dice = random.Random(1)  # noqa: S311
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.executemany("INSERT INTO profile VALUES (:id, :name, 1, :at, NULL)", _profiles())
        for first in range(0, runs, BATCH):
            numbers = range(first, min(first + BATCH, runs))
            made = [_made(number, runs, repeats, dice) for number in numbers]
            for table in ("benchmark_run", "benchmark_result", "benchmark_point"):
                rows = [row for item in made for row in item[table]]
                names = list(rows[0])
                marks = ", ".join(f":{name}" for name in names)
                connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", rows)  # noqa: S608
    connection.close()


def _profiles() -> Iterator[dict[str, str]]:
    for number in range(PROFILES):
        yield {"id": f"pr_{number}", "name": f"profile-{number}", "at": _text(START)}


def _made(number: int, runs: int, repeats: int, dice: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of one run; the profile `profile-0` has two runs in five."""
    at = START + timedelta(days=1000) * number / runs
    run_id = new_id("br", at)
    profile = 0 if dice.random() < 0.4 else dice.randrange(1, PROFILES)
    name = NAMES[dice.randrange(len(NAMES))]
    results = [_result(90 * math.exp(dice.gauss(0, NOISE)), name, profile) for _ in range(repeats)]
    keys = {"run_id": run_id, "point_index": 0, "comparability_key": comparability_key(results[0])}
    metrics = metric_values(results[0])
    return {
        "benchmark_run": [_run_row(run_id, at, profile, name, repeats, dice)],
        "benchmark_result": [
            {**keys, "repeat_index": index, "status": "ok", "result": item.model_dump_json(), "unmapped": "{}"}
            | {"notes": "[]"}
            for index, item in enumerate(results)
        ],
        "benchmark_point": [
            {**keys, "profile_id": f"pr_{profile}", "benchmark": name, "at": _text(at), "load": "C=16"}
            | {"version": "0.5.23 v1", "status": "ok", "repeats": repeats, "metrics": json.dumps(metrics)}
        ],
    }


def _run_row(run_id: str, at: datetime, profile: int, name: str, repeats: int, dice: random.Random) -> dict[str, Any]:
    return {
        "id": run_id,
        "benchmark": name,
        "server_id": f"sv_{dice.randrange(SERVERS)}",
        "profile_id": f"pr_{profile}",
        "profile_version": 1,
        "model": f"/models/model-{dice.randrange(MODELS)}",
        "source": "import" if dice.random() < 0.1 else "own",
        "state": "failed" if dice.random() < 0.01 else "succeeded",
        "repeats": repeats,
        "actor": "schedule:nightly",
        "provenance": json.dumps({"launch": {"argv": ["--some-argument", "value"] * 40}}),
        "created_at": _text(at),
        "started_at": _text(at),
        "ended_at": _text(at),
    }


def _result(tps: float, name: str, profile: int) -> Result:
    spread = Distribution(mean=200.0, std=10.0, p50=190.0, p90=250.0, p95=280.0, p99=310.0, max=400.0, n=100)
    return Result(
        client=ClientProvenance(tool="sglang", argv=tuple("--some-argument value" for _ in range(20))),
        server=ServerProvenance(
            engine="sglang",
            engine_version="0.5.23",
            model_id=f"model-of-{profile}",
            launch_argv=tuple("--some-argument value" for _ in range(20)),
            profile=f"profile-{profile}",
            profile_version=1,
        ),
        host=HostProvenance(gpu_model="B200", gpu_count_used=8),
        workload=WorkloadFacts(dataset=name, num_prompts=100, output_tokens_mean=256.0),
        load=LoadFacts(mode=LoadMode.CLOSED, max_concurrency=16),
        totals=Totals(duration_s=60.0, requests_sent=100, requests_completed=100, requests_failed=0),
        rates=Rates(output_throughput_tps=tps, output_throughput_tps_per_gpu=tps / 8, total_throughput_tps=2 * tps),
        latencies=Latencies(ttft_ms=spread, tpot_ms=spread, itl_ms=spread, itl_kind=ItlKind.TOKEN_SPLIT, e2e_ms=spread),
        spec_decode=SpecDecode(accept_length=3.1),
    )


def _text(at: datetime) -> str:
    """Return an instant as SQLite's column holds it."""
    return at.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


async def questions(http: httpx2.AsyncClient) -> dict[str, str]:
    """Return what is asked, by what it is."""
    middle = (await http.get("/benchmark-runs?limit=200")).json()["next_cursor"]
    pair = (await http.get("/benchmark-runs?profile=profile-0&benchmark=nightly&state=succeeded&limit=2")).json()
    first, second = (item["id"] for item in pair["items"])
    sides = f"baseline={second}&candidate={first}"
    return {
        "list, newest 50": "/benchmark-runs",
        "list, newest 200": "/benchmark-runs?limit=200",
        "list, a later page": f"/benchmark-runs?cursor={middle}",
        "filter: big profile": "/benchmark-runs?profile=profile-0",
        "filter: small profile": "/benchmark-runs?profile=profile-7",
        "filter: model": "/benchmark-runs?model=/models/model-3",
        "filter: benchmark": "/benchmark-runs?benchmark=smoke",
        "filter: state": "/benchmark-runs?state=failed",
        "filter: since, few": "/benchmark-runs?since=2026-09-25T00:00:00Z",
        "filter: profile, benchmark, state, since": "/benchmark-runs?profile=profile-0&benchmark=smoke&state=failed"
        "&since=2024-06-01T00:00:00Z",
        "filter: nothing matches": "/benchmark-runs?profile=profile-0&model=/none&benchmark=smoke",
        "filter: big profile, nothing matches": "/benchmark-runs?profile=profile-0&source=import&state=canceled",
        "one run": f"/benchmark-runs/{first}",
        "compare two runs": f"/benchmark-comparisons?{sides}",
        "history, 200 points": "/benchmark-history?profile=profile-0",
        "history of a benchmark": "/benchmark-history?profile=profile-0&benchmark=nightly&metric=ttft_p99_ms",
        "history of a small profile": "/benchmark-history?profile=profile-7",
        "picture: history": "/benchmark-history/plot.svg?profile=profile-0",
        "picture: comparison": f"/benchmark-comparisons/plot.svg?{sides}",
    }


async def ask(http: httpx2.AsyncClient, path: str, asks: int) -> tuple[list[float], list[float]]:
    """Return the times of a question in milliseconds, on the wall and of this process' CPU, after a first try."""
    walls, cpus = [], []
    for number in range(asks + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        answer = await http.get(path)
        taken = time.perf_counter() - wall, time.process_time() - cpu
        assert answer.status_code == 200, answer.text
        if number:
            walls.append(1000 * taken[0])
            cpus.append(1000 * taken[1])
    return walls, cpus


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile by the nearest rank."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


async def measure(state_dir: Path, asks: int) -> bool:
    """Print the times; True when the promise holds."""
    app = create_app(Settings(access=Access.OPEN, state_dir=state_dir))
    holds = True
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v1", timeout=60) as http:
            print(f"{'question':<42}{'p50 ms':>9}{'p95 ms':>9}{'CPU p50':>9}{'CPU p95':>9}")
            for name, path in (await questions(http)).items():
                walls, cpus = await ask(http, path, asks)
                numbers = [quantile(values, share) for values in (walls, cpus) for share in (0.5, 0.95)]
                print(f"{name:<42}" + "".join(f"{number:>9.1f}" for number in numbers))
                holds = holds and (numbers[1] <= PROMISE_MS or name.startswith("picture"))
    return holds


def main() -> int:
    """Fill, ask, print; 1 when the promise does not hold."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=100_000)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--asks", type=int, default=40)
    options.add_argument("--state-dir", type=Path, help="keep the database there, or use the one that is there")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="vigil-bench-") as directory:
        state_dir = given.state_dir or Path(directory)
        path = state_dir / "vigil.db"
        if not path.exists():
            state_dir.mkdir(parents=True, exist_ok=True)
            migrating.upgrade(f"sqlite+aiosqlite:///{path}")
            began = time.perf_counter()
            fill(path, runs=given.runs, repeats=given.repeats)
            print(f"{given.runs} runs of {given.repeats} repeats in {time.perf_counter() - began:.0f} s, ", end="")
        print(f"{path.stat().st_size / 2**20:.0f} MiB")
        holds = asyncio.run(measure(state_dir, given.asks))
    print(f"every question within {PROMISE_MS:g} ms at p95: {'yes' if holds else 'NO'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
