"""What one request may take: the size and time of its body, and how many waits and streams there are at once."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Self

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from service.access.roles import Caller
from service.errors import BodyTooSlow, InvalidInput, TooLarge, TooManyStreams, Unauthenticated

EVENT_STREAM = "text/event-stream"
GOODBYE_S = 5
STALLED_S = 60.0
"""Who takes nothing of an answer for so long is cut off, whether he is gone or does not read."""


async def with_body(request: Request, *, limit_bytes: int, deadline_s: float) -> Request:
    """Return the same request with its body read: TooLarge or BodyTooSlow as soon as it is."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit_bytes:
        raise TooLarge(f"the body has {declared} bytes; at most {limit_bytes} are taken")
    body = bytearray()
    try:
        async with asyncio.timeout(deadline_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit_bytes:
                    raise TooLarge(f"the body has more than {limit_bytes} bytes")
    except TimeoutError:
        raise BodyTooSlow(f"after {deadline_s:g} s only {len(body)} bytes of the body had arrived") from None
    except ClientDisconnect:
        raise InvalidInput("the body was cut off") from None
    return Request(request.scope, _again(bytes(body), request.receive))


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives the body first, and then what comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Message:
        return messages.pop() if messages else await receive()

    return give


class Seats:
    """Counts waits and streams, of each caller and of all, and ends those of a caller who may call no more."""

    def __init__(self, *, most: int, most_per_caller: int) -> None:
        self._most = most
        self._most_per_caller = most_per_caller
        self._taken: dict[str, set[Seat]] = defaultdict(set)

    def take(self, caller: Caller, now: datetime) -> "Seat":
        """Return a seat, to be entered with `async with` at once; TooManyStreams if there is none left."""
        mine = len(self._taken.get(caller.key, ()))
        if mine >= self._most_per_caller:
            raise TooManyStreams(f"{caller.actor} holds {mine} waits and streams, as many as one may")
        if self.count() >= self._most:
            raise TooManyStreams(f"there are {self._most} waits and streams, as many as there may be")
        left_s = (caller.expires_at - now).total_seconds() if caller.expires_at is not None else None
        seat = Seat(self, caller.key, left_s)
        self._taken[caller.key].add(seat)
        return seat

    def count(self) -> int:
        """Return how many are taken."""
        return sum(len(seats) for seats in self._taken.values())

    def end(self, key: str) -> None:
        """End what a caller holds, because his token was revoked."""
        for seat in tuple(self._taken.get(key, ())):
            seat.end()

    def leave(self, seat: "Seat", key: str) -> None:
        """Take a seat back."""
        self._taken[key].discard(seat)
        if not self._taken[key]:
            del self._taken[key]


class Seat:
    """One wait or stream; what runs in it ends with Unauthenticated when the token is revoked or expires."""

    def __init__(self, seats: Seats, key: str, left_s: float | None) -> None:
        self._seats = seats
        self._key = key
        self._timeout = asyncio.timeout(left_s)
        self._is_over = False
        self._is_entered = False

    def end(self) -> None:
        """End what runs in it."""
        self._is_over = True
        if self._is_entered:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._is_entered = True
        if self._is_over:
            self.end()
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._is_entered = False
        self._seats.leave(self, self._key)
        try:
            await self._timeout.__aexit__(*raised)  # type: ignore[arg-type]
        except TimeoutError:
            raise Unauthenticated("the token was revoked or has expired meanwhile") from None


class HeldDownload(StreamingResponse):
    """An answer that sits on a seat for as long as its reader takes; cut off when the token ends."""

    media_type = "application/octet-stream"

    def __init__(self, content: AsyncGenerator[bytes], seat: Seat, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(content, headers=headers)
        self._content = content
        self._seat = seat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the content; if the token ends first, the rest is not sent."""
        try:
            async with self._seat:
                await super().__call__(scope, receive, send)
        except Unauthenticated as error:
            await self._end_early(send, error)
        finally:
            await self._content.aclose()

    async def _end_early(self, send: Send, error: Unauthenticated) -> None:
        """Leave the reader to see that it is not whole, since its last chunk is missing."""


class HeldStream(HeldDownload):
    """A stream of server-sent events that sits on a seat for as long as it lasts."""

    media_type = EVENT_STREAM

    def __init__(self, events: AsyncGenerator[bytes], seat: Seat, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(events, seat, headers={"Cache-Control": "no-cache", **(headers or {})})

    async def _end_early(self, send: Send, error: Unauthenticated) -> None:
        """Say why in an `error` event, and end the stream as it should."""
        last = f'event: error\ndata: {{"code": "{error.code}", "detail": "{error.detail}"}}\n\n'
        with suppress(TimeoutError):  # a reader who takes nothing is not waited for
            async with asyncio.timeout(GOODBYE_S):
                await send({"type": "http.response.body", "body": last.encode(), "more_body": False})
