"""What one request may take: size and time of its body, waits and streams at once; and how those end."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from sqlalchemy import update

from service.access.roles import Caller, Role
from service.api.limits import HeldDownload, Seats
from service.api.routes import waiting
from service.cli import wire
from service.cli.serving import server_of
from service.db.tables import Server
from service.errors import TooManyStreams, Unauthenticated
from service.servers.states import Desired, State
from service.settings import Access, Settings
from tests.api.conftest import RECIPE, Api
from tests.api.guarded import ADMIN, Guarded, guarded_app
from tests.benchmarks.tool_files import sglang_line

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
ALICE = Caller("token:alice", "tk_a", Role.VIEWER)
BOB = Caller("token:bob", "tk_b", Role.VIEWER)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    limits = {"max_body_bytes": 2048, "body_deadline_s": 0.2, "max_streams_per_token": 2, "max_streams": 3}
    async with guarded_app(tmp_path, **limits) as made:
        yield made


def profile(size: int) -> dict[str, Any]:
    return {"name": "p", "recipe": {**RECIPE, "env": {"FILLER": "x" * size}}}


async def test_a_body_within_the_limit_is_taken_and_one_beyond_it_is_not(guarded: Guarded) -> None:
    assert (await guarded.ask("POST", "/profiles", ADMIN, json=profile(1500))).status_code == 201
    declared = await guarded.ask("POST", "/profiles", ADMIN, json=profile(3000))
    assert (declared.status_code, declared.json()["code"]) == (413, "too_large")
    assert declared.headers["connection"] == "close"


async def test_a_body_of_unknown_length_is_read_up_to_the_limit(guarded: Guarded) -> None:
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 1
            yield b"x" * 100

    answer = await guarded.ask("POST", "/profiles", ADMIN, content=endless())
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert given == 21, "and no further"


async def test_a_body_that_does_not_come(guarded: Guarded) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b'{"name":'
        await asyncio.sleep(60)

    async with asyncio.timeout(10):
        answer = await guarded.ask("POST", "/profiles", ADMIN, content=slow())
    assert (answer.status_code, answer.json()["code"]) == (408, "body_too_slow")


async def test_nothing_is_read_of_who_is_not_let_in(guarded: Guarded) -> None:
    viewer = await guarded.grant(Role.VIEWER)

    async def untouched() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    for token, status in ((None, 401), (viewer, 403)):
        answer = await guarded.ask("POST", "/profiles", token, content=untouched())
        assert answer.status_code == status


async def test_who_is_revoked_while_his_body_comes_does_nothing(guarded: Guarded) -> None:
    token = await guarded.grant(Role.OPERATOR, "alice")

    async def body() -> AsyncIterator[bytes]:
        yield b'{"name": "p", "recipe": {"python": "/opt/python", "model_path": "/m", "gpu_count": 0}'
        assert (await guarded.ask("DELETE", "/tokens/alice", ADMIN)).status_code == 204
        yield b"}"

    answer = await guarded.ask("POST", "/profiles", token, content=body(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 401
    assert (await guarded.ask("GET", "/profiles", ADMIN)).json()["items"] == []


async def test_seats_are_counted_by_caller_and_in_all() -> None:
    seats = Seats(most=3, most_per_caller=2)
    async with seats.take(BOB, NOW):
        async with seats.take(ALICE, NOW), seats.take(ALICE, NOW):
            with pytest.raises(TooManyStreams, match="token:alice holds 2"):
                seats.take(ALICE, NOW)
            with pytest.raises(TooManyStreams, match="there are 3"):
                seats.take(BOB, NOW)
        assert seats.count() == 1
    assert seats.count() == 0


async def test_a_seat_ends_with_its_token() -> None:
    seats = Seats(most=9, most_per_caller=9)
    until = Caller("token:carol", "tk_c", Role.VIEWER, expires_at=NOW + timedelta(seconds=0.05))
    with pytest.raises(Unauthenticated):
        async with asyncio.timeout(5), seats.take(until, NOW):
            await asyncio.sleep(60)
    early = seats.take(ALICE, NOW)
    seats.end(ALICE.key)
    with pytest.raises(Unauthenticated):
        async with asyncio.timeout(5), early:
            await asyncio.sleep(60)
    assert seats.count() == 0


async def start_waiting(guarded: Guarded, token: str) -> "asyncio.Task[httpx2.Response]":
    """Wait for a server that is starting and never will be ready, in a task that has begun to wait."""
    seats = guarded.api.parts.gate.seats
    before = seats.count()
    task = asyncio.create_task(guarded.ask("GET", "/servers/one/wait?timeout_s=600", token))
    async with asyncio.timeout(10):
        while seats.count() == before and not task.done():
            await asyncio.sleep(0.01)
    return task


async def add_starting_server(guarded: Guarded) -> None:
    await guarded.api.add_node()
    await guarded.ask("POST", "/profiles", ADMIN, json={"name": "p", "recipe": RECIPE})
    placed = await guarded.ask("POST", "/servers", ADMIN, json={"name": "one", "profile": "p", "node": "atlas"})
    assert placed.status_code == 201
    async with guarded.api.parts.control.database.write() as session:
        await session.execute(update(Server).values(state=State.STARTING, desired=Desired.RUNNING))


async def test_a_download_takes_a_seat_for_as_long_as_it_lasts(guarded: Guarded) -> None:
    await add_starting_server(guarded)
    alice = await guarded.grant(Role.VIEWER, "alice")
    run = (await guarded.ask("POST", "/benchmark-runs/import", ADMIN, content=sglang_line())).json()["id"]
    assert (await guarded.ask("GET", f"/benchmark-runs/{run}/raw", alice)).status_code == 200
    assert guarded.api.parts.gate.seats.count() == 0
    waits = [await start_waiting(guarded, alice) for _ in range(2)]
    refused = await guarded.ask("GET", f"/benchmark-runs/{run}/raw", alice)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def test_a_download_whose_token_ends_is_cut_off() -> None:
    seats, sent, closed = Seats(most=9, most_per_caller=9), [], []

    async def content() -> AsyncGenerator[bytes]:
        try:
            yield b"first"
            seats.end(ALICE.key)
            await asyncio.sleep(60)
            yield b"second"
        finally:
            closed.append(True)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async with asyncio.timeout(5):
        scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
        await HeldDownload(content(), seats.take(ALICE, NOW), headers={})(scope, receive, send)
    assert [message.get("body") for message in sent] == [None, b"first"]
    assert all(message.get("more_body", True) for message in sent)
    assert (closed, seats.count()) == ([True], 0)


async def test_waits_and_streams_at_once_and_their_end_by_revocation(guarded: Guarded) -> None:
    await add_starting_server(guarded)
    alice, bob = await guarded.grant(Role.VIEWER, "alice"), await guarded.grant(Role.VIEWER, "bob")
    waits = [await start_waiting(guarded, alice) for _ in range(2)]
    third = await guarded.ask("GET", "/servers/one/wait", alice)
    assert (third.status_code, third.json()["code"]) == (429, "too_many_streams")
    assert int(third.headers["retry-after"]) > 0
    events = asyncio.create_task(guarded.ask("GET", "/events", bob))
    async with asyncio.timeout(10):
        while guarded.api.parts.gate.seats.count() < 3:
            await asyncio.sleep(0.01)
    assert (await guarded.ask("GET", "/events", ADMIN)).status_code == 429, "as many as there may be in all"
    assert (await guarded.ask("GET", "/nodes", alice)).status_code == 200, "other requests go on"
    for name in ("alice", "bob"):
        assert (await guarded.ask("DELETE", f"/tokens/{name}", ADMIN)).status_code == 204
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*waits)
        stream = await events
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(401, "unauthenticated")] * 2
    assert stream.status_code == 200
    assert stream.text.endswith("\n\n")
    assert "event: error" in stream.text
    assert "unauthenticated" in stream.text
    assert guarded.api.parts.gate.seats.count() == 0


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[uvicorn.Server]:
    """Run the service as `vigil serve` does, on a free port."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    limits = {"body_deadline_s": 0.3, "head_deadline_s": 0.5}
    server = server_of(Settings(access=Access.OPEN, state_dir=tmp_path, port=port, **limits))  # type: ignore[arg-type]
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(30):
        while not server.started:
            await asyncio.sleep(0.02)
    yield server
    server.should_exit = True
    await serving


