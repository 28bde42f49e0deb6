"""`vigil wait`: one line that lives while a server starts, and an exit code that scripts can use."""

import asyncio
import time
from datetime import datetime
from typing import Any

from rich.console import Console

from service.cli.client import Unreachable, get_json

REACHED, POINTLESS, TIMED_OUT, USAGE = 0, 1, 2, 3
SLICE_S = 1.0
"""The line is drawn anew this often."""
RETRY_S = 1.0
_HTTP_OK, _HTTP_CONFLICT, _HTTP_TIMEOUT = 200, 409, 504


def run(*, url: str, server: str, until: str, timeout_s: float) -> int:
    """Wait for `server` to be `until` and return the exit code; a restart of the service is waited out."""
    console = Console(stderr=True)
    return asyncio.run(_wait(console, url=url, server=server, until=until, timeout_s=timeout_s))


async def _wait(console: Console, *, url: str, server: str, until: str, timeout_s: float) -> int:
    deadline = time.monotonic() + timeout_s
    with console.status(f"{server}: asking") as line:
        while True:
            remaining_s = deadline - time.monotonic()
            slice_s = max(0.0, min(SLICE_S, remaining_s))
            try:
                status, document = await get_json(
                    url, f"/servers/{server}/wait", params={"until": until, "timeout_s": slice_s}, timeout_s=slice_s
                )
            except Unreachable as error:
                if remaining_s <= 0:
                    return _end(console, TIMED_OUT, f"{server}: {error}")
                line.update(f"{server}: {error}; trying again")
                await asyncio.sleep(RETRY_S)
                continue
            if status == _HTTP_OK:
                return _end(
                    console, REACHED, f"{server} is {document['state']} on {document['node']}:{document['port']}"
                )
            if status == _HTTP_CONFLICT:
                return _end(console, POINTLESS, "\n".join([document["detail"], *_cause(document["context"])]))
            if status != _HTTP_TIMEOUT:
                return _end(console, USAGE, f"{document['detail']}. {document['remedy']}")
            if remaining_s <= 0:
                return _end(console, TIMED_OUT, f"the time is up: {describe(document['context']['server'])}")
            line.update(describe(document["context"]["server"]))


def describe(server: dict[str, Any]) -> str:
    """Return what a server does now, in one line: state, phase, n of m, how long."""
    launch = server.get("launch") or {}
    parts = [f"{server['name']}: {server['state']}"]
    if server["state"] == "starting" and launch.get("phase"):
        parts.append(str(launch["phase"]).replace("_", " "))
    progress = launch.get("progress")
    if server["state"] == "starting" and progress:
        parts.append(f"{progress['done']} of {progress['total']} {progress['unit']}")
    parts.append(f"{_age_s(launch.get('phase_started_at') or server['state_since_at']):.0f} s in this phase")
    parts += _outlook(server)
    if server["contact"]["state"] != "ok":
        parts.append(f"contact with {server['node']} {server['contact']['state']}")
    return ", ".join(parts)


def _outlook(server: dict[str, Any]) -> list[str]:
    """Return the time that is left and a verdict that is worth a word."""
    parts = []
    left = server.get("eta")
    if left is not None:
        parts.append(f"ready in {left['remaining_p50_s']:.0f} to {left['remaining_p90_s']:.0f} s")
    verdict = server.get("verdict")
    if verdict is not None and verdict["verdict"] in {"slow", "suspected_hung"}:
        parts.append(verdict["verdict"].replace("_", " "))
    return parts


def _cause(context: dict[str, Any]) -> list[str]:
    """Return cause, evidence and remedy of a failed start, a line each; nothing where none is known."""
    diagnosis = (context.get("server", {}).get("launch") or {}).get("diagnosis")
    if diagnosis is None or context.get("state") != "failed":
        return []
    evidence = [f"  log line {item['line']}: {item['text']}" for item in diagnosis["evidence"]]
    return [
        f"cause: {diagnosis['code']} ({diagnosis['confidence']} confidence)",
        *evidence,
        f"remedy: {diagnosis['remedy']}",
    ]


def _age_s(instant: str) -> float:
    return max(0.0, time.time() - datetime.fromisoformat(instant).timestamp())


def _end(console: Console, code: int, message: str) -> int:
    console.print(message, highlight=False, soft_wrap=True)
    return code
