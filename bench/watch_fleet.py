"""What watching a fleet costs: one service, N nodes with a ready server each, one in twenty of them dead.

For each N in a fresh service: how long until every living node's facts are known and every dead one is told, what a
quiet half minute costs and how old the facts are in it, how long lists take meanwhile, and how fast the API tells the
cause when a node's port is closed, its login refused or its host key another. The nodes are played by one other
process (fake_nodes.py). `--profile FILE` has py-spy (which must be installed) look at the service in the quiet time.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from fake_nodes import free_port
from fleet_rows import NodeRow
from stage import CONNECT_LIMIT_S, Child, busy_s, cpu_s, fake_fleet, spread, until_known, watched_service

DEAD_SHARE = 0.05
CAUSES = {
    "closed": ("node_unreachable", "no connection to"),
    "refused": ("authentication_refused", "refused the login"),
    "changed": ("host_key_changed", "not the pinned one"),
}
"""What the API must say of each fault: the code, and words of the detail."""
TOLD_LIMIT_S = 15
SETTLE_S = 3
LIST_EVERY_S = 0.2


async def main() -> None:
    """Measure each N and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=int, nargs="*", default=[50, 200, 1000], metavar="N")
    parser.add_argument("--seconds", type=float, default=30, help="how long each quiet time is")
    parser.add_argument("--log-every-s", type=int, default=5, help="how often a server logs a line")
    parser.add_argument("--profile", type=Path, help="where py-spy writes what the service did, by stack")
    parser.add_argument("--json", type=Path, help="where the figures go, as lines of JSON")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for count in arguments.counts:
        row = await _measure(count, arguments)
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        if arguments.json:
            arguments.json.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    _print(rows)


async def _measure(count: int, arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="vigil-fleet-") as name:
        directory = Path(name)
        dead = 0

        def rows(ports: dict[str, int]) -> list[NodeRow]:
            nonlocal dead
            nodes, dead = _nodes(count, ports)
            return nodes

        async with fake_fleet(directory, rows, "--log-every-s", str(arguments.log_every_s)) as far:
            return await _watch(directory, far, arguments, alive=count - dead, dead=dead)


def _nodes(count: int, ports: dict[str, int]) -> tuple[list[NodeRow], int]:
    """Return `count` nodes, the dead ones spread among them, with one to break in each way among the living."""
    dead = round(count * DEAD_SHARE)
    closed_port = free_port()
    every = count // dead if dead else count + 1
    rows = [
        NodeRow(f"dead-{number:04d}", closed_port)
        if number % every == every - 1 and number // every < dead
        else NodeRow(f"node-{number:04d}", ports["sound"])
        for number in range(count - len(CAUSES))
    ]
    dead = sum(row.port == closed_port for row in rows)
    return [*rows, *(NodeRow(fault, ports[fault]) for fault in CAUSES)], dead


async def _watch(
    directory: Path, far: Child, arguments: argparse.Namespace, *, alive: int, dead: int
) -> dict[str, Any]:
    row: dict[str, Any] = {"nodes": alive + dead, "dead": dead}
    async with (
        watched_service(directory) as site,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{site.port}/api/v1", timeout=120, trust_env=False) as api,
    ):
        service, began = site.child, time.monotonic()
        row["known_s"] = await until_known(service, alive, began)
        row["dead_told_s"] = await _until_dead_told(api, dead, began)
        row["connecting"] = await service.ask("mark")
        row["false_losses"] = await _false_losses(api)
        await asyncio.sleep(SETTLE_S)
        await service.ask("mark")
        row["others_cores"] = -busy_s() / arguments.seconds
        row["far_cores"] = -cpu_s(far.process.pid) / arguments.seconds
        await _quiet(service.process.pid, arguments)
        row["quiet"] = await service.ask("mark")
        row["far_cores"] += cpu_s(far.process.pid) / arguments.seconds
        row["others_cores"] += busy_s() / arguments.seconds - row["far_cores"]
        row["others_cores"] -= row["quiet"]["cpu_s"] / row["quiet"]["wall_s"]
        row["lists"] = await _lists(api, arguments.seconds / 2)
        row["listing"] = await service.ask("mark")
        row["told_s"] = {fault: await _told(api, far, fault) for fault in CAUSES}
    return row


