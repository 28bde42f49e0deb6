"""A reader of server-sent events, and the application behind a real port: streams need one."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import httpx2
import uvicorn
from fastapi import FastAPI

from service.api.dependencies import Parts

PATIENCE_S = 20


@dataclass(frozen=True)
class Frame:
    """One event as it came; a comment and a lone id have no kind."""

    id: int | None
    kind: str | None
    data: Any


class EventReader:
    """Reads frames one by one."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._chunks = response.aiter_text()
        self._rest = ""
        self.last_id: int | None = None

    async def frame(self) -> Frame:
        """Return the next frame, whatever it is; EOFError at the end of the stream."""
        async with asyncio.timeout(PATIENCE_S):
            while "\n\n" not in self._rest:
                try:
                    self._rest += await anext(self._chunks)
                except StopAsyncIteration:
                    raise EOFError from None
        text, _, self._rest = self._rest.partition("\n\n")
        found = _parsed(text)
        self.last_id = found.id if found.id is not None else self.last_id
        return found

    async def event(self) -> Frame:
        """Return the next frame that is an event."""
        while True:
            found = await self.frame()
            if found.kind is not None:
                return found

    async def events(self, count: int) -> list[Frame]:
        """Return the next so many events."""
        return [await self.event() for _ in range(count)]

    async def until(self, kind: str) -> list[Frame]:
        """Return the events up to the first of a kind, that one too."""
        found = [await self.event()]
        while found[-1].kind != kind:
            found.append(await self.event())
        return found


@asynccontextmanager
async def reading(http: httpx2.AsyncClient, *, last_id: int | None = None, **params: Any) -> AsyncIterator[EventReader]:
    """Give a reader of `GET /events`."""
    headers = {} if last_id is None else {"Last-Event-ID": str(last_id)}
    async with http.stream("GET", "/api/v1/events", params=params, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        reader = EventReader(response)
        await reader.frame()  # from where it begins
        yield reader


@dataclass(frozen=True)
class Served:
    """A running application, its parts, and a client of its port."""

    parts: Parts
    http: httpx2.AsyncClient
    url: str


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[Served]:
    """Serve an application on a free port of loopback."""
    async with PortServer(app) as server:
        url = f"http://127.0.0.1:{server.port}"
        async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False) as http:
            yield Served(app.state.parts, http, url)


class PortServer:
    """uvicorn in this event loop."""

    def __init__(self, app: Any, **options: Any) -> None:
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=1, ws="none", **options
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._task: asyncio.Task[None] | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._server._serve())
        async with asyncio.timeout(PATIENCE_S):
            while not self._server.started:
                assert not self._task.done(), self._task
                await asyncio.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        assert self._task is not None
        await self._task


def ids(frames: Sequence[Frame]) -> list[int | None]:
    """Return the ids of frames."""
    return [frame.id for frame in frames]


def _parsed(text: str) -> Frame:
    fields = {}
    for line in text.split("\n"):
        name, _, value = line.partition(": ")
        fields[name] = value
    number = fields.get("id")
    data = json.loads(fields["data"]) if "data" in fields else None
    return Frame(int(number) if number is not None else None, fields.get("event"), data)
