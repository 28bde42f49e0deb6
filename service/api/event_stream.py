"""Events as server-sent events: from where a reader was, in order, and told when something is missing."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.types import Message, Send

from service.api.limits import STALLED_S, HeldStream
from service.clock import to_text
from service.logs import EventLog
from service.operations.control import Control
from service.operations.event_feed import Wanted, frame, gap_text

KEEP_ALIVE_S = 15.0
RETRY_MS = 2_000
"""When a browser comes back after the connection broke."""
_events = EventLog("api")


class EventStream(HeldStream):
    """The answer to a reader of events."""

    async def stream_response(self, send: Send) -> None:
        """Send what comes; a reader who takes nothing loses his place, and comes back with the id of his last event."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(STALLED_S):
                await send(message)

        try:
            await super().stream_response(send_in_time)
        except TimeoutError:
            _events.warning("event_reader_stalled", after_s=STALLED_S)


async def follow(control: Control, wanted: Wanted, *, after: int | None) -> AsyncGenerator[bytes]:
    """Yield every wanted event after an id, or from now on; it ends with the service.

    Where events are not kept any more, a `gap` says so and it goes on behind it. Comments keep the connection alive and
    carry the id up to which everything was looked at, so that who wants little does not fall behind.
    """
    feed, clock = control.feed, asyncio.get_running_loop().time
    position = feed.newest_id if after is None else after
    yield f": events after {position}\nretry: {RETRY_MS}\nid: {position}\n\n".encode()
    told_s = clock()
    while not feed.is_over:
        stretch = await feed.after(position)
        if stretch.begins_after != position:
            yield frame("gap", stretch.begins_after, gap_text(position, stretch.begins_after, to_text(control.now())))
            position = stretch.begins_after
        if stretch.told:
            position = stretch.told[-1].id
        frames = [told.frame for told in stretch.told if wanted.covers(told)]
        if frames:
            yield b"".join(frames)
            told_s = clock()
        elif clock() - told_s >= KEEP_ALIVE_S:
            yield f": keep-alive\nid: {position}\n\n".encode()
            told_s = clock()
        if not stretch.told:
            await feed.wait(position, timeout_s=max(0.0, KEEP_ALIVE_S - (clock() - told_s)))
