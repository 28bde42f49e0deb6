"""What is done with the output of a command on a node: gathered to its end, or cut into lines as it comes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from service.errors import NodeUnreachable, RemoteCommandFailed, RemoteError

OUTPUT_LIMIT_BYTES = 64 * 2**20
LINE_LIMIT_BYTES = 4 * 2**20
STDERR_KEPT_BYTES = 4096


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


def _lost(label: str, error: Exception | None) -> NodeUnreachable:
    return NodeUnreachable(f"the connection to {label} was lost before the command ended: {error or 'closed'}")
