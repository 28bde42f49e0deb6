"""A listening socket whose traffic can be held back: open, closed, or frozen as a stopped sshd is.

A frozen door keeps its socket: the kernel still completes connections into the backlog, and nothing is read or
written on those that exist. That is what a client sees of a SIGSTOPped server or of a lost network.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

BACKLOG = 512

ProtocolFactory = Callable[[], asyncio.Protocol]


class Door:
    """Accepts connections on one loopback port and hands each to a protocol made by `factory`."""

    def __init__(self, factory: ProtocolFactory) -> None:
        self.factory = factory
        self.port = 0
        self.is_frozen = False
        self._socket: socket.socket | None = None
        self._connections: set[_HeldConnection] = set()
        self._accepting: set[asyncio.Task[None]] = set()

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def open(self) -> None:
        """Listen, on the port of the last time or on a free one. An open door stays as it is."""
        if self._socket is not None:
            return
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(BACKLOG)
        self.port = listener.getsockname()[1]
        self._socket = listener
        if not self.is_frozen:
            self._watch(listener)

    def close(self) -> None:
        """Close the port and end every connection; the port number is kept for the next `open`."""
        if self._socket is not None:
            self._unwatch(self._socket)
            self._socket.close()
            self._socket = None
        self.drop_connections()

    def freeze(self) -> None:
        """Answer nothing from now on, on old connections and new ones."""
        if self.is_frozen:
            return
        self.is_frozen = True
        if self._socket is not None:
            self._unwatch(self._socket)
        for connection in self._connections:
            connection.hold()

    def thaw(self) -> None:
        """Answer again; what was held back is delivered."""
        if not self.is_frozen:
            return
        self.is_frozen = False
        if self._socket is not None:
            self._watch(self._socket)
        for connection in tuple(self._connections):
            connection.release()

    def drop_connections(self) -> None:
        """End every connection at once, with a TCP reset where data is pending."""
        for connection in tuple(self._connections):
            connection.abort()

    def _watch(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listener.fileno(), self._accept)

    def _unwatch(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(listener.fileno())

    def _accept(self) -> None:
        if self._socket is None:
            return
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(accepted))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        connection = _HeldConnection(self.factory(), self._connections)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
        if self.is_frozen:
            connection.hold()


class _HeldConnection(asyncio.Protocol):
    """One connection: passes everything through to `inner` unless it is held."""

    def __init__(self, inner: asyncio.Protocol, registry: set[_HeldConnection]) -> None:
        self._inner = inner
        self._registry = registry
        self._transport: asyncio.Transport | None = None
        self._outward: _HeldTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._outward = _HeldTransport(self._transport)
        self._registry.add(self)
        self._inner.connection_made(self._outward)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._registry.discard(self)
        self._inner.connection_lost(exc)

    def hold(self) -> None:
        """Read and write nothing until `release`."""
        if self._transport is not None and self._outward is not None and not self._transport.is_closing():
            self._outward.is_held = True
            self._transport.pause_reading()

    def release(self) -> None:
        """Write what was held and read again."""
        if self._transport is not None and self._outward is not None and not self._transport.is_closing():
            self._outward.release()
            self._transport.resume_reading()

    def abort(self) -> None:
        """End the connection without a goodbye."""
        if self._transport is not None:
            self._transport.abort()


class _HeldTransport(asyncio.Transport):
    """The transport the inner protocol writes to; while held, writes wait here and a close is put off."""

    def __init__(self, real: asyncio.Transport) -> None:
        super().__init__()
        self.is_held = False
        self._real = real
        self._waiting: list[bytes] = []
        self._is_close_wanted = False

    def release(self) -> None:
        self.is_held = False
        for data in self._waiting:
            self._real.write(data)
        self._waiting.clear()
        if self._is_close_wanted:
            self._real.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._real.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self.is_held:
            self._waiting.append(bytes(data))
        else:
            self._real.write(data)

    def is_closing(self) -> bool:
        return self._is_close_wanted or self._real.is_closing()

    def close(self) -> None:
        if self.is_held:
            self._is_close_wanted = True
        else:
            self._real.close()

    def abort(self) -> None:
        self._real.abort()
