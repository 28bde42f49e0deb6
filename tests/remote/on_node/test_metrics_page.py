"""A page of metrics as the observer reads it: seldom, never twice at once, with an end, and whole lines of it only."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from service.remote.on_node import metrics_page
from service.remote.on_node.metrics_page import PageWatch, Wish

PATIENCE_S = 10.0
PAGE = b'a:wanted{x="1"} 1.0\na:wanted_not 2.0\n# a:wanted 3\na:other\t4\nb a:wanted 5\na:wanted 6'


def wish(*, every_s: float = 0.0, deadline_s: float = 5.0) -> Wish:
    return Wish({"path": "/metrics", "names": ["a:wanted", "a:other"], "every_s": every_s, "deadline_s": deadline_s})


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[int]:
    """Give the port of a server that answers every GET so."""

    class Engine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def say(request: BaseHTTPRequestHandler, page: bytes, status: int = 200) -> None:
    request.send_response(status)
    request.end_headers()
    request.wfile.write(page)


def until_said(watch: PageWatch, now_s: float = 0.0) -> str:
    """Look again and again, at one instant, until a page was read."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        text = watch.look(now_s)
        if text is not None:
            return text
        time.sleep(0.005)
    raise AssertionError("no page was read")


def until_ended(watch: PageWatch) -> None:
    """Wait until no reading is under way."""
    ends = time.monotonic() + PATIENCE_S
    while watch._reading is not None and watch._reading.is_alive():
        assert time.monotonic() < ends
        time.sleep(0.005)


def test_only_whole_lines_of_the_named_samples_are_kept() -> None:
    with serving(lambda request: say(request, PAGE)) as port:
        assert until_said(PageWatch(wish(), port, "127.0.0.1")) == 'a:wanted{x="1"} 1.0\na:other\t4\n'


@pytest.mark.parametrize("limit", [0, 19, 20, 29, 30, 31])
def test_no_line_is_cut_where_there_is_no_room_for_more(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "KEPT_LIMIT_BYTES", limit)
    with serving(lambda request: say(request, PAGE)) as port:
        text = until_said(PageWatch(wish(), port, "127.0.0.1"))
    assert text == 'a:wanted{x="1"} 1.0\na:other\t4\n'[: 30 if limit >= 30 else 20 if limit >= 20 else 0]


def test_a_page_in_chunks_is_put_together() -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.protocol_version = "HTTP/1.1"
        request.send_response(200)
        request.send_header("transfer-encoding", "chunked")
        request.end_headers()
        for part in (b"a:oth", b"er 4", b"7\na:wanted 1\n"):
            request.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        request.wfile.write(b"0\r\n\r\n")

    with serving(answer) as port:
        assert until_said(PageWatch(wish(), port, "127.0.0.1")) == "a:other 47\na:wanted 1\n"


def test_it_is_read_once_in_a_while() -> None:
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        say(request, PAGE)

    with serving(answer) as port:
        watch = PageWatch(wish(every_s=5), port, "127.0.0.1")
        until_said(watch, 100.0)
        assert [watch.look(now_s) for now_s in (100.1, 103.0, 104.9)] == [None] * 3
        assert asked == ["/metrics"]
        until_said(watch, 105.0)
    assert asked == ["/metrics"] * 2


def test_it_is_never_read_twice_at_once_and_a_slow_page_comes_late() -> None:
    may_answer = threading.Event()
    asked: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        may_answer.wait(PATIENCE_S)
        say(request, PAGE)

    with serving(answer) as port:
        watch = PageWatch(wish(every_s=5), port, "127.0.0.1")
        assert [watch.look(now_s) for now_s in (0.0, 5.0, 10.0, 15.0)] == [None] * 4
        may_answer.set()
        until_ended(watch)
        assert len(asked) == 1
        assert watch.look(16.0)


@pytest.mark.parametrize("drip_s", [None, 0.02])
def test_a_page_that_does_not_end_is_given_up(drip_s: float | None) -> None:
    is_over = threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while not is_over.wait(drip_s or PATIENCE_S):
                request.wfile.write(b"a:wanted 1\n")
        except OSError:
            pass

    with serving(answer) as port:
        watch = PageWatch(wish(deadline_s=0.3), port, "127.0.0.1")
        began = time.monotonic()
        assert watch.look(0.0) is None
        until_ended(watch)
        assert time.monotonic() - began < PATIENCE_S / 2
        assert watch.look(0.0) is None
        is_over.set()
        until_ended(watch)


@pytest.mark.parametrize("status", [404, 500])
def test_what_is_no_page_says_nothing(status: int) -> None:
    with serving(lambda request: say(request, PAGE, status)) as port:
        watch = PageWatch(wish(every_s=5), port, "127.0.0.1")
        assert watch.look(0.0) is None
        until_ended(watch)
        assert watch.look(1.0) is None


def test_nobody_there_and_no_http_say_nothing() -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")

    with serving(answer) as port:
        watch = PageWatch(wish(every_s=5), port, "127.0.0.1")
        watch.look(0.0)
        until_ended(watch)
        assert watch.look(1.0) is None
    watch = PageWatch(wish(every_s=5), port, "127.0.0.1")
    watch.look(0.0)
    until_ended(watch)
    assert watch.look(1.0) is None
