"""HTTP through the SSH connection to real servers: kept channels, refusals, slowness, cut bodies, broken lines."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from service.remote.http import Answer, AskError, ask, node_client, open_client
from service.remote.ssh import SshConnection, open_connection
from tests.sshd import Sshd, free_port

Reply = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class Backend:
    """A small HTTP server: what `reply` writes is what the client gets; it counts its connections."""

    def __init__(self, reply: Reply) -> None:
        self.port = 0
        self.connections = 0
        self._reply = reply

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self._reply(head, writer)
                await writer.drain()
                if writer.is_closing():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def backend(reply: Reply, *, host: str = "127.0.0.1") -> AsyncIterator[Backend]:
    made = Backend(reply)
    server = await asyncio.start_server(made.serve, host, 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


def answering(body: bytes, *, status: str = "200 OK", more: str = "") -> Reply:
    async def reply(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)

    return reply


async def test_one_channel_serves_many_requests(connection: SshConnection) -> None:
    async with backend(answering(b"")) as server, node_client(connection, port=server.port, timeout_s=5) as client:
        answers = [await ask(client, "GET", "/health", deadline_s=5) for _ in range(20)]
    assert answers == [Answer(200)] * 20
    assert server.connections == 1


async def test_requests_at_once_get_channels_of_their_own_and_need_no_session(connection: SshConnection) -> None:
    async def slow(_: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with backend(slow) as server, node_client(connection, port=server.port, timeout_s=5) as client:
        answers = await asyncio.gather(*(ask(client, "GET", "/", deadline_s=5) for _ in range(30)))
    assert [answer.body for answer in answers] == [b"ok"] * 30
    assert server.connections == 30


async def test_a_channel_that_the_server_closed_is_replaced(connection: SshConnection) -> None:
    async def once(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    async with backend(once) as server, node_client(connection, port=server.port, timeout_s=5) as client:
        for _ in range(3):
            assert (await ask(client, "GET", "/", deadline_s=5)).body == b"ok"
            await asyncio.sleep(0.05)
    assert server.connections == 3


async def test_any_status_is_an_answer_and_redirects_are_not_followed(connection: SshConnection) -> None:
    reply = answering(b"", status="307 Temporary Redirect", more="Location: /elsewhere\r\n")
    async with backend(reply) as server, node_client(connection, port=server.port, timeout_s=5) as client:
        assert (await ask(client, "GET", "/", deadline_s=5)).status == 307
    async with (
        backend(answering(b"", status="503 Service Unavailable")) as server,
        node_client(connection, port=server.port, timeout_s=5) as client,
    ):
        assert await ask(client, "GET", "/health", deadline_s=5) == Answer(503)


async def test_headers_and_json_reach_the_server(connection: SshConnection) -> None:
    heads: list[bytes] = []

    async def note(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with backend(note) as server, node_client(connection, port=server.port, timeout_s=5) as client:
        await ask(client, "POST", "/generate", deadline_s=5, headers={"Authorization": "Bearer x"}, json={"text": "hi"})
    head = heads[0].lower()
    assert head.startswith(b"post /generate http/1.1\r\n")
    assert b"authorization: bearer x" in head
    assert b"content-type: application/json" in head
    assert f"host: 127.0.0.1:{server.port}".encode() in head


async def test_a_closed_port_is_refused_not_broken(connection: SshConnection) -> None:
    async with node_client(connection, port=free_port(), timeout_s=5) as client:
        assert await ask(client, "GET", "/health", deadline_s=5) == Answer(None, error=AskError.REFUSED)


async def test_a_silent_server_meets_the_deadline(connection: SshConnection) -> None:
    async def silent(_: bytes, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    async with backend(silent) as server, node_client(connection, port=server.port, timeout_s=5) as client:
        assert await ask(client, "GET", "/", deadline_s=0.2) == Answer(None, error=AskError.TIMEOUT)
    async with backend(silent) as server, node_client(connection, port=server.port, timeout_s=0.2) as client:
        assert await ask(client, "GET", "/", deadline_s=5) == Answer(None, error=AskError.TIMEOUT)


async def test_a_body_that_trickles_meets_the_deadline_with_what_came(connection: SshConnection) -> None:
    async def trickle(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsome")
        await writer.drain()
        await asyncio.sleep(30)

    async with backend(trickle) as server, node_client(connection, port=server.port, timeout_s=5) as client:
        assert await ask(client, "GET", "/", deadline_s=0.3) == Answer(200, b"some", AskError.TIMEOUT)


async def test_a_huge_body_is_cut(connection: SshConnection) -> None:
    async def endless(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 65536)
            await writer.drain()

    async with backend(endless) as server, node_client(connection, port=server.port, timeout_s=5) as client:
        answer = await ask(client, "GET", "/metrics", deadline_s=5, limit_bytes=100_000)
    assert (answer.status, len(answer.body), answer.is_cut, answer.error) == (200, 100_000, True, None)


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-not-http\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"]
)
async def test_what_is_not_a_whole_answer_is_broken(connection: SshConnection, said: bytes) -> None:
    async def odd(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()
        writer.close()

    async with backend(odd) as server, node_client(connection, port=server.port, timeout_s=5) as client:
        assert (await ask(client, "GET", "/", deadline_s=5)).error is AskError.BROKEN


async def test_a_lost_ssh_connection_is_broken(other_sshd: Sshd) -> None:
    async def silent(_: bytes, __: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    connection = await open_connection(other_sshd.endpoint())
    async with backend(silent) as server, node_client(connection, port=server.port, timeout_s=5) as client:
        asking = asyncio.create_task(ask(client, "GET", "/", deadline_s=5))
        await asyncio.sleep(0.1)
        other_sshd.drop_connections()
        assert (await asking).error is AskError.BROKEN
        assert (await ask(client, "GET", "/", deadline_s=5)).error is AskError.BROKEN
    await connection.close()


async def test_forbidden_forwarding_is_not_taken_for_a_closed_port(tmp_path: Path) -> None:
    with Sshd(tmp_path / "strict", directives=["AllowTcpForwarding no"]) as server:
        connection = await open_connection(server.endpoint())
        async with backend(answering(b"")) as web, node_client(connection, port=web.port, timeout_s=5) as client:
            assert (await ask(client, "GET", "/", deadline_s=5)).error is AskError.FORBIDDEN
        await connection.close()


async def test_a_server_on_the_ipv6_loopback_is_reached(connection: SshConnection) -> None:
    try:
        async with (
            backend(answering(b"six"), host="::1") as server,
            node_client(connection, port=server.port, host="::1", timeout_s=5) as client,
        ):
            assert (await ask(client, "GET", "/", deadline_s=5)).body == b"six"
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")


async def test_the_environments_proxy_does_not_count(
    connection: SshConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with backend(answering(b"")) as server:
        async with node_client(connection, port=server.port, timeout_s=5) as client:
            assert await ask(client, "GET", "/", deadline_s=5) == Answer(200)
        async with open_client(f"http://127.0.0.1:{server.port}", headers={"X": "y"}, timeout_s=5) as client:
            assert (await client.get("/")).status_code == 200


async def test_errors_of_the_client_itself_are_httpx_errors(connection: SshConnection) -> None:
    async with node_client(connection, port=free_port(), timeout_s=5) as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get("/")
