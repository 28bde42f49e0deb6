"""Follows a stream of server-sent events through restarts of the service, each time from where it was."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from service.cli.asking import Refused
from service.cli.client import Unreachable, check_origin
from service.cli.credentials import headers
from service.cli.output import note
from service.remote.http import RequestFailed, open_client

EVENT_STREAM = "text/event-stream"
SILENCE_S = 60.0
"""A stream that says nothing for so long is broken: a comment comes every 15 s at least."""
PATIENCE_S = 600.0
"""A stream that was there is asked for again for so long."""
RETRY_S = 1.0
_HTTP_OK = 200
_PASSING = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `id` says from where to go on after it. A kind "" is a comment that only moves the id."""

    id: str | None
    kind: str
    data: str


_CONNECTED = Event(None, "", "")
"""Stands before the first event of a stream: the service is there, whether or not it has anything to tell."""


async def follow(
    url: str, path: str, *, params: Mapping[str, Any], after: str | None, patience_s: float = PATIENCE_S
) -> AsyncGenerator[Event]:
    """Yield the events behind `after`, none lost and none twice; the caller ends it.

    Refused or Unreachable when it cannot be followed at all, or not again for `patience_s`. An event `error` is the
    service's word that it cannot read on now: it is told on standard error, and the stream taken up again.
    """
    was_there = False
    lost_s: float | None = None
    while True:
        cause: Exception = Unreachable("the service has closed the stream")
        try:
            async with aclosing(_once(url, path, params, after)) as events:
                async for event in events:
                    was_there = True
                    if event is _CONNECTED:
                        continue
                    if event.kind == "error":
                        cause = Unreachable(_detail(event.data))
                        break
                    lost_s = None
                    after = event.id if event.id is not None else after
                    if event.kind:
                        yield event
        except (Unreachable, Refused) as error:
            if not was_there or (isinstance(error, Refused) and error.status not in _PASSING):
                raise
            cause = error
        if lost_s is None:
            lost_s = time.monotonic()
            note(f"({cause}; trying again)")
        elif time.monotonic() - lost_s > patience_s:
            raise cause
        await asyncio.sleep(RETRY_S)


async def read_text(url: str, path: str, *, params: Mapping[str, Any]) -> tuple[bytes, Mapping[str, str]]:
    """Return body and headers of a GET that is no JSON; Refused or Unreachable."""
    async with _answer(url, path, params, {}) as response:
        return await response.aread(), response.headers


async def parse(lines: AsyncIterator[str]) -> AsyncGenerator[Event]:
    """Yield the events of a stream's lines; one that was cut off before its empty line never was."""
    identity: str | None = None
    kind = ""
    data: list[str] = []
    async for line in lines:
        if not line:
            if data or identity is not None:
                yield Event(identity, (kind or "message") if data else "", "\n".join(data))
            identity, kind, data = None, "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id":
                identity = value
            case "event":
                kind = value
            case "data":
                data.append(value)


async def _once(url: str, path: str, params: Mapping[str, Any], after: str | None) -> AsyncGenerator[Event]:
    wanted = {"Accept": EVENT_STREAM, **({} if after is None else {"Last-Event-ID": after})}
    async with _answer(url, path, params, wanted) as response:
        yield _CONNECTED
        async for event in parse(response.aiter_lines()):
            yield event


@asynccontextmanager
async def _answer(url: str, path: str, params: Mapping[str, Any], extra: Mapping[str, str]) -> AsyncGenerator[Any]:
    try:
        async with (
            open_client(url, headers={**headers(), **extra}, timeout_s=SILENCE_S) as client,
            client.stream("GET", f"/api/v1{path}", params=dict(params)) as response,
        ):
            if response.status_code != _HTTP_OK:
                problem = _problem(await response.aread())
                check_origin(url, response.status_code, problem)
                raise Refused(response.status_code, problem)
            yield response
    except RequestFailed as error:
        raise Unreachable(f"{url} does not answer: {type(error).__name__}") from error


def _problem(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _detail(data: str) -> str:
    return str(_problem(data.encode()).get("detail", "the service cannot read on"))
