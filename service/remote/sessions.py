"""What goes through a channel of a connection: output gathered to its end or cut into lines, and plain TCP bytes."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from service.errors import NodeUnreachable, RemoteCommandFailed, RemoteError

OUTPUT_LIMIT_BYTES = 64 * 2**20
LINE_LIMIT_BYTES = 4 * 2**20
STDERR_KEPT_BYTES = 4096
CLOSE_PATIENCE_S = 2.0
"""How long the end of a stream waits for the node to confirm it; a frozen node never does."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended; a signal n counts as status 128 + n, as a shell says it."""

    exit_status: int
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)


class Sink(Protocol):
    """Where a session's output goes. `finish` comes once; a status of None means that nobody said how it ended."""

    def receive(self, data: bytes, *, is_stderr: bool) -> bool:
        """Take some output; False asks for the end of the session."""

    def finish(self, exit_status: int | None, error: Exception | None) -> None:
        """Take the end of the session."""


class Gathering:
    """All output of a command, up to OUTPUT_LIMIT_BYTES."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._exit_status: int | None = None
        self._error: Exception | None = None

    def receive(self, data: bytes, *, is_stderr: bool) -> bool:
        """Keep the bytes; past the limit the command is a failure."""
        (self._stderr if is_stderr else self._stdout).extend(data)
        if len(self._stdout) + len(self._stderr) <= OUTPUT_LIMIT_BYTES:
            return True
        self._error = RemoteCommandFailed(f"the command wrote more than {OUTPUT_LIMIT_BYTES} bytes")
        self.ended.set()
        return False

    def finish(self, exit_status: int | None, error: Exception | None) -> None:
        """Note the end and wake who waits for it."""
        self._exit_status = exit_status
        self._error = self._error or error
        self.ended.set()

    def completed(self, label: str) -> Completed:
        """Return what the command did, or raise what kept it from ending."""
        if isinstance(self._error, RemoteError):
            raise self._error
        if self._exit_status is None:
            raise _lost(label, self._error)
        return Completed(self._exit_status, bytes(self._stdout), bytes(self._stderr))


class LineFeed:
    """Output cut into lines and handed on as it comes; any cutting of the input gives the same lines."""

    def __init__(
        self, label: str, on_line: Callable[[bytes], None], on_close: Callable[[RemoteError | None], None]
    ) -> None:
        self.ended = asyncio.Event()
        self.is_closing = False
        self._label = label
        self._on_line = on_line
        self._on_close = on_close
        self._parts: list[bytes] = []
        self._held_bytes = 0
        self._stderr = b""
        self._failure: RemoteError | None = None

    def receive(self, data: bytes, *, is_stderr: bool) -> bool:
        """Hand on every complete line; an error raised by `on_line` becomes the reason of the stream's end."""
        if is_stderr:
            self._stderr = (self._stderr + data)[-STDERR_KEPT_BYTES:]
            return True
        if self._failure or self.is_closing:
            return False
        *lines, rest = data.split(b"\n")
        try:
            for line in lines:
                self._on_line(b"".join([*self._parts, line]))
                self._parts, self._held_bytes = [], 0
        except (ValueError, RemoteError) as error:
            self._failure = RemoteCommandFailed(f"{self._label} sent a line that cannot be read: {error}")
            return False
        self._parts.append(rest)
        self._held_bytes += len(rest)
        if self._held_bytes > LINE_LIMIT_BYTES:
            self._failure = RemoteCommandFailed(f"{self._label} sent a line of more than {LINE_LIMIT_BYTES} bytes")
            return False
        return True

    def finish(self, exit_status: int | None, error: Exception | None) -> None:
        """Tell `on_close` once how the stream ended; a last line without an end is dropped, it may be half a fact."""
        if self.ended.is_set():
            return
        self.ended.set()
        self._on_close(None if self.is_closing else self._reason(exit_status, error))

    def _reason(self, exit_status: int | None, error: Exception | None) -> RemoteError | None:
        if self._failure:
            return self._failure
        if exit_status is None:
            return _lost(self._label, error)
        if exit_status == 0:
            return None
        said = self._stderr.decode("utf-8", "replace").strip()
        return RemoteCommandFailed(f"the stream from {self._label} ended with status {exit_status}: {said}")


class Writable(Protocol):
    """The near end of a session's channel."""

    def write(self, data: bytes) -> None:
        """Take bytes for the command's input."""

    def abort(self) -> None:
        """Close at once."""


class Stream:
    """The near end of a command that talks in lines."""

    def __init__(self, channel: Writable, feed: LineFeed) -> None:
        self._channel = channel
        self._feed = feed

    def send(self, data: bytes) -> None:
        """Send bytes to the command's standard input; after its end they are dropped, `on_close` has told."""
        with suppress(OSError):
            self._channel.write(data)

    async def close(self) -> None:
        """End the command's input and the channel; `on_close` is called before this returns."""
        self._feed.is_closing = True
        self._channel.abort()
        try:
            async with asyncio.timeout(CLOSE_PATIENCE_S):
                await self._feed.ended.wait()
        except TimeoutError:
            self._feed.finish(None, None)


class Reader(Protocol):
    """The far side's bytes of a TCP channel."""

    async def read(self, n: int) -> bytes:
        """Return the next bytes, at most n; b"" at the end."""
        ...

    def at_eof(self) -> bool:
        """Tell whether the end has come and all is read."""
        ...


class Writer(Protocol):
    """The near side of a TCP channel."""

    @property
    def channel(self) -> Writable:
        """Return the channel below."""
        ...

    def write(self, data: bytes) -> None:
        """Take bytes to send."""

    async def drain(self) -> None:
        """Wait until there is room for more."""

    def is_closing(self) -> bool:
        """Tell whether nothing can be sent any more."""
        ...


class TcpChannel:
    """One TCP connection made by the node on our behalf; `lost_as` are the errors that mean it is gone."""

    def __init__(self, reader: Reader, writer: Writer, *, lost_as: tuple[type[Exception], ...]) -> None:
        self._reader = reader
        self._writer = writer
        self._lost_as = lost_as

    async def read(self, limit_bytes: int) -> bytes:
        """Return the next bytes, b"" at the end. Raises NodeUnreachable when the connection is lost."""
        try:
            return await self._reader.read(limit_bytes)
        except self._lost_as as error:
            raise NodeUnreachable(f"the channel broke: {error}") from error

    async def write(self, data: bytes) -> None:
        """Send bytes and wait until there is room for more. Raises NodeUnreachable when the channel is gone."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except self._lost_as as error:
            raise NodeUnreachable(f"the channel broke: {error}") from error

    @property
    def is_ended(self) -> bool:
        """Tell whether the far end has closed: a connection kept for later is then of no use."""
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        """Close the channel at once."""
        self._writer.channel.abort()


def _lost(label: str, error: Exception | None) -> NodeUnreachable:
    return NodeUnreachable(f"the connection to {label} was lost before the command ended: {error or 'closed'}")
