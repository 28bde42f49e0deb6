"""What one step a statement is worth: a write of four statements, by aiosqlite alone and by `db/one_step`, in turns.

Beside the writer the event loop is busy with bursts of so many milliseconds, one after the other, as a service that
watches a thousand nodes is while they connect.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiosqlite
from sqlalchemy import text

from service.db import one_step
from service.db.engine import Database

BURSTS_MS = (0, 1, 4)
ROUNDS = 5
ROUND_S = 2.0
STATEMENTS = 4
WAYS: dict[str, Callable[..., Any]] = {"aiosqlite": aiosqlite.connect, "one step": one_step.connect}


async def main() -> None:
    """Measure and print a table."""
    print("| busy for | aiosqlite, median | one step, median | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="vigil-writes-") as directory:
        databases = {name: await _database(Path(directory) / f"{name}.db", way) for name, way in WAYS.items()}
        for burst_ms in BURSTS_MS:
            took_ms: dict[str, list[float]] = {name: [] for name in WAYS}
            for _ in range(ROUNDS):
                for name, database in databases.items():
                    took_ms[name] += await _write_beside(database, burst_ms)
            before, after = (statistics.median(took_ms[name]) for name in WAYS)
            print(f"| {burst_ms} ms | {before:.1f} ms | {after:.1f} ms | {after / before:.2f} |", flush=True)
        for database in databases.values():
            await database.close()


async def _database(path: Path, way: Callable[..., Any]) -> Database:
    one_step.connect = way
    database = Database(f"sqlite+aiosqlite:///{path}")
    async with database.write() as session:
        await session.execute(text("CREATE TABLE word (text TEXT)"))
    return database


async def _write_beside(database: Database, burst_ms: int) -> list[float]:
    stopping = asyncio.Event()
    busy = asyncio.create_task(_be_busy(stopping, burst_ms / 1000)) if burst_ms else None
    took_ms, until = [], time.perf_counter() + ROUND_S
    while time.perf_counter() < until:
        began = time.perf_counter()
        async with database.write() as session:
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
