"""The warm-up: the new server asks itself over HTTP, as a client would, and says that it is ready."""

from __future__ import annotations

import json
import socket
import time
from typing import Any, Callable, Dict, Tuple

TRIES = 120
REQUEST_DEADLINE_S = 600.0
HTTP_OK = 200
READY = "The server is fired up and ready to roll!"


class WarmUpFailed(Exception):
    """Nobody answered as an engine would; holds the last line of the engine's traceback."""


def warm_up(address: Tuple[str, int], key: str, *, pause_s: float, spend: Callable[[], None] = lambda: None) -> None:
    """Wait for /model_info on the address, spend the time of a warm-up, have a few tokens made. Raises WarmUpFailed.

    It does not ask who answers: where another engine holds the port, that one is warmed up, and the ready line that
    follows is a lie (facts: SGLang §3.1).
    """
    last = "AssertionError: res=None"
    for _ in range(TRIES):
        time.sleep(pause_s)
        try:
            status, body = request(address, "GET", "/model_info", key)
        except OSError as error:
            last = f"requests.exceptions.ConnectionError: {error}"
            continue
        if status == HTTP_OK:
            break
        last = f"AssertionError: res=<Response [{status}]>, res.text={body[:200]!r}"
    else:
        raise WarmUpFailed(last)
    spend()
    text = {"text": "The capital city of France is", "sampling_params": {"temperature": 0, "max_new_tokens": 8}}
    try:
        status, body = request(address, "POST", "/generate", key, text)
    except OSError as error:
        raise WarmUpFailed(f"requests.exceptions.ConnectionError: {error}") from None
    if status != HTTP_OK:
        raise WarmUpFailed(f"AssertionError: res=<Response [{status}]>, res.text={body[:200]!r}")


def request(address: Tuple[str, int], method: str, path: str, key: str, content: Any = None) -> Tuple[int, str]:
    """Make one HTTP request and return status and body. Raises OSError when there is no answer."""
    body = json.dumps(content).encode() if content is not None else b""
    headers: Dict[str, str] = {"host": f"{address[0]}:{address[1]}", "connection": "close"}
    headers["content-length"] = str(len(body))
    if key:
        headers["authorization"] = f"Bearer {key}"
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    with socket.create_connection(address, timeout=REQUEST_DEADLINE_S) as connection:
        connection.sendall("\r\n".join(lines).encode() + body)
        data = b""
        while True:
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    status = head[len("HTTP/1.1 ") :][:3]
    if not status.isdigit():
        raise ConnectionError("Remote end closed connection without response")
    return int(status), rest.decode("utf-8", "replace")
