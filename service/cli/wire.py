"""The service's side of an HTTP connection: how long a caller may take to say what he wants, and to take the answer."""

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from service.api.limits import STALLED_S


def protocol_with(head_deadline_s: float) -> type[H11Protocol]:
    """Return the protocol of connections on which the head of a request arrives within so many seconds."""
    return type("DeadlineProtocol", (_DeadlineProtocol,), {"head_deadline_s": head_deadline_s})


class _DeadlineProtocol(H11Protocol):
    """Closes a connection on which nothing is being answered and no whole head of a request arrives in time.

    The time counts from the connection, or from the answer before. uvicorn itself waits for as long as bytes drip: of a
    head, or of a body that nobody reads because the request was refused. A body that is read has a deadline of its own
    (api/limits).
    """

    head_deadline_s: float

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request; the kernel keeps the deadline of what is sent, also after the connection was closed here.

        Linux counts for a caller who does not read, too, since 5.11 (`TCP_USER_TIMEOUT` in tcp(7)).
        """
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(STALLED_S * 1000))
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came; a whole head ends the waiting."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Expect the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.head_deadline_s, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
