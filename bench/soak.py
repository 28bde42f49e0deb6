"""Ten minutes of everything at once: servers that change, readers of events, clients that act. Exit 1: a rule broke.

One service as `deploy/vigil.service` runs it, 200 fake nodes over real SSH (lively_nodes.py) whose servers die, turn
silent, come back and lose contact, 100 readers of `GET /events` of which some are slow and some leave and come back
with `Last-Event-ID`, and 20 clients that list, read, wait, launch, stop and restart.
"""

import argparse
import asyncio
import contextlib
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from event_readers import Reader
from fleet_rows import NodeRow
from stage import Service, busy_s, cpu_s, fake_fleet, print_table, spread, until_known, watched_service
from wire import Answer, Wire

LOOK_EVERY_S = 5
WARM_UP_SHARE = 0.3
CATCH_UP_S = 60
COME_BACK_S = (5, 30)
SLOW_PAUSE_S = 0.2
"""A slow reader takes 20 KB a second."""
THINK_S = (0.5, 1.5)
MOST_MIB_A_MINUTE = 1.0
AS_DEPLOYED = {"MALLOC_ARENA_MAX": "2"}
"""With a pool of memory for each thread, free room between them goes on growing: +1.0 MiB a minute instead of 0.3."""
MOST_CONNECTIONS = 17
"""The database's connections: 16 to read and one to write; each has a thread."""
POOL_THREADS = 40
TOLD = {502: "the node", 504: "the node, or a wait whose time is up"}
"""Answers that tell of something else than a fault of the service."""


@dataclass
class Seen:
    """What the clients and the looks at the service saw."""

    took_ms: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    looks: list[dict[str, float]] = field(default_factory=list)


