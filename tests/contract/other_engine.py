"""Somebody else's engine on the port that a launch wants: it answers as an SGLang that is up does."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = {"model_path": "/models/other", "is_generation": True, "text": " Paris", "meta_info": {}}


class _Answers(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = _answer  # noqa: N815  the library looks for these names
    do_POST = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def other_engine(port: int) -> Iterator[None]:
    """Listen on a port of loopback until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
