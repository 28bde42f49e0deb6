"""Requests and streams whose connection breaks: a change is carried out once, a stream goes on where it was."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import pytest
from rich.console import Console

from service.cli import streaming
from service.cli.asking import Api, Refused, run
from service.cli.client import Unreachable
from service.cli.streaming import Event, follow, parse
from service.cli.waiting import TIMED_OUT, wait
from tests.contract.vigil import free_port

Answer = Callable[[int, str], bytes]
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def service(answer: Answer) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve on loopback: `answer` gets the number of the request and its head, and returns all bytes of the answer."""
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        heads.append(head)
        writer.write(answer(len(heads), head))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


def as_json(status: str, document: object) -> bytes:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def header(head: str, name: str) -> str | None:
    lines = dict(line.split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
    return {key.lower(): value for key, value in lines.items()}.get(name)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "RETRY_S", 0.01)
    monkeypatch.setattr("service.cli.asking.RESEND_EVERY_S", 0.01)


async def test_a_change_whose_answer_is_lost_is_sent_again_under_its_key() -> None:
    async with service(lambda number, _: b"" if number == 1 else as_json("202 Accepted", {"id": "op_1"})) as (
        url,
        heads,
    ):
        assert await Api(url).change("POST", "/servers/x/stop") == {"id": "op_1"}
    keys = [header(head, "idempotency-key") for head in heads]
    assert len(keys) == 2
    assert keys[0] == keys[1] is not None


async def test_a_change_that_was_never_sent_ends_at_once() -> None:
    with pytest.raises(Unreachable):
        await asyncio.wait_for(Api(f"http://127.0.0.1:{free_port()}").change("POST", "/servers/x/stop"), 5)


async def test_another_server_at_the_address_is_told() -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"
    async with service(lambda *_: page) as (url, _):
        with pytest.raises(Unreachable, match="not as Vigil does"):
            await Api(url).get("/servers")


@pytest.mark.parametrize(
    "answered",
    [
        b"HTTP/1.1 301 Moved Permanently\r\nLocation: https://x/\r\nContent-Length: 0\r\n\r\n",
        as_json("404 Not Found", {"detail": "Not Found"}),
        as_json("502 Bad Gateway", ["no problem document"]),
    ],
)
async def test_an_answer_that_is_not_vigil_s_is_no_answer(answered: bytes) -> None:
    """A redirect passed for done, and an engine's own "not found" for that of a server."""
    async with service(lambda *_: answered) as (url, _):
        for asked in (Api(url).get("/servers/x"), anext(follow(url, "/events", params={}, after=None))):
            with pytest.raises(Unreachable, match="not as Vigil does"):
                await asked
        assert await wait(Console(), url=url, server="x", until="ready", timeout_s=0) == TIMED_OUT


async def test_a_list_is_read_to_its_end_or_to_its_limit() -> None:
    def answer(_: int, head: str) -> bytes:
        is_second = "cursor=c2" in head
        size = 1 if "limit=1&" in head or "limit=1 " in head else 2
        items = [3, 4][:size] if is_second else [1, 2]
        return as_json("200 OK", {"items": items, "next_cursor": None if is_second else "c2"})

    async with service(answer) as (url, _):
        assert await Api(url).collect("/servers") == {"items": [1, 2, 3, 4], "next_cursor": None}
        assert (await Api(url).collect("/servers", limit=3))["items"] == [1, 2, 3]
        assert await Api(url).collect("/servers", limit=2) == {"items": [1, 2], "next_cursor": "c2"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(409, {"code": "gpu_taken", "detail": "GPU 0 is taken", "remedy": "Stop the holder."}), 1),
        (Refused(404, {"code": "not_found", "detail": "none", "remedy": "Look."}), 3),
        (Refused(504, {"code": "remote_timeout", "detail": "slow", "remedy": "Wait."}), 2),
        (Refused(500, {}), 1),
        (Unreachable("it does not answer"), 2),
    ],
)
def test_what_ends_a_command_is_one_line(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    async def work(_: Api) -> int:
        raise error

    assert run("http://127.0.0.1:1", work) == code
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)


def event(number: int, text: str, kind: str = "log") -> bytes:
    return f"event: {kind}\nid: {number}\ndata: {json.dumps(text)}\n\n".encode()


async def taken(url: str, *, after: str | None, patience_s: float = 5) -> list[Event]:
    found = []
    async with aclosing(follow(url, "/launches/ln_1/log", params={}, after=after, patience_s=patience_s)) as events:
        async for one in events:
            if one.kind == "end":
                break
            found.append(one)
    return found


async def test_a_stream_goes_on_where_it_broke() -> None:
    parts = {
        1: STREAM_HEAD + event(5, "a") + event(9, "b") + b'event: log\nid: 12\ndata: "cut',
        2: as_json("503 Service Unavailable", {"code": "http_error"}),
        3: STREAM_HEAD + b'event: error\nid: 0\ndata: {"detail": "the node is away"}\n\n',
        4: STREAM_HEAD + b": keep-alive\nid: 10\n\n" + event(12, "c"),
        5: STREAM_HEAD + event(12, "{}", "end"),
    }
    async with service(lambda number, _: parts[number]) as (url, heads):
        assert [json.loads(one.data) for one in await taken(url, after="0")] == ["a", "b", "c"]
    assert [header(head, "last-event-id") for head in heads] == ["0", "9", "9", "9", "12"]


async def test_a_stream_that_broke_before_its_first_event_was_there() -> None:
    async with service(lambda number, _: STREAM_HEAD + (b"" if number == 1 else event(1, "", "end"))) as (url, heads):
        assert await taken(url, after="0") == []
    assert [header(head, "last-event-id") for head in heads] == ["0", "0"]


async def test_a_stream_that_was_never_there_ends_at_once() -> None:
    async with service(lambda *_: as_json("404 Not Found", {"code": "not_found"})) as (url, _):
        with pytest.raises(Refused):
            await taken(url, after=None)
    with pytest.raises(Unreachable):
        await taken(f"http://127.0.0.1:{free_port()}", after=None)


async def test_patience_has_an_end() -> None:
    async with service(lambda number, _: STREAM_HEAD + event(1, "a") if number == 1 else b"") as (url, _):
        with pytest.raises(Unreachable):
            await taken(url, after=None, patience_s=0.05)


async def test_what_a_stream_says() -> None:
    async def lines() -> AsyncIterator[str]:
        for line in (
            "retry: 2000",
            ": hello",
            "id: 7",
            "",
            "data: a",
            "data:b",
            "",
            "event: x",
            "",
            "event: log",
            "data: cut",
        ):
            yield line

    assert [one async for one in parse(lines())] == [Event("7", "", ""), Event(None, "message", "a\nb")]
