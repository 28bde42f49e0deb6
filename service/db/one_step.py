"""SQLite with at most one visit to the connection's thread for each statement, where aiosqlite alone makes four.

aiosqlite makes a cursor, executes, fetches and closes in a visit each. A visit waits for the thread, for the
interpreter's lock and for the next turn of the event loop; while the loop is busy that is milliseconds each, and a
transaction of a few statements, during which no other can write, took a tenth of a second.

Reading is one visit a statement; to begin and to end is none. The writer, whom all others wait for, visits for what
may take long alone: the commit (the disk), a lock that another process holds, large values, many rows. Its other
statements find or change a row or a few by an index, in less time than a visit takes, and are carried out where they
are asked for.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from aiosqlite import Connection

BEGIN, BEGIN_TO_READ = "BEGIN IMMEDIATE", "BEGIN"
PATIENCE_S = 5.0
"""How long a statement waits for a lock of another process."""
LARGE = 100_000
"""Characters or bytes of a value that takes long to write: up to a millisecond."""


@dataclass(slots=True)
class Writing:
    """What the one writing connection is told of the transaction on it."""

    is_long: bool = False
    """Its statements touch many rows, and so belong in the thread."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a statement left."""

    description: Any = None
    """As sqlite3 tells the columns; None where there are no rows to come."""
    rows: Sequence[tuple[Any, ...]] = ()
    rowcount: int = -1
    lastrowid: int | None = None


class OneStepConnection(Connection):
    """A connection whose cursors do all of a statement in one step, in its thread or, writing, where it is asked for.

    With `writing` it is the connection that writes.
    """

    def __init__(self, path: str, *, writing: Writing | None, **options: Any) -> None:
        options = {**options, "timeout": PATIENCE_S, "check_same_thread": False}
        super().__init__(lambda: sqlite3.connect(path, **options), iter_chunk_size=64)
        self._writing = writing
        self._asked = self._done = 0

    def cursor(self) -> "OneStepCursor":  # type: ignore[override]
        """Return a cursor; nothing is asked of the thread yet."""
        return OneStepCursor(self)

    async def carry_out(self, sql: str, parameters: Any, *, is_many: bool = False) -> _Outcome:
        """Execute a statement, or one for each of many sets of parameters, and return what it left."""
        if sql == BEGIN:
            return await self._begin()
        is_short = sql == BEGIN_TO_READ or (self._is_in_short_write and not is_many and not _is_large(parameters))
        if is_short and self._is_idle:
            return _carry_out(self._conn, sql, parameters)
        return await self._visit(partial(_carry_out, self._conn, sql, parameters, is_many=is_many))

    async def rollback(self) -> None:
        """End the transaction; where it wrote, in the thread. It is asked for after each commit, too."""
        if self._is_idle and (self._writing is None or not self._conn.in_transaction):
            self._conn.rollback()
        else:
            await super().rollback()

    async def _begin(self) -> _Outcome:
        """Begin to write; the thread waits if another process is writing."""
        if self._is_idle:
            try:
                return _begin(self._conn, patience_s=0)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
        return await self._visit(partial(_begin, self._conn, patience_s=PATIENCE_S))

    @property
    def _is_in_short_write(self) -> bool:
        return self._writing is not None and self._conn.in_transaction and not self._writing.is_long

    @property
    def _is_idle(self) -> bool:
        """Whether the thread has done all it was asked for, also by those who were cancelled and do not wait for it.

        A rollback that it has still to do would undo what is written here meanwhile.
        """
        return self._asked == self._done

    async def _visit(self, action: Callable[[], _Outcome]) -> _Outcome:
        outcome: _Outcome = await self._execute(action)
        return outcome

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Have the thread do something, as all visits of aiosqlite are asked for."""
        self._asked += 1
        return await super()._execute(self._counted, partial(fn, *args, **kwargs))  # type: ignore[no-untyped-call]

    def _counted(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        finally:
            self._done += 1


class OneStepCursor:
    """What SQLAlchemy's adapter asks of a cursor. All rows are read at once, as that adapter does, too.

    Nothing is open between two calls: a task that is cancelled in a statement leaves no cursor behind.
    """

    def __init__(self, connection: OneStepConnection) -> None:
        self._connection = connection
        self._outcome = _Outcome()
        self.arraysize = 1

    async def __aenter__(self) -> Self:
        """Give itself: there is nothing to open."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: there is nothing to close."""

    @property
    def description(self) -> Any:
        """The columns of the last statement, or None."""
        return self._outcome.description

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed; -1 where that means nothing."""
        return self._outcome.rowcount

    @property
    def lastrowid(self) -> int | None:
        """The row that the last statement inserted."""
        return self._outcome.lastrowid

    async def execute(self, sql: str, parameters: Iterable[Any] = ()) -> Self:
        """Execute a statement; sqlite3.Error if it fails."""
        self._outcome = await self._connection.carry_out(sql, parameters)
        return self

    async def executemany(self, sql: str, parameters: Iterable[Iterable[Any]]) -> Self:
        """Execute a statement for each set of parameters; sqlite3.Error if one fails."""
        self._outcome = await self._connection.carry_out(sql, parameters, is_many=True)
        return self

    async def fetchall(self) -> Sequence[tuple[Any, ...]]:
        """Return the rows of the last statement."""
        return self._outcome.rows

    async def close(self) -> None:
        """Do nothing: it was closed with its statement."""


def connect(path: str, *, writing: Writing | None = None, **options: Any) -> OneStepConnection:
    """Return a connection that is open once it was awaited; its thread does not keep the process alive."""
    connection = OneStepConnection(path, writing=writing, **options)
    connection._thread.daemon = True  # noqa: SLF001  as SQLAlchemy does with those that it makes itself
    return connection


def _carry_out(connection: sqlite3.Connection, sql: str, parameters: Any, *, is_many: bool = False) -> _Outcome:
    cursor = connection.cursor()
    try:
        (cursor.executemany if is_many else cursor.execute)(sql, parameters)
        rows = cursor.fetchall() if cursor.description else ()
        return _Outcome(cursor.description, rows, cursor.rowcount, cursor.lastrowid)
    finally:
        cursor.close()


def _begin(connection: sqlite3.Connection, *, patience_s: float) -> _Outcome:
    _carry_out(connection, f"PRAGMA busy_timeout={patience_s * 1000:.0f}", ())
    return _carry_out(connection, BEGIN, ())


def _is_large(parameters: Iterable[Any]) -> bool:
    return any(isinstance(value, str | bytes) and len(value) > LARGE for value in parameters)
