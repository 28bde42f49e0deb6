"""What the made-up requests meet: a service with an embedded fleet, and things of each kind."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from service.simulator.demo import node_body
from service.simulator.fleet import EmbeddedFleet
from service.simulator.specs import TINY_LLAMA, NodeSpec
from tests.benchmarks.tool_files import sglang_line
from tests.contract.vigil import Vigil

TOKEN = "an-admin-token-of-the-made-up-requests"  # noqa: S105
SPECS = (NodeSpec(name="atlas", gpu_count=4), NodeSpec(name="borealis", gpu_count=0))
WORKLOAD = {
    "dataset": {"kind": "random_ids", "input_tokens": 16, "output_tokens": 8},
    "load": {"kind": "closed", "concurrency": 2},
    "num_prompts": 4,
}


@contextmanager
def furnished(root: Path) -> Iterator[Vigil]:
    """Give a service that has one thing of each kind at least, under the names of `THINGS`."""
    with _fleet(root / "fleet") as fleet:
        environment = {
            "VIGIL_ACCESS": "token",
            "VIGIL_ADMIN_TOKEN": TOKEN,
            "VIGIL_CONNECT_DEADLINE_S": "2",
            "VIGIL_WEBHOOK_NETWORKS": '["127.0.0.0/8"]',
        }
        command = (sys.executable, "-m", "tests.fuzz.closed_service")
        vigil = Vigil(root / "vigil", environment=environment, command=command)
        vigil.http.headers["Authorization"] = f"Bearer {TOKEN}"
        with vigil:
            known = _furnish(vigil, fleet)
            (root / "known.json").write_text(json.dumps(known))
            yield vigil


@contextmanager
def _fleet(root: Path) -> Iterator[EmbeddedFleet]:
    """Run a fleet on an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fleet")
    thread.start()
    fleet = EmbeddedFleet(root, SPECS, ports_per_node=40)
    try:
        asyncio.run_coroutine_threadsafe(fleet.start(), loop).result(30)
        yield fleet
    finally:
        asyncio.run_coroutine_threadsafe(fleet.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _furnish(vigil: Vigil, fleet: EmbeddedFleet) -> Mapping[str, Any]:
    """Make the things, and return what the hooks of the run must know of them."""
    atlas = fleet.node("atlas")
    recipe = {
        "python": atlas.engine_python,
        "model_path": atlas.model_path(TINY_LLAMA.name),
        "gpu_count": 1,
        "env": {"VIGIL_SIM_SCRIPT": "fast"},
    }
    for node in fleet.nodes:
        vigil.post("/nodes", node_body(node), expect=201)
    for node in fleet.nodes:
        vigil.until("contact is made", partial(_has_contact, vigil, node.name))
    for name in ("steady", "changing"):
        vigil.post("/profiles", {"name": name, "recipe": recipe}, expect=201)
    for name in ("serving", "resting"):
        vigil.post("/servers", {"name": name, "profile": "steady", "node": "atlas"}, expect=201)
    vigil.post("/servers/serving/launch", expect=202)
    vigil.post("/benchmarks", {"name": "small", "workload": WORKLOAD}, expect=201)
    schedule = {"name": "nightly", "server": "serving", "benchmark": "small", "cron": "0 3 * * *", "is_paused": True}
    vigil.post("/schedules", schedule, expect=201)
    vigil.post("/tokens", {"name": "somebody", "role": "viewer"}, expect=201)
    webhook = vigil.post("/webhooks", {"url": "http://127.0.0.1:9/", "kinds": ["finding_began"]}, expect=201)
    webhook_id = webhook["webhook"]["id"]
    delivery = vigil.post(f"/webhooks/{webhook_id}/test", expect=202)
    imported = [import_run(vigil, duration=8.0 + number / 10)["id"] for number in range(3)]
    vigil.put("/profiles/steady/baseline", {"run": imported[0]})
    serving = vigil.wait("serving")
    measured = vigil.post("/benchmark-runs", {"server": "serving", "benchmark": "small"}, expect=202)
    vigil.until("it is measured", lambda: vigil.get(f"/benchmark-runs/{measured['id']}")["state"] == "succeeded")
    return {
        "url": vigil.url,
        "token": TOKEN,
        "node": node_body(atlas),
        "webhook": webhook_id,
        "delivery": delivery["id"],
        "launch": serving["launch"]["id"],
        "runs": imported,
        "measured": measured["id"],
        "operation": measured["operation"]["id"],
    }


def _has_contact(vigil: Vigil, name: str) -> bool:
    return bool(vigil.get(f"/nodes/{name}")["contact"]["state"] == "ok")


def import_run(vigil: Vigil, **changes: Any) -> Any:
    """Import a result file that SGLang's client wrote, with fields changed."""
    answer = vigil.http.post(
        "/api/v1/benchmark-runs/import", params={"profile": "steady"}, content=sglang_line(**changes)
    )
    assert answer.status_code == 201, answer.text
    return answer.json()


def environment_of(root: Path) -> dict[str, str]:
    """Return the environment in which the hooks of a run find this world."""
    return {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "VIGIL_FUZZ_ROOT": str(root),
        "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks",
    }
