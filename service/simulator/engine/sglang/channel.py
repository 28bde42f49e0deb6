"""JSON lines over a socket pair: how the parent and its schedulers talk."""

from __future__ import annotations

import json
import select
import socket
import threading
from typing import Any, Dict, List, Optional

Message = Dict[str, Any]


class Channel:
    """One end of a pair. Sending is safe from several threads; receiving is for one."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.is_closed = False
        self._rest = b""
        self._sending = threading.Lock()

    def send(self, message: Message) -> None:
        """Send one message; a far end that is gone is no error, its death is noticed elsewhere."""
        with self._sending:
            try:
                self.end.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                self.is_closed = True

    def receive(self, timeout_s: Optional[float]) -> List[Message]:
        """Return the messages that have come, waiting for the first; None waits for ever, the end gives none."""
        if not self.is_closed and select.select([self.end], [], [], timeout_s)[0]:
            try:
                data = self.end.recv(65536)
            except OSError:
                data = b""
            self.is_closed = not data
            self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in lines]


def pair() -> List[Channel]:
    """Return two connected channels."""
    return [Channel(end) for end in socket.socketpair()]