async def converse(server: uvicorn.Server, sent: bytes) -> bytes:
    """Send bytes, then listen until the service closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.config.port)
    writer.write(sent)
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.close()


async def test_on_the_wire(listening: uvicorn.Server) -> None:
    head = b"POST /api/v1/profiles HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    slow = await converse(listening, head + b"Content-Length: 100\r\n\r\n{")
    assert slow.startswith(b"HTTP/1.1 408 ")
    large = await converse(listening, head + b"Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")
    assert large.startswith(b"HTTP/1.1 413 "), "and no `100 Continue` before it"
    many = b"".join(b"X-Filler-%d: %s\r\n" % (number, b"x" * 100) for number in range(700))
    assert (await converse(listening, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + many)).startswith(
        b"HTTP/1.1 400 "
    )


async def test_who_does_not_take_an_answer_is_cut_off(
    listening: uvicorn.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "STALLED_S", 1)
    state = listening.server_state
    with closing(socket.socket()) as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", listening.config.port))
        lazy.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        async with asyncio.timeout(5):
            while not state.connections:
                await asyncio.sleep(0.02)
        async with asyncio.timeout(15):
            while state.connections:
                await asyncio.sleep(0.1)
        assert not state.tasks


async def test_a_wait_whose_caller_is_gone_frees_its_seat(
    listening: uvicorn.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "ABANDONED_AFTER_S", 0.1)
    app: Any = listening.config.loaded_app
    while not hasattr(app, "state"):
        app = app.app
    parts = app.state.parts
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{listening.config.port}/api/v1") as http:
        await Api(http, parts).add_node()
        await http.post("/profiles", json={"name": "p", "recipe": RECIPE})
        await http.post("/servers", json={"name": "one", "profile": "p", "node": "atlas"})
        async with parts.control.database.write() as session:
            await session.execute(update(Server).values(state=State.STARTING, desired=Desired.RUNNING))
        with pytest.raises(httpx2.ReadTimeout):
            await http.get("/servers/one/wait?timeout_s=600", timeout=0.5)
    async with asyncio.timeout(10):
        while parts.gate.seats.count():
            await asyncio.sleep(0.02)


async def drip(server: uvicorn.Server, first: bytes, then: bytes) -> bytes:
    """Send bytes, then one more again and again, until the service closes the connection; returns what it said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.config.port)
    writer.write(first)
    answer = asyncio.create_task(reader.read())
    try:
        async with asyncio.timeout(15):
            while not answer.done():
                writer.write(then)
                await asyncio.sleep(0.1)
            return await answer
    except ConnectionError:
        return b""
    finally:
        answer.cancel()
        writer.close()


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /healthz HTTP/1.1\r\nHost: loc",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: loc",
        b"PUT /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000\r\n\r\n",
    ],
    ids=["head", "head after an answer", "body that is not read"],
)
async def test_who_never_comes_to_an_end_is_hung_up_on(listening: uvicorn.Server, begun: bytes) -> None:
    await drip(listening, begun, b"a")


async def test_slow_callers_keep_nobody_else_waiting_and_do_not_stay(listening: uvicorn.Server) -> None:
    head = b"POST /api/v1/profiles HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    callers = [asyncio.create_task(drip(listening, head + b"X-Slow: ", b"a")) for _ in range(200)]
    callers += [asyncio.create_task(drip(listening, head + b"Content-Length: 9000\r\n\r\n{", b" ")) for _ in range(200)]
    async with asyncio.timeout(10):
        while len(listening.server_state.connections) < 350:
            await asyncio.sleep(0.01)
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{listening.config.port}", timeout=3) as http:
        for number in range(10):
            body = {"name": f"p-{number}", "recipe": RECIPE}
            assert (await http.post("/api/v1/profiles", json=body)).status_code == 201
    said = await asyncio.gather(*callers)
    assert sum(answer.startswith(b"HTTP/1.1 408 ") for answer in said) >= 150, "who began a body is told why"
    async with asyncio.timeout(10):
        while listening.server_state.connections:
            await asyncio.sleep(0.05)
