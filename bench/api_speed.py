"""How fast the API answers, beside the smallest handler of FastAPI, SQLModel and aiosqlite that answers the same bytes.

Asked are a list of N servers and one server, at 1 and at 16 connections: Vigil, the plain handler (plain_api.py), and
the plain handler with its collector calmed, in turn and in rounds, each a process of its own. Once while Vigil has
nothing to do, and once while it watches N servers that change state. Each line has the medians of the rounds, and the
median of the rounds' ratios.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
from fake_nodes import free_port
from fleet_rows import NodeRow
from stage import HERE, Service, busy_s, cpu_s, fake_fleet, print_table, spread, until_known, watched_service
from wire import Wire

OURS = "Vigil"
CONNECTIONS = (1, 16)
SETTLE_S = 5
UP_LIMIT_S = 30


@dataclass(frozen=True)
class Base:
    """A process that is asked."""

    port: int
    pid: int
    prefix: str = ""


Key = tuple[str, str, int]
"""Who is asked, for what, at how many connections."""


@dataclass
class Rounds:
    """What each round measured."""

    rates: dict[Key, list[float]] = field(default_factory=dict)
    took_ms: dict[Key, list[float]] = field(default_factory=dict)
    cpu_ms: dict[Key, list[float]] = field(default_factory=dict)
    """What the process worked in that time, for each request."""

    def add(self, key: Key, took_s: Sequence[float], seconds: float, worked_s: float) -> None:
        """Add a round."""
        self.cpu_ms.setdefault(key, []).append(1000 * worked_s / len(took_s))
        self.rates.setdefault(key, []).append(len(took_s) / seconds)
        self.took_ms.setdefault(key, []).extend(1000 * value for value in took_s)

    def ratio(self, key: Key, other: str) -> float:
        """Return the median of the rounds' ratios of requests a second, to another who was asked the same."""
        pairs = zip(self.rates[key], self.rates[other, *key[1:]], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


async def main() -> None:
    """Measure both and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each is asked in a round")
    parser.add_argument("--only", choices=("quiet", "moving"))
    arguments = parser.parse_args()
    if arguments.only != "moving":
        await _quiet(arguments)
    if arguments.only != "quiet":
        await _moving(arguments)


async def _quiet(arguments: argparse.Namespace) -> None:
    """Ask while no node is watched: their keys are not the pinned ones, so that Vigil waits for an operator."""
    other = " ".join(asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().split()[:2])
    with tempfile.TemporaryDirectory(prefix="vigil-speed-") as name:
        directory = Path(name)
        rows = _rows(arguments.servers)
        async with fake_fleet(directory, rows, pinned=other), watched_service(directory) as service:
            async with Wire(service.port) as wire:
                while len((await wire.get("/api/v1/servers?limit=200&contact=lost")).json()["items"]) < min(
                    arguments.servers, 200
                ):
                    await asyncio.sleep(0.2)
            await _compare("quiet", directory, service, arguments)


async def _moving(arguments: argparse.Namespace) -> None:
    """Ask while every server is watched and changes its state now and then."""
    with tempfile.TemporaryDirectory(prefix="vigil-speed-") as name:
        directory = Path(name)
        async with (
            fake_fleet(directory, _rows(arguments.servers), program="lively_nodes.py") as far,
            watched_service(directory) as service,
        ):
            await until_known(service.child, arguments.servers, time.monotonic())
            far.tell("move")
            await _compare("while servers change state", directory, service, arguments)


def _rows(count: int):  # noqa: ANN202  the maker of rows that fake_fleet wants
    return lambda ports: [NodeRow(f"node-{number:04d}", ports["sound"]) for number in range(count)]


async def _compare(title: str, directory: Path, service: Service, arguments: argparse.Namespace) -> None:
    await asyncio.sleep(SETTLE_S)
    async with Wire(service.port) as wire:
        page = (await wire.get("/api/v1/servers?limit=200")).json()
    items = directory / "items.json"
    items.write_text(json.dumps(page["items"]), "utf-8")
    async with AsyncExitStack() as stack:
        plain = await stack.enter_async_context(_plain(directory, "plain"))
        calm = await stack.enter_async_context(_plain(directory, "calm", "--calm"))
        bases = {OURS: Base(service.port, service.pid, "/api/v1"), "plain": plain, "plain, calmed": calm}
        one = page["items"][len(page["items"]) // 2]["name"]
        paths = {f"list of {len(page['items'])}": "/servers?limit=200", "one": f"/servers/{one}"}
        sizes = {who: {what: await _size(base, path) for what, path in paths.items()} for who, base in bases.items()}
        busy = busy_s()
        began = time.monotonic()
        rounds = await _rounds(bases, paths, arguments)
        load = (busy_s() - busy) / (time.monotonic() - began)
    print(
        f"\n{title}; {os.cpu_count()} cores, {100 * load:.0f} % of one busy with all of it; bytes answered: {sizes}\n"
    )
    _print(rounds, list(bases), list(paths))


async def _rounds(bases: dict[str, Base], paths: dict[str, str], arguments: argparse.Namespace) -> Rounds:
    rounds = Rounds()
    for number in range(-1, arguments.rounds):
        for what, path in paths.items():
            for count in CONNECTIONS:
                for who in sorted(bases, reverse=number % 2 == 1):
                    base = bases[who]
                    worked_s = cpu_s(base.pid)
                    took_s, seconds = await _load(base.port, base.prefix + path, count, arguments.seconds)
                    if number >= 0:  # the first round warms all of them
                        rounds.add((who, what, count), took_s, seconds, cpu_s(base.pid) - worked_s)
    return rounds


async def _load(port: int, path: str, count: int, seconds: float) -> tuple[list[float], float]:
    """Ask over so many connections for so long; returns what each answer took, and the time in all."""
    took_s: list[float] = []
    began = time.perf_counter()

    async def ask() -> None:
        async with Wire(port) as wire:
            while time.perf_counter() - began < seconds:
                answer = await wire.get(path)
                if answer.status != 200:
                    raise RuntimeError(f"{path} was answered with {answer.status}: {answer.body[:200]!r}")
                took_s.append(answer.took_s)

    await asyncio.gather(*(ask() for _ in range(count)))
    return took_s, time.perf_counter() - began


async def _size(base: Base, path: str) -> int:
    async with Wire(base.port) as wire:
        return len((await wire.get(base.prefix + path)).body)


@asynccontextmanager
async def _plain(directory: Path, name: str, *options: str) -> AsyncIterator[Base]:
    """Run the plain handler on what the API shows now; gives where it is."""
    port = free_port()
    argv = [str(HERE / "plain_api.py"), str(directory / "items.json"), str(directory / f"{name}.db"), str(port)]
    process = await asyncio.create_subprocess_exec(sys.executable, *argv, *options)
    try:
        await _until_open(port)
        yield Base(port, process.pid)
    finally:
        process.terminate()
        await process.wait()


async def _until_open(port: int) -> None:
    async with asyncio.timeout(UP_LIMIT_S):
        while True:
            try:
                async with Wire(port):
                    return
            except OSError:
                await asyncio.sleep(0.1)


def _print(rounds: Rounds, who: Sequence[str], what: Sequence[str]) -> None:
    head = ["what", "connections", *(f"{name}: requests/s, p50 / p95 ms, CPU ms" for name in who)]
    lines = [[*head, *(f"to {name}" for name in who if name != OURS)]]
    for thing in what:
        for count in CONNECTIONS:
            cells = [thing, str(count)]
            for name in who:
                took = spread(rounds.took_ms[name, thing, count])
                rate = statistics.median(rounds.rates[name, thing, count])
                worked = statistics.median(rounds.cpu_ms[name, thing, count])
                cells.append(f"{rate:.0f}, {took['p50']:.1f} / {took['p95']:.1f}, {worked:.1f}")
            ratios = (rounds.ratio((OURS, thing, count), name) for name in who if name != OURS)
            lines.append([*cells, *(f"{100 * ratio:.0f} %" for ratio in ratios)])
    print_table(lines)


if __name__ == "__main__":
    asyncio.run(main())
