"""`vigil wait`: one line that lives while a server starts, and an exit code that scripts can use."""

import asyncio
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from service.cli.client import Unreachable, get_json
from service.cli.output import exit_code_of, print_json, printable, problem_line

REACHED, POINTLESS, TIMED_OUT = 0, 1, 2
SLICE_S = 1.0
"""The line is drawn anew this often."""
RETRY_S = 1.0
BAR_CELLS = 20
_HTTP_OK, _HTTP_TIMEOUT = 200, 504
_PASSING = frozenset({429, 500, 502, 503})
"""Answers of a service that is busy or about to be restarted: asking again is the answer to them."""


def run(*, url: str, server: str, until: str, timeout_s: float, as_json: bool = False) -> int:
    """Wait for `server` to be `until` and return the exit code; a restart of the service is waited out."""
    console = Console(stderr=True)
    return asyncio.run(wait(console, url=url, server=server, until=until, timeout_s=timeout_s, as_json=as_json))


async def wait(console: Console, *, url: str, server: str, until: str, timeout_s: float, as_json: bool = False) -> int:
    """Wait, with a live line on the console; as JSON the server is printed as it was at the end."""
    deadline = time.monotonic() + timeout_s
    with console.status(f"{server}: asking") as line:
        while True:
            remaining_s = deadline - time.monotonic()
            slice_s = max(0.0, min(SLICE_S, remaining_s))
            params = {"until": until, "timeout_s": slice_s}
            try:
                status, document = await get_json(url, f"/servers/{server}/wait", params=params, timeout_s=slice_s)
            except Unreachable as error:
                if remaining_s <= 0:
                    return _end(console, TIMED_OUT, f"{server}: {error}")
                line.update(Text(f"{server}: {error}; trying again"))
                await asyncio.sleep(RETRY_S)
                continue
            if status == _HTTP_TIMEOUT and remaining_s > 0:
                line.update(_live(document["context"]["server"]))
                continue
            if status in _PASSING and remaining_s > 0:
                line.update(Text(f"{server}: {problem_line(document)}"))
                await asyncio.sleep(RETRY_S)
                continue
            if as_json and (found := document if status == _HTTP_OK else document.get("context", {}).get("server")):
                print_json(found)
            return _end(console, *_outcome(server, status, document))


def describe(server: Mapping[str, Any]) -> str:
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


def bar(done: int, total: int) -> str:
    """Return how far something has come as a bar of characters that every terminal has."""
    filled = round(BAR_CELLS * min(max(done / total, 0), 1)) if total > 0 else 0
    return f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}]"


def _live(server: dict[str, Any]) -> Text:
    progress = (server.get("launch") or {}).get("progress")
    shown = f"{bar(progress['done'], progress['total'])} " if server["state"] == "starting" and progress else ""
    return Text(printable(shown + describe(server)))


def _outcome(server: str, status: int, document: dict[str, Any]) -> tuple[int, str]:
    """Return the exit code and the words for an answer that ends the wait."""
    match status:
        case 200:
            return REACHED, f"{server} is {document['state']} on {document['node']}:{document['port']}"
        case 409:
            return POINTLESS, "\n".join([document["detail"], *_cause(document["context"])])
        case 504:
            return TIMED_OUT, f"the time is up: {describe(document['context']['server'])}"
        case _:
            return exit_code_of(status), problem_line(document)


def _outlook(server: Mapping[str, Any]) -> list[str]:
    """Return the time that is left and a verdict that is worth a word."""
    parts = []
    left = server.get("eta")
    if left is not None and left["is_overdue"]:
        parts.append("longer than ever before")
    elif left is not None:
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
    console.print(printable(message), markup=False, highlight=False, soft_wrap=True)
    return code
