"""A small HTTP/1.1 server: one thread a connection, keep-alive, bodies by length, streams in chunks.

The standard library's own takes longer to import than the rest of the stand-in together.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple

STACK_BYTES = 512 * 1024
LONGEST_HEAD = 64 * 1024
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


class Request(NamedTuple):
    """One request; header names are lower case."""

    method: str
    path: str
    query: str
    headers: Dict[str, str]
    body: bytes


class Response(NamedTuple):
    """One response: a body, or a stream of pieces."""

    status: int
    body: bytes = b""
    content_type: str = ""
    stream: Optional[Iterator[bytes]] = None


def json_response(content: Any, status: int = 200) -> Response:
    """Return a JSON response, written as compactly as the engine writes it."""
    return Response(status, json.dumps(content, separators=(",", ":")).encode(), "application/json")


Answer = Callable[[Request], Response]
Note = Callable[[str, Request, int], None]


class HttpServer:
    """Serves on one address; `answer` is called in the connection's thread, `note` when an answer begins."""

    def __init__(self, answer: Answer, note: Note) -> None:
        self._answer = answer
        self._note = note
        self._socket: Optional[socket.socket] = None

    def bind(self, host: str, port: int) -> None:
        """Listen. Raises OSError when the address is taken."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(256)
        except OSError:
            listener.close()
            raise
        self._socket = listener

    def start(self) -> None:
        """Accept connections in a thread of its own."""
        threading.stack_size(STACK_BYTES)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening; connections that are open go on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _accept(self) -> None:
        listener = self._socket
        while listener is not None:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connection, peer), daemon=True).start()

    def _converse(self, connection: socket.socket, peer: Tuple[Any, ...]) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as reader:
            try:
                while True:
                    request = _read_request(connection, reader)
                    if request is None:
                        return
                    response = self._answer(request)
                    self._note(f"{peer[0]}:{peer[1]}", request, response.status)
                    _write_response(connection, response)
                    if request.headers.get("connection", "").lower() == "close":
                        return
            except (OSError, ValueError):
                return


def _read_request(connection: socket.socket, reader: Any) -> Optional[Request]:
    """Return the next request, or None at the end of the connection. Raises ValueError for what is not HTTP."""
    start = reader.readline(LONGEST_HEAD).decode("latin-1").split()
    if not start:
        return None
    method, target, _ = start
    headers: Dict[str, str] = {}
    while True:
        line = reader.readline(LONGEST_HEAD).decode("latin-1").strip()
        if not line:
            break
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("expect", "").lower() == "100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    path, _, query = target.partition("?")
    return Request(method, path, query, headers, _read_body(reader, headers))


def _read_body(reader: Any, headers: Dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        body: bytes = reader.read(int(headers.get("content-length", "0")))
        return body
    pieces = []
    while True:
        size = int(reader.readline().split(b";")[0], 16)
        pieces.append(reader.read(size))
        reader.readline()
        if size == 0:
            return b"".join(pieces)


def _write_response(connection: socket.socket, response: Response) -> None:
    head = [
        f"HTTP/1.1 {response.status} {REASONS[response.status]}",
        f"date: {time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime())}",
        "server: uvicorn",
    ]
    if response.content_type:
        head.append(f"content-type: {response.content_type}")
    head.append("Transfer-Encoding: chunked" if response.stream else f"content-length: {len(response.body)}")
    connection.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + response.body)
    if response.stream is None:
        return
    for piece in response.stream:
        connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    connection.sendall(b"0\r\n\r\n")
