"""The database: two engines on one SQLite file, or one pool on PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from service.db import one_step, outbox

WRITER_STATEMENTS, READER_STATEMENTS = 128, 32
"""How many prepared statements a connection keeps. One of many joins takes 50 to 100 KiB, and sixteen
readers that kept 128 each went on growing (`bench/soak.py`)."""
READERS_AT_ONCE = 16
"""As many as there are connections to read on; all are kept, since each has a thread of its own."""


@dataclass(slots=True)
class WriteTimes:
    """How the writers of one process fare, since it started."""

    count: int = 0
    waited_s: float = 0.0
    """For their turn, all together."""
    held_s: float = 0.0
    """From the begin of a transaction to the end of its commit, all together: one at a time on SQLite."""


class Database:
    """Sessions to read and sessions to write.

    On SQLite a writer begins with BEGIN IMMEDIATE on the one writing connection: a deferred transaction that
    reads and then writes fails at once with "database is locked" when another wrote meanwhile, and no timeout
    helps (measured: 497 of 800 failed, with IMMEDIATE none). Readers are `query_only`. FULL synchronous keeps what
    was answered with 202 over a loss of power. All sessions of one Database belong to one event loop.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_sqlite = make_url(url).get_backend_name() == "sqlite"
        self._writing = one_step.Writing()
        self._write_engine = _sqlite_engine(url, self._writing) if self.is_sqlite else create_async_engine(url)
        self._read_engine = _sqlite_engine(url, None) if self.is_sqlite else _frozen(self._write_engine)
        self._turn: AbstractAsyncContextManager[None] = asyncio.Lock() if self.is_sqlite else nullcontext()
        self._places: AbstractAsyncContextManager[None] = (
            asyncio.Semaphore(READERS_AT_ONCE) if self.is_sqlite else nullcontext()
        )
        self._write_sessions = async_sessionmaker(self._write_engine, expire_on_commit=False)
        self._read_sessions = async_sessionmaker(self._read_engine, expire_on_commit=False)
        self.write_times = WriteTimes()
        self.on_event: Callable[[], None] | None = None
        """Called after each commit that wrote events."""

    @asynccontextmanager
    async def write(self, *, is_long: bool = False) -> AsyncIterator[AsyncSession]:
        """Open a session in one write transaction: committed at the end of the block, rolled back on an exception.

        Events that were told in it are written with it, as the last thing. `is_long`: its statements touch many rows;
        on SQLite those of all others are carried out on the event loop (`one_step`).
        On SQLite writers take turns in the order they came, for as long as it takes. The pool alone gives up after
        30 s, which a thousand nodes that are met at once exceed, and lets who comes later overtake who waits. A writer
        that opens a second transaction inside its own waits for itself.
        """
        asked_s = perf_counter()
        async with self._turn:
            began_s = perf_counter()
            self._writing.is_long = is_long
            try:
                async with self._write_sessions() as session, session.begin():
                    yield session
                    has_events = await outbox.empty(session)
            finally:
                self._note_times(asked_s, began_s)
        if has_events and self.on_event is not None:
            self.on_event()

    def _note_times(self, asked_s: float, began_s: float) -> None:
        self.write_times.count += 1
        self.write_times.waited_s += began_s - asked_s
        self.write_times.held_s += perf_counter() - began_s

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """Open a session that only reads, on one consistent picture. On SQLite readers queue as writers do."""
        async with self._places, self._read_sessions() as session:
            yield session

    async def close(self) -> None:
        """Close all connections."""
        await self._write_engine.dispose()
        await self._read_engine.dispose()


def prepare_state_dir(directory: Path) -> None:
    """Create the state directory with mode 700 if it is not there."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def _frozen(engine: AsyncEngine) -> AsyncEngine:
    """Return the engine with transactions that see the database as it was when they began, as SQLite's do."""
    return engine.execution_options(isolation_level="REPEATABLE READ")


def _sqlite_engine(url: str, writing: one_step.Writing | None) -> AsyncEngine:
    """Return an engine on an SQLite file.

    The connection used last is used first: each keeps pages of its own, and in turns all sixteen would fill theirs.
    """
    is_writer = writing is not None
    size = 1 if is_writer else READERS_AT_ONCE
    statements = WRITER_STATEMENTS if is_writer else READER_STATEMENTS
    options = {"async_creator_fn": one_step.connect, "cached_statements": statements, "writing": writing}
    engine = create_async_engine(url, connect_args=options, pool_size=size, max_overflow=0, pool_use_lifo=True)

    @event.listens_for(engine.sync_engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        if not is_writer:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql(one_step.BEGIN if is_writer else one_step.BEGIN_TO_READ)

    return engine
