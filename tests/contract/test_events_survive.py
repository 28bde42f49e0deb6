"""A power cut of the service: no event is lost or repeated for a reader, and a webhook gets each later, once."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.cli.serving import GRACE_S
from tests.contract.site import Site
from tests.contract.vigil import Vigil
from tests.receivers import Delivery, is_genuine


class Post:
    """A receiver in a thread of its own, which answers 503 while it is away."""

    def __init__(self) -> None:
        self.got: list[Delivery] = []
        self.refused = 0
        self.is_away = False
        post = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {key.lower(): value for key, value in self.headers.items()}
                post.refused += post.is_away
                if not post.is_away:
                    post.got.append(Delivery(self.path, headers, body))
                self.send_response(503 if post.is_away else 204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def post() -> Iterator[Post]:
    made = Post()
    yield made
    made.close()


@pytest.fixture
def vigil(tmp_path: Path) -> Iterator[Vigil]:
    with Vigil(tmp_path / "vigil", environment={"VIGIL_WEBHOOK_NETWORKS": '["127.0.0.0/8"]'}) as service:
        yield service


def test_kill_9_in_between(vigil: Vigil, site: Site, post: Post) -> None:
    created = vigil.post("/webhooks", {"url": post.url}, expect=201)
    vigil.post("/nodes", site.node(), expect=201)
    vigil.until_contact(site.name)
    vigil.post("/profiles", {"name": "p", "recipe": site.slow(site.recipe())}, expect=201)
    vigil.post("/servers", {"name": "one", "profile": "p", "node": site.name}, expect=201)
    seen = read(vigil, 0, until="contact_changed")
    vigil.until("the webhook has it", lambda: post.got)
    post.is_away = True
    vigil.post("/servers/one/launch", expect=202)
    seen += read(vigil, last_id(seen), until="phase_changed")
    vigil.until("the receiver was tried", lambda: post.refused)
    vigil.kill()
    post.is_away = False
    vigil.start()
    vigil.wait("one")
    vigil.http.post("/api/v1/servers/one/stop")
    vigil.until_at_rest("one")
    seen += read(vigil, last_id(seen), until_stopped=True)

    ids = [event["id"] for event in seen]
    assert ids == list(range(1, len(ids) + 1)), "each id once, in order, none left out"
    phases = [event["document"]["position"] for event in seen if event["kind"] == "phase_changed"]
    assert phases == list(range(len(phases))), "the log was read anew; its phases were not told anew"
    webhook = created["webhook"]["id"]
    vigil.until(
        "all is delivered",
        lambda: len(vigil.get(f"/webhooks/{webhook}/deliveries", state="delivered", limit=200)["items"]) == len(ids),
        deadline_s=90,
    )
    told = [json.loads(delivery.body)["id"] for delivery in post.got]
    assert sorted(told) == ids
    assert all(is_genuine(delivery, created["secret"], now_s=time.time()) for delivery in post.got)
    assert len({delivery.id for delivery in post.got}) == len(ids)


def read(vigil: Vigil, after: int, *, until: str = "", until_stopped: bool = False) -> list[dict[str, Any]]:
    """Read the stream behind an id up to the first event of a kind, or up to the stop of the server."""
    found: list[dict[str, Any]] = []
    headers = {"Last-Event-ID": str(after)}
    with (
        httpx2.Client(base_url=vigil.url, timeout=60, trust_env=False) as http,
        http.stream("GET", "/api/v1/events", headers=headers) as response,
    ):
        for line in response.iter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            found.append(event)
            if event["kind"] == until:
                break
            if until_stopped and event["kind"] == "operation_ended" and event["document"]["operation"] == "stop":
                break
    return found


def last_id(seen: list[dict[str, Any]]) -> int:
    """Return the id of the last event that was seen."""
    return int(seen[-1]["id"])


def test_the_end_of_the_service_lets_readers_go(vigil: Vigil) -> None:
    """A stream never ends by itself: the service must not wait for it, nor fill its log with it."""
    with (
        httpx2.Client(base_url=vigil.url, timeout=30, trust_env=False) as http,
        http.stream("GET", "/api/v1/events") as response,
    ):
        lines = response.iter_lines()
        assert next(lines).startswith(": events after")
        began = time.monotonic()
        vigil.end()
        assert time.monotonic() - began < GRACE_S
        assert [line for line in lines if line.startswith("data: ")] == []
    assert "Traceback" not in vigil.log.read_text()
    vigil.start()