async def main() -> int:
    """Run, print what was seen, and return 1 if a rule broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--clients", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vigil-soak-") as name:
        directory = Path(name)

        def rows(ports: dict[str, int]) -> list[NodeRow]:
            return [NodeRow(f"node-{number:04d}", ports["sound"]) for number in range(arguments.servers)]

        async with (
            fake_fleet(directory, rows, program="lively_nodes.py") as far,
            watched_service(directory, **AS_DEPLOYED) as service,
        ):
            if await until_known(service.child, arguments.servers, time.monotonic()) is None:
                raise RuntimeError("the fleet did not come up")
            far.tell("move")
            return await _soak(directory, service, arguments)


async def _soak(directory: Path, service: Service, arguments: argparse.Namespace) -> int:
    seen = Seen()
    readers = [Reader(pause_s=SLOW_PAUSE_S if number % 5 == 4 else 0.0) for number in range(arguments.readers)]
    first_id = _newest_id(directory)
    stopping = asyncio.Event()
    reading = [
        asyncio.create_task(_read(reader, service.port, first_id, leaves=number % 5 == 3))
        for number, reader in enumerate(readers)
    ]
    clients = [asyncio.create_task(_use(service.port, seen, stopping)) for _ in range(arguments.clients)]
    worked_s, busy, began = cpu_s(service.pid), busy_s(), time.monotonic()
    writes_before = await _writes(service.port)
    while time.monotonic() - began < arguments.seconds:
        await asyncio.sleep(LOOK_EVERY_S)
        seen.looks.append(await _look(service, time.monotonic() - began))
        print(_line(seen.looks[-1]), file=sys.stderr, flush=True)
    wall_s, worked_s = time.monotonic() - began, cpu_s(service.pid) - worked_s
    others_s = busy_s() - busy - worked_s
    cpu = f"CPU {100 * worked_s / wall_s:.0f} % of one core (all else {100 * others_s / wall_s:.0f} %)"
    writes = [after - before for before, after in zip(writes_before, await _writes(service.port), strict=True)]
    stopping.set()
    await asyncio.gather(*clients, return_exceptions=True)  # what ended one early is among the faults
    last_id = _newest_id(directory)
    for reader in readers:
        reader.pause_s = 0.0
    left = await _until_caught_up(readers, last_id)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    broken = [*_wrong_events(readers, first_id, last_id, left), *_grown(seen.looks), *seen.faults[:20]]
    _print(seen, readers, last_id - first_id, cpu, arguments)
    count, waited_s, held_s = writes
    held = f"{1000 * held_s / count:.1f} ms each, {100 * held_s / wall_s:.0f} % of the time"
    waited = f"{1000 * waited_s / count:.1f} ms for their turn"
    print(f"\n{count / wall_s:.0f} writes a second took {held}, after waiting {waited}\n")
    for rule in broken:
        print(f"BROKEN: {rule}")
    return 1 if broken else 0


async def _read(reader: Reader, port: int, first_id: int, *, leaves: bool) -> None:
    """Follow the events from `first_id` on; one who leaves comes back with the id of the last event he has."""
    while True:
        last_id = reader.ids[-1] if reader.ids else first_id
        stay_s = random.uniform(*COME_BACK_S) if leaves else None  # noqa: S311
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(stay_s):
                await reader.read(port, last_event_id=last_id)
        await asyncio.sleep(random.random())  # noqa: S311


async def _use(port: int, seen: Seen, stopping: asyncio.Event) -> None:
    """Do what an operator or a script does, with pauses."""
    async with Wire(port) as wire:
        while not stopping.is_set():
            page = await _ask(wire, seen, "list", "GET", "/servers?limit=200")
            servers = page.json()["items"]
            for _ in range(3):
                await asyncio.sleep(random.uniform(*THINK_S))  # noqa: S311
                name = random.choice(servers)["name"]  # noqa: S311
                await _ask(wire, seen, "one", "GET", f"/servers/{name}")
            await _look_around(wire, seen, random.choice(servers))  # noqa: S311
            await _act(wire, seen, servers)


async def _look_around(wire: Wire, seen: Seen, server: dict[str, Any]) -> None:
    paths = ["/nodes", "/transitions", "/operations", f"/servers/{server['name']}/wait?timeout_s=0.5"]
    if server["launch"]:
        paths += [f"/launches/{server['launch']['id']}", f"/launches/{server['launch']['id']}/log?tail=20"]
    await _ask(wire, seen, "other", "GET", random.choice(paths))  # noqa: S311


async def _act(wire: Wire, seen: Seen, servers: Sequence[dict[str, Any]]) -> None:
    """Launch one that is down; now and then stop or restart one that serves."""
    down = [row for row in servers if row["state"] in {"failed", "stopped"} and not row["operation"]]
    ready = [row for row in servers if row["state"] == "ready"]
    verb = "launch" if down and random.random() < 0.8 else random.choice(["stop", "restart"])  # noqa: S311
    choice = down if verb == "launch" else ready
    if choice:
        path = f"/servers/{random.choice(choice)['name']}/{verb}"  # noqa: S311
        await _ask(wire, seen, verb, "POST", path, f"Idempotency-Key: {uuid4()}\r\n")


async def _ask(wire: Wire, seen: Seen, what: str, method: str, path: str, headers: str = "") -> Answer:
    try:
        answer = await wire.ask(method, f"/api/v1{path}", headers=headers)
    except (OSError, TimeoutError, EOFError, RuntimeError) as error:
        seen.faults.append(f"{method} {path}: {type(error).__name__} {error}")
        raise
    seen.took_ms[what].append(1000 * answer.took_s)
    seen.statuses[what, answer.status] += 1
    if answer.status >= 500 and answer.status not in TOLD:
        seen.faults.append(f"{method} {path} was answered with {answer.status}: {answer.body[:300]!r}")
    return answer


async def _look(service: Service, at_s: float) -> dict[str, float]:
    """Look at what a leak would make grow."""
    links = []
    for path in Path(f"/proc/{service.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            links.append(str(path.readlink()))
    mark = await service.child.ask("mark")
    connections = sum(link.endswith("/vigil.db") for link in links)
    threads = len(list(Path(f"/proc/{service.pid}/task").iterdir()))
    return {
        "at_s": at_s,
        "rss_mib": mark["rss_mib"],
        "tasks": mark["tasks"],
        "database": connections,
        "files": len(links) - sum("/vigil.db" in link for link in links),
        "threads": threads - connections,
    }


async def _writes(port: int) -> list[float]:
    """Return how many writes there were, how long they waited for their turn, and how long they took."""
    async with Wire(port) as wire:
        page = (await wire.ask("GET", "/metrics")).body.decode()
    values = dict(line.split(" ") for line in page.splitlines() if line.startswith("vigil_database_write"))
    return [float(values[f"vigil_database_{name}_total"]) for name in ("writes", "write_wait_seconds", "write_seconds")]


def _line(look: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.0f}" for name, value in look.items())


def _newest_id(directory: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{directory / 'vigil.db'}?mode=ro", uri=True, timeout=10)) as base:
        return int(base.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()[0])


async def _until_caught_up(readers: Sequence[Reader], last_id: int) -> int:
    """Wait until every reader has the last event; returns how many have not."""
    until = time.monotonic() + CATCH_UP_S
    while True:
        left = sum(not reader.ids or reader.ids[-1] < last_id for reader in readers)
        if not left or time.monotonic() > until:
            return left
        await asyncio.sleep(0.1)


def _wrong_events(readers: Sequence[Reader], first_id: int, last_id: int, left: int) -> list[str]:
    """Return what is wrong with what the readers got: ids follow each other, since no write of one was given up."""
    expected = array("q", range(first_id + 1, last_id + 1))
    wrong = sum(reader.ids[: len(expected)] != expected for reader in readers)
    said = [f"{left} readers did not get the last event within {CATCH_UP_S} s"] if left else []
    if not len(expected):
        said.append("nothing happened")
    return [*said, *([f"{wrong} readers lost an event, or got one twice or in another order"] if wrong else [])]


def _grown(looks: Sequence[dict[str, float]]) -> list[str]:
    """Return what has grown since the service was warm."""
    warm = looks[int(WARM_UP_SHARE * len(looks)) :]
    if len(warm) < 3:
        return ["too short to tell whether anything grows"]
    first, last = warm[: max(1, len(warm) // 3)], warm[-max(1, len(warm) // 3) :]
    said = []
    for name, spare in (("tasks", 60), ("files", 20), ("threads", 4)):
        before, after = (statistics.median(look[name] for look in part) for part in (first, last))
        if after > 1.05 * before + spare:
            said.append(f"{name} grew from {before:.0f} to {after:.0f}")
    if (most := max(look["database"] for look in looks)) > MOST_CONNECTIONS:
        said.append(f"the database has {most:.0f} connections")
    if (most := max(look["threads"] for look in looks)) > POOL_THREADS:
        said.append(f"there are {most:.0f} threads beside the database's")
    if (slope := _slope(warm)) > MOST_MIB_A_MINUTE:
        said.append(f"memory grew by {slope:.2f} MiB a minute")
    return said


def _slope(looks: Sequence[dict[str, float]]) -> float:
    """Return by how many MiB a minute the memory grows."""
    return (
        60 * statistics.linear_regression([look["at_s"] for look in looks], [look["rss_mib"] for look in looks]).slope
    )


def _print(seen: Seen, readers: Sequence[Reader], events: int, cpu: str, arguments: argparse.Namespace) -> None:
    looks = seen.looks
    warm = looks[min(int(WARM_UP_SHARE * len(looks)), len(looks) - 1) :]
    quick = [reader for number, reader in enumerate(readers) if number % 5 < 3]
    lags = spread([1000 * lag for reader in quick for lag in reader.lags_s])
    head = ["", "begin", "warm", "end", "most"]
    names = {
        "rss_mib": "memory, MiB",
        "tasks": "tasks",
        "files": "files and sockets",
        "database": "database connections",
    }
    names["threads"] = "other threads"
    table = [head]
    for name, title in names.items():
        values = (looks[0][name], warm[0][name], warm[-1][name], max(look[name] for look in looks))
        table.append([title, *(f"{value:.0f}" for value in values)])
    print(
        f"\n{arguments.seconds:.0f} s, {arguments.servers} servers, {len(readers)} readers, {arguments.clients} clients: "  # noqa: E501
        f"{events} events, {cpu}, memory {_slope(warm):+.2f} MiB a minute once warm; "
        f"lag of an event p50 {lags['p50']:.0f}, p99 {lags['p99']:.0f} ms\n"
    )
    print_table(table)
    print()
    print_table([["", "asked", "p50 / p95 / p99 ms", "answers"], *(_answers(seen, what) for what in seen.took_ms)])


def _answers(seen: Seen, what: str) -> list[str]:
    took = spread(seen.took_ms[what])
    answers = ", ".join(
        f"{count} of {status}" for (name, status), count in sorted(seen.statuses.items()) if name == what
    )
    return [what, str(len(seen.took_ms[what])), f"{took['p50']:.0f} / {took['p95']:.0f} / {took['p99']:.0f}", answers]


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
