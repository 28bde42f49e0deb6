"""Follows the log of a launch as server-sent events: what is there from the node, what comes from the observer."""

import json
from collections.abc import AsyncGenerator

from service.db.tables import Launch
from service.errors import RemoteError
from service.operations.control import Control
from service.remote.node import NodeSession

FIRST_LINES = 50
PING_S = 15
IDLE_READ_S = 2.0


async def follow(control: Control, remote: NodeSession, launch: Launch, *, start: int | None) -> AsyncGenerator[bytes]:
    """Yield events whose id is the offset after their text; `start` None begins with the last lines.

    Ends with an `end` event once the launch has ended and all of its log was sent, or with an `error` event that
    says why the node cannot be read: the reader resumes with the last id.
    """
    offset = start
    idle_s = 0.0
    while True:
        key = f"log {launch.id}"
        seen = control.changes.count(key)
        try:
            data, next_offset = await _next_bytes(control, remote, launch, offset)
        except RemoteError as error:
            yield _event("error", {"code": error.code, "detail": error.detail}, offset or 0)
            return
        offset = next_offset
        if data:
            idle_s = 0.0
            yield _event("log", data.decode("utf-8", "replace"), next_offset)
            continue
        if await _has_ended(control, launch):
            yield _event("end", {}, next_offset)
            return
        if not await control.changes.wait([key], after=seen, timeout_s=IDLE_READ_S):
            idle_s += IDLE_READ_S
            if idle_s >= PING_S:
                idle_s = 0.0
                yield b": ping\n\n"


async def _next_bytes(control: Control, remote: NodeSession, launch: Launch, offset: int | None) -> tuple[bytes, int]:
    """Return the bytes after `offset` and where they end; from memory where the observer has just sent them."""
    if offset is None:
        part = await remote.read_log(launch.id, tail_lines=FIRST_LINES)
        return part.data, part.next_offset
    live = control.live.launches.get(launch.id)
    if live is not None:
        recent = live.recent_log.since(offset)
        if recent is not None:
            return recent, offset + len(recent)
    part = await remote.read_log(launch.id, offset=offset)
    return part.data, part.next_offset


async def _has_ended(control: Control, launch: Launch) -> bool:
    """Tell whether nothing more will come: the launch ended and its remains were looked at."""
    async with control.database.read() as session:
        row = await session.get(Launch, launch.id)
    return row is None or (row.ended_at is not None and launch.id not in control.live.launches)


def _event(kind: str, payload: object, offset: int) -> bytes:
    return f"event: {kind}\nid: {offset}\ndata: {json.dumps(payload)}\n\n".encode()