async def _until_dead_told(api: httpx2.AsyncClient, dead: int, began: float) -> float | None:
    """Return when the API said of every dead node that contact is lost; None if that took too long."""
    while time.monotonic() - began < 2 * CONNECT_LIMIT_S:
        with suppress(httpx2.TimeoutException):
            if len(await _pages(api, "/servers", contact="lost")) >= dead:
                return time.monotonic() - began
        await asyncio.sleep(0.1)
    return None


async def _false_losses(api: httpx2.AsyncClient) -> int:
    """Return how often contact with a living node was said to be lost."""
    names = {row["id"]: row["name"] for row in await _pages(api, "/nodes")}
    rows = await _pages(api, "/transitions", reason="contact_lost")
    return sum(not names[row["node_id"]].startswith("dead") for row in rows)


async def _quiet(pid: int, arguments: argparse.Namespace) -> None:
    """Let time pass, with py-spy looking on if that is wanted."""
    if not arguments.profile:
        await asyncio.sleep(arguments.seconds)
        return
    options = ["--duration", str(int(arguments.seconds)), "--rate", "200", "--format", "raw", "--nonblocking"]
    argv = ["py-spy", "record", "--pid", str(pid), *options, "--output", str(arguments.profile)]
    spy = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await spy.wait()


async def _lists(api: httpx2.AsyncClient, seconds: float) -> dict[str, Any]:
    """Return how long a page of 200 servers takes, and how old the facts on it are when they arrive."""
    took_s: list[float] = []
    ages_s: list[float] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        began = time.monotonic()
        answer = await api.get("/servers", params={"limit": 200, "contact": "ok"})
        took_s.append(time.monotonic() - began)
        now = datetime.now(UTC)
        seen = [row["observed_at"] for row in answer.raise_for_status().json()["items"]]
        ages_s += [(now - datetime.fromisoformat(instant)).total_seconds() for instant in seen if instant]
        await asyncio.sleep(LIST_EVERY_S)
    return {"count": len(took_s), "took_ms": spread([1000 * value for value in took_s]), "age_s": spread(ages_s)}


async def _told(api: httpx2.AsyncClient, far: Child, fault: str) -> float | None:
    """Break a node in one way, and return how long it takes until the API names that cause; None if it does not."""
    code, words = CAUSES[fault]
    began = time.monotonic()
    far.tell(f"break {fault}")
    while time.monotonic() - began < TOLD_LIMIT_S:
        contact = (await api.get(f"/nodes/{fault}")).raise_for_status().json()["contact"]
        if contact["state"] == "lost" and contact["code"] == code and words in contact["detail"]:
            return time.monotonic() - began
        await asyncio.sleep(0.05)
    return None


async def _pages(api: httpx2.AsyncClient, path: str, **filters: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await api.get(path, params={"limit": 200, **filters, **cursor})
        page = answer.raise_for_status().json()
        rows += page["items"]
        if page["next_cursor"] is None:
            return rows
        cursor = {"cursor": page["next_cursor"]}


def _print(rows: list[dict[str, Any]]) -> None:
    print(f"\n{os.cpu_count()} cores; CPU in % of one core; `others`: what else this machine did in the quiet time")
    lines = [list(_cells(row)) for row in rows[:1]] + [list(_cells(row).values()) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """Return a line of the table, by column."""
    quiet, lists = row["quiet"], row["lists"]["took_ms"]
    return {
        "nodes": str(row["nodes"]),
        "dead": str(row["dead"]),
        "all known s": _figure(row["known_s"], 1),
        "dead told s": _figure(row["dead_told_s"], 1),
        "false losses": str(row["false_losses"]),
        "CPU": _figure(100 * _share(quiet), 1),
        "ms/node/s": _figure(1000 * _share(quiet) / row["nodes"], 2),
        "MiB": _figure(quiet["rss_mib"], 0),
        "age p50 s": _figure(quiet["age_s"]["p50"], 2),
        "p99": _figure(quiet["age_s"]["p99"], 2),
        "lag p99 ms": _figure(1000 * quiet["lag_s"]["p99"], 0),
        "gc most ms": _figure(1000 * quiet["collecting_s"]["most"], 0),
        "list p50 ms": _figure(lists["p50"], 0),
        "p95": _figure(lists["p95"], 0),
        "others": _figure(100 * row["others_cores"], 0),
        **{f"{fault} told s": _figure(row["told_s"][fault], 1) for fault in CAUSES},
    }


def _share(measured: dict[str, Any]) -> float:
    share: float = measured["cpu_s"] / measured["wall_s"]
    return share


def _figure(value: float | None, digits: int) -> str:
    return "never" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    asyncio.run(main())
