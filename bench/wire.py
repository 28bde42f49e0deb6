"""A client of HTTP/1.1 that costs next to nothing beside the server it asks: one kept connection, JSON both ways."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any, Self

DEADLINE_S = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered, and how long it took."""

    status: int
    body: bytes
    took_s: float

    def json(self) -> Any:
        """Return the document."""
        return json.loads(self.body)


@dataclass
class Wire:
    """One connection to a service of this machine."""

    port: int
    _streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = field(default=None, init=False)

    async def __aenter__(self) -> Self:
        self._streams = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
        return self

    async def __aexit__(self, *raised: object) -> None:
        if self._streams is not None:
            self._streams[1].close()

    async def get(self, path: str) -> Answer:
        """Ask for a path."""
        return await self.ask("GET", path)

    async def ask(self, method: str, path: str, body: object = None, headers: str = "") -> Answer:
        """Send a request and read the answer, within DEADLINE_S; `headers` are whole lines."""
        if self._streams is None:
            raise RuntimeError("the connection is not open")
        data = b"" if body is None else json.dumps(body).encode()
        kind = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n" if data else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{kind}{headers}\r\n"
        began = time.perf_counter()
        async with asyncio.timeout(DEADLINE_S):
            self._streams[1].write(head.encode() + data)
            status, answered = await _read(self._streams[0])
        return Answer(status, answered, time.perf_counter() - began)


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").lower().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines if line)
    if not first.startswith("http/1.1 ") or "transfer-encoding" in fields:
        raise RuntimeError(f"this is no answer that a Wire can read: {head!r}")
    return int(first.split()[1]), await reader.readexactly(int(fields.get("content-length", 0)))
