"""What fewer visits to the thread are worth: a write of four statements by aiosqlite alone, and by `db/one_step`.

In turns: aiosqlite's four visits a statement, with the interpreter's own switching and with the service's, one visit a
statement (as a long transaction), and none but the commit.

Beside the writer the event loop is busy with bursts of so many milliseconds, one after the other, as a service that
watches a thousand nodes is while they connect.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosqlite
from sqlalchemy import text

from service.app import SWITCH_INTERVAL_S
from service.db import one_step
from service.db.engine import Database

BURSTS_MS = (0, 1, 4)
ROUNDS = 3
ROUND_S = 2.0
STATEMENTS = 4


@dataclass(frozen=True, slots=True)
class Way:
    """How a transaction is carried out."""

    connect: Callable[..., Any]
    is_long: bool
    switch_s: float = SWITCH_INTERVAL_S
    """After how long a thread that waits for the interpreter may have it."""


def _connect_plainly(path: str, *, writing: one_step.Writing | None, **options: Any) -> Any:
    del writing  # all its statements are carried out in the thread
    connection = aiosqlite.connect(path, **options)
    connection._thread.daemon = True  # noqa: SLF001
    return connection


WAYS = {
    "aiosqlite": Way(_connect_plainly, is_long=True, switch_s=sys.getswitchinterval()),
    "aiosqlite, switching soon": Way(_connect_plainly, is_long=True),
    "a visit each": Way(one_step.connect, is_long=True),
    "on the loop": Way(one_step.connect, is_long=False),
}


async def main() -> None:
    """Measure and print a table."""
    print(f"| busy for | {' | '.join(f'{name}, median' for name in WAYS)} | ratio |\n|{'---|' * (len(WAYS) + 2)}")
    with tempfile.TemporaryDirectory(prefix="vigil-writes-") as directory:
        databases = {name: await _database(Path(directory) / f"{name}.db", way.connect) for name, way in WAYS.items()}
        for burst_ms in BURSTS_MS:
            took_ms: dict[str, list[float]] = {name: [] for name in WAYS}
            for _ in range(ROUNDS):
                for name, database in databases.items():
                    took_ms[name] += await _write_beside(database, burst_ms, WAYS[name])
            medians = [statistics.median(took_ms[name]) for name in WAYS]
            cells = " | ".join(f"{median:.1f} ms" for median in medians)
            print(f"| {burst_ms} ms | {cells} | {medians[-1] / medians[0]:.2f} |", flush=True)
        for database in databases.values():
            await database.close()


async def _database(path: Path, connect: Callable[..., Any]) -> Database:
    one_step.connect = connect
    database = Database(f"sqlite+aiosqlite:///{path}")
    async with database.write() as session:
        await session.execute(text("CREATE TABLE word (text TEXT)"))
    return database


async def _write_beside(database: Database, burst_ms: int, way: Way) -> list[float]:
    sys.setswitchinterval(way.switch_s)
    stopping = asyncio.Event()
    busy = asyncio.create_task(_be_busy(stopping, burst_ms / 1000)) if burst_ms else None
    took_ms, until = [], time.perf_counter() + ROUND_S
    while time.perf_counter() < until:
        began = time.perf_counter()
        async with database.write(is_long=way.is_long) as session:
            for _ in range(STATEMENTS):
                await session.execute(text("INSERT INTO word VALUES ('a')"))
        took_ms.append(1000 * (time.perf_counter() - began))
    stopping.set()
    if busy is not None:
        await busy
    return took_ms


async def _be_busy(stopping: asyncio.Event, burst_s: float) -> None:
    while not stopping.is_set():
        until = time.perf_counter() + burst_s
        while time.perf_counter() < until:
            pass
        await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(main())
