"""A receiver of webhooks: a real HTTP server that checks signatures as the Standard Webhooks say, in its own words."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.event_streams import PATIENCE_S, PortServer

TOLERANCE_S = 300


@dataclass(frozen=True)
class Delivery:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """Keeps what comes, and answers as a test wants."""

    answer: Callable[[Delivery], int] = lambda _: 204
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    got: list[Delivery] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/vigil"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        delivery = Delivery(scope["path"], {key.decode(): value.decode() for key, value in scope["headers"]}, body)
        status = self.answer(delivery)
        self.got.append(delivery)
        await asyncio.sleep(self.delay_s)
        headers = [(key.encode(), value.encode()) for key, value in self.headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if status == 204 else b"x" * 10})

    async def until(self, count: int) -> list[Delivery]:
        """Wait until so many requests have come, and return them all."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.got) < count:
                await asyncio.sleep(0.02)
        return self.got


@asynccontextmanager
async def receiving(receiver: Receiver | None = None) -> AsyncIterator[Receiver]:
    """Give a receiver that listens on loopback."""
    made = receiver or Receiver()
    async with PortServer(made, lifespan="off") as server:
        made.port = server.port
        yield made


def is_genuine(delivery: Delivery, secret: str, *, now_s: float, tolerance_s: float = TOLERANCE_S) -> bool:
    """Check a delivery as a receiver should: signature over id, second and body, and a time that is not long ago."""
    if abs(now_s - int(delivery.headers["webhook-timestamp"])) > tolerance_s:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else secret.encode()
    signed = b".".join([delivery.id.encode(), delivery.headers["webhook-timestamp"].encode(), delivery.body])
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = [part.split(",", 1)[1] for part in delivery.headers["webhook-signature"].split() if part.startswith("v1,")]
    return any(hmac.compare_digest(expected, signature) for signature in given)
