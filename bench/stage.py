"""The processes of a bench that watches a fleet: fake nodes, and a service as `vigil serve` runs it."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncssh
from fake_nodes import free_port
from fleet_rows import NodeRow, write_fleet

HERE = Path(__file__).parent
CONNECT_LIMIT_S = 180
END_LIMIT_S = 20


@dataclass(frozen=True, slots=True)
class Child:
    """A process that is told words and answers lines of JSON."""

    process: asyncio.subprocess.Process

    async def ask(self, word: str) -> Any:
        """Say a word and return the answer."""
        self.tell(word)
        return await self.read()

    def tell(self, word: str) -> None:
        """Say a word that has no answer."""
        if self.process.stdin is None:
            raise RuntimeError("the process has no input")
        self.process.stdin.write(word.encode() + b"\n")

    async def read(self) -> Any:
        """Return its next line."""
        if self.process.stdout is None:
            raise RuntimeError("the process has no output")
        return json.loads(await self.process.stdout.readline())


@dataclass(frozen=True, slots=True)
class Service:
    """A service of its own process, and where it listens."""

    child: Child
    port: int

    @property
    def pid(self) -> int:
        """The process."""
        return self.child.process.pid


@asynccontextmanager
async def child(argv: Sequence[str], settings: dict[str, str]) -> AsyncIterator[Child]:
    """Run a Python program that ends when its input does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *argv, env={**os.environ, **settings}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield Child(process)
    finally:
        if process.stdin:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_LIMIT_S)
        except TimeoutError:
            process.kill()
            await process.wait()


@asynccontextmanager
async def fake_fleet(
    directory: Path,
    rows: Callable[[dict[str, int]], Sequence[NodeRow]],
    *options: str,
    pinned: str | None = None,
    program: str = "fake_nodes.py",
) -> AsyncIterator[Child]:
    """Play nodes, and write into a new database of `directory` that they are known with a ready server each.

    `rows` makes them of the ports that were opened, by fault. `pinned` is another host key than theirs,
    `program` who plays them.
    """
    key = asyncssh.generate_private_key("ssh-ed25519")
    key_file = directory / "key"
    key.write_private_key(str(key_file))
    key_file.chmod(0o600)
    key.write_public_key(str(directory / "key.pub"))
    async with child([str(HERE / program), "--client-key", str(directory / "key.pub"), *options], {}) as far:
        said = await far.read()
        url = f"sqlite+aiosqlite:///{directory / 'vigil.db'}"
        host_key = pinned or said["host_key"]
        await write_fleet(url, rows(said["ports"]), key_file=key_file, host_key=host_key, now=datetime.now(UTC))
        yield far


@asynccontextmanager
async def watched_service(directory: Path, **more: str) -> AsyncIterator[Service]:
    """Run the service on the database of `directory`, with further settings; it is up when it is given."""
    port = free_port()
    settings = {
        "VIGIL_STATE_DIR": str(directory),
        "VIGIL_PORT": str(port),
        "VIGIL_LOG_LEVEL": "ERROR",
        "VIGIL_ACCESS": "open",
    }
    async with child([str(HERE / "watched_service.py")], {**settings, **more}) as said:
        while not (await said.ask("seen"))["is_up"]:
            await asyncio.sleep(0.05)
        yield Service(said, port)


async def until_known(service: Child, alive: int, began: float) -> float | None:
    """Return after how long the facts of so many launches were known; None if that took too long."""
    while (await service.ask("seen"))["seen"] < alive:
        if time.monotonic() - began > CONNECT_LIMIT_S:
            return None
        await asyncio.sleep(0.1)
    return time.monotonic() - began


def cpu_s(pid: int) -> float:
    """Return the seconds that a process has worked."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_s() -> float:
    """Return the seconds that all cores of this machine have worked, whoever they worked for."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = Path("/proc/stat").read_text("ascii").split()[1:9]
    return sum(map(int, (user, nice, system, irq, softirq))) / os.sysconf("SC_CLK_TCK")


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the tail and the most of what was measured."""
    ordered = sorted(values)
    return {
        "p50": statistics.median(ordered),
        "p95": ordered[int(0.95 * (len(ordered) - 1))],
        "p99": ordered[int(0.99 * (len(ordered) - 1))],
        "most": ordered[-1],
    }


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table of Markdown, the first of them its head."""
    head, *rest = rows
    for row in (head, ["---"] * len(head), *rest):
        print("| " + " | ".join(row) + " |", flush=True)
