"""`vigil demo`: the service on an embedded fleet, and a tour of it through the public API."""

import asyncio
import signal
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from service import logs
from service.cli import waiting
from service.cli.serving import server_of
from service.remote.http import open_client
from service.settings import Access, Settings
from service.simulator.demo import demo_fleet, node_body, profile_bodies
from service.simulator.fleet import EmbeddedFleet
from service.simulator.node import SimulatedNode

TOUR_DEADLINE_S = 120
SERVER = "llama"
PROFILE, NODE = "borealis-llama", "borealis"


def run(*, port: int, once: bool) -> int:
    """Run the demo until it is interrupted, or take the tour once; 0 if all went well."""
    console = Console(highlight=False, soft_wrap=True)
    if not _is_free(port):
        console.print(f"port {port} is taken; choose another with --port")
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what it started must not outlive it
    with tempfile.TemporaryDirectory(prefix="vigil-demo-") as root, suppress(KeyboardInterrupt):
        return asyncio.run(_demo(console, Path(root), port=port, once=once))
    return 0


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def _demo(console: Console, root: Path, *, port: int, once: bool) -> int:
    logs.configure("WARNING")
    settings = Settings(access=Access.OPEN, state_dir=root / "state", database_url=None, host="127.0.0.1", port=port)
    async with demo_fleet(root / "fleet") as fleet:
        server = server_of(settings)
        serving = asyncio.create_task(server.serve())
        try:
            while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
                await asyncio.sleep(0.05)
            tour = _Tour(console, f"http://127.0.0.1:{port}", fleet)
            code = await tour.take(to_the_end=once)
            if not once and code == 0:
                tour.invite()
                await serving
            return code
        finally:
            server.should_exit = True
            await serving


class _Tour:
    """What a newcomer would do, one call after the other."""

    def __init__(self, console: Console, url: str, fleet: EmbeddedFleet) -> None:
        self._console = console
        self._url = url
        self._fleet = fleet
        self._http = open_client(f"{url}/api/v1", headers={}, timeout_s=TOUR_DEADLINE_S + 15)

    async def take(self, *, to_the_end: bool) -> int:
        """Take the nodes in, launch a server and wait for it; to the end: use it, stop it, see it gone."""
        async with self._http:
            for node in self._fleet.nodes:
                await self._take_in(node)
            await self._launch()
            if not await self._follow("ready"):
                return 1
            if to_the_end:
                await self._complete()
                await self._post(f"/servers/{SERVER}/stop")
                if not await self._follow("stopped"):
                    return 1
        return 0

    def invite(self) -> None:
        """Say what to try now."""
        self._console.print(
            f"\nVigil answers at {self._url} (routes: {self._url}/docs). Try, in another terminal:\n"
            f"  curl -s {self._url}/api/v1/servers/{SERVER}\n"
            f"  curl -s '{self._url}/api/v1/transitions?server={SERVER}'\n"
            f"  curl -s -X POST {self._url}/api/v1/servers/{SERVER}/restart\n"
            f"  vigil wait {SERVER} --url {self._url}\n"
            "Ctrl-C ends the demo and everything it started."
        )

    async def _take_in(self, node: SimulatedNode) -> None:
        await self._post("/nodes", node_body(node))
        found = await self._until(f"/nodes/{node.name}", lambda document: document["contact"]["state"] == "ok")
        gpus = found["inventory"]["gpus"]
        what = f"{len(gpus)} x {gpus[0]['name']}" if gpus else "no GPUs"
        self._console.print(f"node {node.name}: {what}, host key {found['host_key']['fingerprint']}")

    async def _launch(self) -> None:
        for body in profile_bodies(self._fleet):
            await self._post("/profiles", body)
        await self._post("/servers", {"name": SERVER, "profile": PROFILE, "node": NODE, "launch": True})
        self._console.print(f"server {SERVER}: profile {PROFILE} launched on {NODE}")

    async def _follow(self, until: str) -> bool:
        """Print each phase as it comes; True when the state is reached."""
        last = ""
        deadline = asyncio.get_running_loop().time() + TOUR_DEADLINE_S
        while asyncio.get_running_loop().time() < deadline:
            server = await self._get(f"/servers/{SERVER}")
            if server["state"] == until:
                self._console.print(f"server {SERVER}: {until} ({server['message']})")
                return True
            if server["state"] == "failed":
                self._console.print(f"server {SERVER}: failed: {server['message']}")
                return False
            phase = (server["launch"] or {}).get("phase") or ""
            if phase != last:
                last = phase
                self._console.print(f"  {waiting.describe(server)}")
            await asyncio.sleep(0.1)
        self._console.print(f"server {SERVER}: not {until} within {TOUR_DEADLINE_S} s")
        return False

    async def _complete(self) -> None:
        """Ask the server itself, as its users would; the embedded nodes are on this machine."""
        port = (await self._get(f"/servers/{SERVER}"))["port"]
        async with open_client(f"http://127.0.0.1:{port}", headers={}, timeout_s=30) as http:
            body = {"text": "The capital of France is", "sampling_params": {"max_new_tokens": 8}}
            answer = await http.post("/generate", json=body)
        self._console.print(f"server {SERVER}: a completion answered {answer.status_code}")

    async def _until(self, path: str, is_true: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(TOUR_DEADLINE_S):
            while True:
                document = await self._get(path)
                if is_true(document):
                    return document
                await asyncio.sleep(0.1)

    async def _get(self, path: str) -> Any:
        answer = await self._http.get(path)
        answer.raise_for_status()
        return answer.json()

    async def _post(self, path: str, body: object = None) -> Any:
        answer = await self._http.post(path, json=body)
        answer.raise_for_status()
        return answer.json()
