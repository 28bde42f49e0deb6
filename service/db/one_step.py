"""SQLite with one visit to the connection's thread for each statement, where aiosqlite alone makes four.

aiosqlite makes a cursor, executes, fetches and closes in a visit each. A visit waits for the thread, for the
interpreter's lock and for the next turn of the event loop; while the loop is busy that is milliseconds each, and a
transaction of a few statements, during which no other can write, took a tenth of a second.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aiosqlite import Connection


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a statement left."""

    description: Any = None
    """As sqlite3 tells the columns; None where there are no rows to come."""
    rows: Sequence[tuple[Any, ...]] = ()
    rowcount: int = -1
    lastrowid: int | None = None


class OneStepConnection(Connection):
    """A connection whose cursors do all of a statement in one step."""

    def cursor(self) -> "OneStepCursor":  # type: ignore[override]
        """Return a cursor; nothing is asked of the thread yet."""
        return OneStepCursor(self)

    async def carry_out(self, sql: str, parameters: Any, *, is_many: bool = False) -> _Outcome:
        """Execute a statement, or one for each of many sets of parameters, and return what it left."""
        outcome: _Outcome = await self._execute(  # type: ignore[no-untyped-call]
            _carry_out, self._conn, sql, parameters, is_many
        )
        return outcome


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


def connect(path: str, **options: Any) -> OneStepConnection:
    """Return a connection that is open once it was awaited; its thread does not keep the process alive."""
    connection = OneStepConnection(lambda: sqlite3.connect(path, **options), iter_chunk_size=64)
    connection._thread.daemon = True  # noqa: SLF001  as SQLAlchemy does with those that it makes itself
    return connection


def _carry_out(connection: sqlite3.Connection, sql: str, parameters: Any, is_many: bool) -> _Outcome:  # noqa: FBT001
    cursor = connection.cursor()
    try:
        (cursor.executemany if is_many else cursor.execute)(sql, parameters)
        rows = cursor.fetchall() if cursor.description else ()
        return _Outcome(cursor.description, rows, cursor.rowcount, cursor.lastrowid)
    finally:
        cursor.close()
