"""Servers with their surroundings, read in one statement; made into values anew only where something has changed."""

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Select, select, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col
from sqlmodel import select as select_rows

from service.db.fields import Table
from service.db.paging import PageRequest, Rows, page_of, page_query
from service.db.servers import (
    LEFT_OUT,
    NODE_COLUMNS,
    ServerFilter,
    ServerRow,
    filtered,
    joined,
    named,
    no_server,
    rows_of,
)
from service.db.tables import Server

MOST_KNOWN = 5_000
"""So many servers are remembered at most; each takes some 10 KiB."""
Raw = tuple[tuple[Any, ...], ...]
"""All that is stored of one server and its surroundings, as the driver gives it."""


@dataclass(frozen=True, slots=True)
class _Known:
    raw: Raw
    row: ServerRow


class RecordedServers:
    """Reads servers and remembers what it made of them; who reads the same again gets the same object.

    Making 200 servers of their columns takes ten times as long as reading those columns. So they are read whole each
    time, in one statement and as the driver gives them, and compared with what they were: nothing has to be told to
    forget, and what another process wrote is seen as well. Only what differs is read again as objects, in the same
    session and so from the same picture of the database.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    async def page(self, session: AsyncSession, request: PageRequest, wanted: ServerFilter) -> Rows[ServerRow]:
        """Return a page of servers, newest first."""
        raws = await _read(session, page_query(filtered(select_rows(col(Server.id)), wanted), col(Server.id), request))
        page = page_of(list(raws), request, str)
        rows = await self._rows(session, {server_id: raws[server_id] for server_id in page.items})
        return Rows(rows, page.next_cursor)

    async def one(self, session: AsyncSession, name_or_id: str) -> ServerRow:
        """Return the server with this name or id; NotFound if there is none."""
        raws = await _read(session, named(select_rows(col(Server.id)), name_or_id))
        if not raws:
            raise no_server(name_or_id)
        (row,) = await self._rows(session, raws)
        return row

    async def _rows(self, session: AsyncSession, raws: dict[str, Raw]) -> list[ServerRow]:
        known = {server_id: self._known.get(server_id) for server_id in raws}
        rows = {server_id: item.row for server_id, item in known.items() if item and item.raw == raws[server_id]}
        changed = [server_id for server_id in raws if server_id not in rows]
        if changed:
            if len(self._known) + len(changed) > MOST_KNOWN:
                self._known.clear()
            for row in await rows_of(session, changed):
                rows[row.server.id] = row
                self._known[row.server.id] = _Known(raws[row.server.id], row)
        return [rows[server_id] for server_id in raws]


async def _read(session: AsyncSession, wanted: Select[Any]) -> dict[str, Raw]:
    """Return what is stored of the servers whose ids `wanted` gives, newest first; one with findings has more rows."""
    connection = await session.connection()
    rows = await connection.execute(_STATEMENT.where(_ID.in_(wanted)))
    return {server_id: tuple(map(tuple, same)) for server_id, same in groupby(rows.all(), key=itemgetter(0))}


def _statement() -> Select[Any]:
    """Return the query of all that is stored.

    The columns are text, so that nothing makes them into what they mean: the ORM would make objects, and SQLAlchemy
    values. Their names in the result are those of many tables; they are told apart by their places.
    """
    tables = [Table.metadata.tables[name] for name in _TABLES]
    brief = [column.expression for column in NODE_COLUMNS]
    columns = [_ID, *brief, *(column for table in tables for column in table.c if column.name not in LEFT_OUT)]
    return joined(select(text(", ".join(str(column) for column in columns))))


_TABLES = ("server", "profile", "launch", "operation", "finding", "acceptance_sample")
_ID = Table.metadata.tables["server"].c.id
_STATEMENT = _statement()
