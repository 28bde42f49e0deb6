"""A server's page of metrics, read every few seconds: of its lines only those that were asked for leave the node.

What it costs: a page of 128 KiB takes 2 ms of CPU, in a thread of its own, and leaves a kilobyte to send.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any, Dict, Optional, Pattern

PAGE_LIMIT_BYTES = 4 * 1024 * 1024
"""A server of eight ranks and 169 names answers with about a megabyte."""
KEPT_LIMIT_BYTES = 256 * 1024
PART_BYTES = 64 * 1024
HTTP_OK = 200


class Wish:
    """Which page to read, how often, how long that may take, and which lines are wanted: those of the named samples."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self.path = str(request["path"])
        self.every_s = float(request["every_s"])
        self.deadline_s = float(request["deadline_s"])
        names = b"|".join(re.escape(name.encode("utf-8")) for name in request["names"])
        self.lines: Pattern[bytes] = re.compile(rb"^(?:%s)[{ \t][^\n]*\n" % names, re.MULTILINE)
        """Whole lines: of one that was cut the number would be another."""


class PageWatch:
    """Reads one server's page at most every so often, and never twice at once."""

    def __init__(self, wish: Wish, port: int, host: str) -> None:
        self._wish = wish
        self._port = port
        self._host = host
        self._due_s = 0.0
        self._reading: Optional[_Reading] = None

    def look(self, now_s: float) -> Optional[str]:
        """Return the wanted lines if a reading has brought them since the last look, and begin the next when it is due.

        A page that cannot be read is no news: whoever waits for it sees how old the last one is.
        """
        text = None
        if self._reading is not None and not self._reading.is_alive():
            text, self._reading = self._reading.text, None
        if self._reading is None and now_s >= self._due_s:
            self._due_s = now_s + self._wish.every_s
            self._reading = _Reading(self._wish, self._port, self._host)
            self._reading.start()
        return text


class _Reading(threading.Thread):
    """One request; `text` are the wanted lines once the thread has ended, None when there was no page."""

    def __init__(self, wish: Wish, port: int, host: str) -> None:
        super().__init__(daemon=True)
        self.text: Optional[str] = None
        self._wish = wish
        self._port = port
        self._host = host

    def run(self) -> None:
        # Here, since it takes 20 ms: an observer that has no server to read needs none of it.
        from http.client import HTTPConnection, HTTPException  # noqa: PLC0415

        ends_s = time.monotonic() + self._wish.deadline_s
        connection = HTTPConnection(self._host, self._port, timeout=self._wish.deadline_s)
        try:
            page = _page(connection, self._wish.path, ends_s)
        except (OSError, HTTPException, ValueError):
            return
        finally:
            connection.close()
        if page is not None:
            self.text = _kept(self._wish.lines, page).decode("utf-8", "replace")


def _kept(wanted: Pattern[bytes], page: bytes) -> bytes:
    """Return the wanted lines, as many whole ones as there is room for."""
    kept = bytearray()
    for found in wanted.finditer(page):
        if len(kept) + len(found[0]) > KEPT_LIMIT_BYTES:
            break
        kept += found[0]
    return bytes(kept)


def _page(connection: Any, path: str, ends_s: float) -> Optional[bytes]:
    """Return the body of a page of at most PAGE_LIMIT_BYTES, cut there; TimeoutError when `ends_s` has come."""
    connection.connect()
    channel = connection.sock  # let go of by the connection when the server will close, but still what is read from
    connection.request("GET", path)
    response = connection.getresponse()
    if response.status != HTTP_OK:
        return None
    page = bytearray()
    while len(page) < PAGE_LIMIT_BYTES:
        channel.settimeout(max(ends_s - time.monotonic(), 0.001))
        part = response.read1(PART_BYTES)
        if not part:
            break
        page += part
    return bytes(page[:PAGE_LIMIT_BYTES])
