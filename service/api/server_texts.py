"""Servers as JSON, whose recorded part is written once for as long as nothing about it changes."""

import json
from dataclasses import dataclass
from datetime import datetime
from weakref import WeakKeyDictionary

from fastapi.responses import JSONResponse
from pydantic import BaseModel

from service.api.schemas.servers import Look, has_live_phase, look_at, server_public, server_recorded, server_seen
from service.db.paging import Rows
from service.db.servers import ServerRow
from service.operations.live import Live


@dataclass(frozen=True, slots=True)
class _Kept:
    recorded: bytes
    look: Look
    text: bytes


class ServerTexts:
    """Writes what `server_public` shows as JSON.

    `RecordedServers` gives the same row again for as long as it has not changed, so that what follows from the row
    alone is written once, and all of it once for each thing that is seen.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[ServerRow, _Kept] = WeakKeyDictionary()

    def page(self, rows: Rows[ServerRow], live: Live, now: datetime) -> bytes:
        """Return a page of servers."""
        items = b",".join(self.one(row, live, now) for row in rows.items)
        return b'{"items":[%b],"next_cursor":%b}' % (items, json.dumps(rows.next_cursor).encode())

    def one(self, row: ServerRow, live: Live, now: datetime) -> bytes:
        """Return one server."""
        if has_live_phase(row.launch, live):
            return _json(server_public(row, live, now))
        look, kept = look_at(row, live, now), self._kept.get(row)
        if kept is not None and kept.look == look:
            return kept.text
        recorded = kept.recorded if kept is not None else _json(server_recorded(row, live))
        text = b"%b,%b" % (recorded[:-1], _json(server_seen(row, look))[1:])
        self._kept[row] = _Kept(recorded, look, text)
        return text


def _json(document: BaseModel) -> bytes:
    return document.model_dump_json().encode()


class WrittenResponse(JSONResponse):
    """JSON that is written already."""

    def render(self, content: bytes) -> bytes:
        """Return it as it is."""
        return content
