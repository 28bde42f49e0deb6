"""How late Vigil is: from the end of a process to its record, and from the first 200 of /health to `ready`.

Runs on the embedded fleet, the service in a process of its own, `--starts` times (50 by default). What is compared are
instants of one machine: a crash by the kernel's own clock at the kill, ready by a poll of /health every 20 ms.
"""

import argparse
import asyncio
import os
import signal
import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2

from service.simulator.demo import node_body
from service.simulator.fleet import EmbeddedFleet
from service.simulator.specs import TINY_LLAMA, NodeSpec
from tests.contract.vigil import Vigil


async def main() -> None:
    """Run the starts and print both distributions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50)
    starts = parser.parse_args().starts
    with tempfile.TemporaryDirectory(prefix="vigil-bench-") as directory:
        async with EmbeddedFleet(Path(directory) / "fleet", [NodeSpec(name="atlas", gpu_count=1)]) as fleet:
            vigil = Vigil(Path(directory) / "vigil")
            await asyncio.to_thread(vigil.start)
            try:
                ready_s, crash_s = await _measure(vigil, fleet, starts)
            finally:
                await asyncio.to_thread(vigil.__exit__)
    print(f"{starts} starts and crashes on the embedded fleet")
    _print("first 200 of /health -> ready recorded", ready_s)
    _print("SIGKILL of the engine -> failed recorded", crash_s)


async def _measure(vigil: Vigil, fleet: EmbeddedFleet, starts: int) -> tuple[list[float], list[float]]:
    node = fleet.nodes[0]
    ready_s: list[float] = []
    crash_s: list[float] = []
    async with httpx2.AsyncClient(base_url=f"{vigil.url}/api/v1", timeout=60, trust_env=False) as api:
        await _post(api, "/nodes", dict(node_body(node)))
        recipe = {
            "python": node.engine_python,
            "model_path": node.model_path(TINY_LLAMA.name),
            "gpu_count": 1,
            "env": {"VIGIL_SIM_SCRIPT": "fast"},
        }
        await _post(api, "/profiles", {"name": "p", "recipe": recipe})
        await _until(api, "/nodes/atlas", "contact", "state", "ok")
        await _post(api, "/servers", {"name": "one", "profile": "p", "node": "atlas"})
        for _ in range(starts):
            await _post(api, "/servers/one/launch")
            server = (await api.get("/servers/one")).json()
            first_200 = await _first_200(server["port"])
            server = await _until(api, "/servers/one", "state", None, "ready")
            ready_s.append(datetime.fromisoformat(server["state_since_at"]).timestamp() - first_200)
            os.kill(server["launch"]["pid"], signal.SIGKILL)
            killed = time.time()
            server = await _until(api, "/servers/one", "state", None, "failed")
            crash_s.append(datetime.fromisoformat(server["state_since_at"]).timestamp() - killed)
            await _until_clean(api)
    return ready_s, crash_s


async def _first_200(port: int) -> float:
    async with httpx2.AsyncClient(timeout=5, trust_env=False) as engine:
        while True:
            try:
                if (await engine.get(f"http://127.0.0.1:{port}/health")).status_code == 200:
                    return time.time()
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.02)


async def _until(api: httpx2.AsyncClient, path: str, field: str, inner: str | None, wanted: str) -> Any:
    while True:
        document = (await api.get(path)).json()
        value = document[field] if inner is None else document[field][inner]
        if value == wanted:
            return document
        await asyncio.sleep(0.05)


async def _until_clean(api: httpx2.AsyncClient) -> None:
    while (await api.get("/operations", params={"server": "one", "state": "running"})).json()["items"]:
        await asyncio.sleep(0.05)


async def _post(api: httpx2.AsyncClient, path: str, body: object = None) -> None:
    answer = await api.post(path, json=body)
    answer.raise_for_status()


def _print(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p95 = ordered[int(0.95 * (len(ordered) - 1))]
    print(f"  {what}: median {statistics.median(ordered):.2f} s, p95 {p95:.2f} s, most {ordered[-1]:.2f} s")


if __name__ == "__main__":
    asyncio.run(main())
