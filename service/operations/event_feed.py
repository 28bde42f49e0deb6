"""The feed of events: one task reads what is new, once for all; who is behind is served from the database."""

import asyncio
import json
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from service.clock import to_text
from service.db import events as event_queries
from service.db.engine import Database
from service.db.event_tables import Event
from service.logs import EventLog
from service.operations.changes import EVENTS_FED, EVENTS_WRITTEN, Changes
from service.servers.event import EventKind

HELD = 2_000
"""So many of the newest events are held in memory: about 2 MiB."""
READ_AT_ONCE = 500
PAUSE_S = 0.1
"""Between two reads of what is new: what comes in between is told together, after a quiet time at once."""
RETRY_S = 1.0
LOOK_S = 10.0
"""It is looked this often though nobody says that something was written: who wrote may be cut off as he commits."""
_events = EventLog("operations")


@dataclass(frozen=True, slots=True)
class Told:
    """An event as everybody gets it: `text` is its JSON document, `frame` the same as a server-sent event."""

    id: int
    kind: EventKind
    node_id: str
    server_id: str | None
    text: str
    frame: bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wants to be told of; ids, not names. None means all."""

    kinds: frozenset[EventKind] | None = None
    node_id: str | None = None
    server_id: str | None = None

    def covers(self, told: Told) -> bool:
        """Tell whether an event is wanted."""
        return (
            (self.kinds is None or told.kind in self.kinds)
            and (self.node_id is None or told.node_id == self.node_id)
            and (self.server_id is None or told.server_id == self.server_id)
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """What follows an id: `begins_after` is a later one when events in between are not kept any more."""

    begins_after: int
    told: Sequence[Told]


class EventFeed:
    """Serves every event in the order of ids to whoever asks for what follows the last one he has.

    A reader holds nothing here but his own id: a slow one costs a page from the database now and then, and no memory.
    """

    def __init__(self, database: Database, changes: Changes) -> None:
        self._database = database
        self._changes = changes
        self._held: list[Told] = []
        self._newest = 0
        self._held_after = 0
        self._names: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self.is_over = False
        """Whether the service is about to end: those who follow shall come back to the next one."""

    @property
    def newest_id(self) -> int:
        """The id of the last event that was read; 0 before the first."""
        return self._newest

    async def start(self) -> None:
        """Read the newest events, so that who comes back after a restart finds them here, and follow what is new."""
        async with self._database.read() as session:
            _, self._newest = await event_queries.id_range(session)
            self._held_after = max(0, self._newest - HELD)
            while page := await self._page(session, self._last_held()):
                self._hold(page)
                self._newest = page[-1].id
        self._task = asyncio.create_task(self._follow(), name="event feed")

    def end(self) -> None:
        """Let go of all who follow, before the service waits for its requests to end."""
        self.is_over = True
        self._changes.publish(EVENTS_FED)

    async def close(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def after(self, event_id: int) -> Stretch:
        """Return the next events after an id, some hundred at most; none when it is the newest.

        An id that was never given, as after the restore of an old database, is told by a smaller `begins_after`.
        """
        if event_id > self._newest:
            return Stretch(self._newest, ())
        if event_id >= self._held_after:
            start = bisect_right(self._held, event_id, key=lambda told: told.id)
            return Stretch(event_id, self._held[start : start + READ_AT_ONCE])
        async with self._database.read() as session:
            oldest, _ = await event_queries.id_range(session)
            begin = max(event_id, oldest - 1)
            page = await self._page(session, begin)
        return Stretch(begin, [told for told in page if told.id <= self._newest])

    async def wait(self, event_id: int, *, timeout_s: float) -> bool:
        """Wait until there is a newer event than this one, or the feed is over; False when the time was up first."""
        clock = asyncio.get_running_loop().time
        until = clock() + timeout_s
        while True:
            seen = self._changes.count(EVENTS_FED)
            if self._newest > event_id or self.is_over:
                return True
            if not await self._changes.wait([EVENTS_FED], after=seen, timeout_s=until - clock()):
                return False

    async def _follow(self) -> None:
        """Read what is new whenever something was written, and now and then; a fault is logged, and it goes on."""
        seen = -1
        while True:
            await self._changes.wait([EVENTS_WRITTEN], after=seen, timeout_s=LOOK_S)
            seen = self._changes.count(EVENTS_WRITTEN)
            try:
                await self._read_new()
            except Exception:  # noqa: BLE001  whoever follows must not be left alone for one fault
                _events.failure("events_not_read")
                seen -= 1
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(PAUSE_S)

    async def _read_new(self) -> None:
        while True:
            async with self._database.read() as session:
                page = await self._page(session, self._newest)
            if not page:
                return
            self._hold(page)
            self._newest = page[-1].id
            self._changes.publish(EVENTS_FED)

    def _hold(self, page: Sequence[Told]) -> None:
        self._held += page
        excess = len(self._held) - HELD
        if excess > 0:
            self._held_after = self._held[excess - 1].id
            del self._held[:excess]

    def _last_held(self) -> int:
        return self._held[-1].id if self._held else self._held_after

    async def _page(self, session: AsyncSession, event_id: int) -> Sequence[Told]:
        rows = await event_queries.events_after(session, event_id, limit=READ_AT_ONCE)
        unknown = {name for row in rows for name in (row.node_id, row.server_id) if name and name not in self._names}
        await self._learn_names(session, unknown)
        return [self._told(row) for row in rows]

    async def _learn_names(self, session: AsyncSession, ids: Collection[str]) -> None:
        """Learn names once: they never change, and an id is never given to another."""
        if ids:
            self._names.update(await event_queries.names_of(session, ids))

    def _told(self, row: Event) -> Told:
        if row.id is None:
            raise TypeError("an event that was read has an id")
        text = document_text(
            {
                "id": row.id,
                "kind": row.kind,
                "at": to_text(row.at),
                "node_id": row.node_id,
                "node": self._names.get(row.node_id),
                "server_id": row.server_id,
                "server": self._names.get(row.server_id) if row.server_id else None,
                "launch_id": row.launch_id,
                "document": row.document,
            }
        )
        return Told(row.id, row.kind, row.node_id, row.server_id, text, frame(row.kind, row.id, text))


def document_text(document: dict[str, object]) -> str:
    """Return a document as one line of JSON in ASCII: what an engine printed may be no text that UTF-8 can hold."""
    return json.dumps(document, separators=(",", ":"))


def gap_text(after: int, resume_after: int, at_text: str) -> str:
    """Return the document that tells a reader what is missing and from where it goes on."""
    lost = f"the events after {after} up to {resume_after} are not kept any more"
    unknown = f"no event has the id {after}: this is another database, or an older one"
    detail = f"{lost if resume_after > after else unknown}; read the lists for what is so now"
    return document_text({"kind": "gap", "at": at_text, "after": after, "resume_after": resume_after, "detail": detail})


def frame(kind: str, event_id: int, text: str) -> bytes:
    """Return a server-sent event; JSON holds no line break, so its text is one line."""
    return f"id: {event_id}\nevent: {kind}\ndata: {text}\n\n".encode()
