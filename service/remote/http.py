"""HTTP: to servers on a node through its SSH connection, to Vigil itself for the command line, and to webhooks.

The only module that imports httpx2 (and httpcore2, the layer below that it brings). A request to a node rides on a TCP
channel of the SSH connection, so nothing listens here or there for it, and channels are kept for the next request.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import httpcore2
import httpx2

from service.errors import ChannelRefused, RemoteError
from service.remote.sessions import TcpChannel

if TYPE_CHECKING:  # the command line asks HTTP only, and SSH's cryptography takes half a second to load
    from service.remote.ssh import SshConnection

RequestClient = httpx2.AsyncClient
"""What the clients of this module are."""
RequestFailed = httpx2.HTTPError
"""What a request through a client of this module raises when there is no answer."""
NotConnected = httpx2.ConnectError
"""The part of it that says that nothing was asked: there was no connection."""
KEPT_CHANNELS = 8
KEPT_FOR_S = 60.0
BODY_LIMIT_BYTES = 2**20
IGNORED_BYTES = 2**16
"""So much of an answer that nobody reads is taken in, for the other side's sake."""
LOOKUPS_AT_ONCE = 2
"""A lookup that hangs holds a thread of a pool that others use, too."""


class AskError(StrEnum):
    """Why a question got no answer."""

    REFUSED = "refused"
    """Nobody listens on the port."""
    TIMEOUT = "timeout"
    """Nothing came within the deadline, or only a part."""
    BROKEN = "broken"
    """The connection to the node or to the server broke, or what came was not HTTP."""
    FORBIDDEN = "forbidden"
    """The node's sshd does not allow TCP forwarding, so nothing is known about the server."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question brought: a status and at most so many bytes of the body, or an error."""

    status: int | None
    body: bytes = field(default=b"", repr=False)
    error: AskError | None = None
    is_cut: bool = False
    """The body was longer than what was kept."""
    detail: str = ""
    """What the library says of an error."""


def node_client(
    connection: "SshConnection", *, port: int, host: str = "127.0.0.1", timeout_s: float
) -> httpx2.AsyncClient:
    """Return a client for a server that listens on `host`:`port` of the node, or is reachable from there.

    `timeout_s` bounds each connect, read and write, not the whole request: wrap that in `asyncio.timeout` or `ask`.
    Redirects are answers, not instructions; proxies and other settings of the environment do not count.
    """
    address = f"[{host}]" if ":" in host else host
    pool = httpcore2.AsyncConnectionPool(
        max_connections=None,
        max_keepalive_connections=KEPT_CHANNELS,
        keepalive_expiry=KEPT_FOR_S,
        network_backend=_ChannelBackend(connection),
    )
    return httpx2.AsyncClient(
        transport=_PoolTransport(pool),
        base_url=f"http://{address}:{port}",
        timeout=timeout_s,
        follow_redirects=False,
        trust_env=False,
    )


def open_client(base_url: str, *, headers: Mapping[str, str], timeout_s: float) -> httpx2.AsyncClient:
    """Return a client for Vigil's own API, as the command line uses it."""
    return httpx2.AsyncClient(
        base_url=base_url, headers=dict(headers), timeout=timeout_s, follow_redirects=False, trust_env=False
    )


def outgoing_client(refuse: Callable[[str], None]) -> httpx2.AsyncClient:
    """Return a client for addresses that somebody gave us.

    A name is looked up at every connect, and `refuse` raises OSError for an address that must not be called: what a
    name stood for earlier does not count. No connection is kept, no redirect followed, no proxy used.
    """
    pool = httpcore2.AsyncConnectionPool(
        ssl_context=ssl.create_default_context(),
        max_connections=None,
        max_keepalive_connections=0,
        network_backend=_OutgoingBackend(refuse),
    )
    return httpx2.AsyncClient(transport=_PoolTransport(pool), follow_redirects=False, trust_env=False)


async def post(
    client: httpx2.AsyncClient, url: str, *, content: bytes, headers: Mapping[str, str], deadline_s: float
) -> Answer:
    """Send bytes and return the status that came of it, or an error; the body of the answer is not looked at."""
    status: int | None = None
    ignored = 0
    try:
        async with (
            asyncio.timeout(deadline_s),
            client.stream("POST", url, content=content, headers=headers, timeout=deadline_s) as response,
        ):
            status = response.status_code
            async for chunk in response.aiter_raw():
                ignored += len(chunk)
                if ignored > IGNORED_BYTES:
                    break
    except (TimeoutError, httpx2.TimeoutException):
        return Answer(status, error=None if status else AskError.TIMEOUT, detail=f"no answer within {deadline_s:g} s")
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
        return Answer(status, error=None if status else AskError.BROKEN, detail=str(error) or type(error).__name__)
    return Answer(status)


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses that a name stands for; OSError when there is none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in found))


async def ask(  # noqa: PLR0913  # all but three have a default
    client: httpx2.AsyncClient,
    method: str,
    path: str,
    *,
    deadline_s: float,
    headers: Mapping[str, str] | None = None,
    json: object = None,
    limit_bytes: int = BODY_LIMIT_BYTES,
) -> Answer:
    """Send one request and return what came of it; never raises for anything the node or the server does.

    The deadline covers everything from the opening of a channel to the last byte kept.
    """
    status: int | None = None
    body = bytearray()
    try:
        async with (
            asyncio.timeout(deadline_s),
            client.stream(method, path, headers=headers, json=json) as response,
        ):
            status = response.status_code
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > limit_bytes:
                    return Answer(status, bytes(body[:limit_bytes]), is_cut=True)
    except (TimeoutError, httpx2.TimeoutException):
        return Answer(status, bytes(body), AskError.TIMEOUT)
    except (httpx2.HTTPError, httpx2.StreamError, RemoteError) as error:
        return Answer(status, bytes(body), _kind(error))
    return Answer(status, bytes(body))


class _PoolTransport(httpx2.AsyncBaseTransport):
    """httpx2's requests over httpcore2's pool, which connects as it was told to."""

    def __init__(self, pool: httpcore2.AsyncConnectionPool) -> None:
        self._pool = pool

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        with _as_httpx_errors():
            response = await self._pool.handle_async_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(
                        scheme=request.url.raw_scheme,
                        host=request.url.raw_host,
                        port=request.url.port,
                        target=request.url.raw_path,
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(response),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: httpcore2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx_errors():
            async for part in self._response.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._response.aclose()


class _ChannelBackend(httpcore2.AsyncNetworkBackend):
    def __init__(self, connection: "SshConnection") -> None:
        self._connection = connection

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore2's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        del local_address, socket_options
        try:
            async with asyncio.timeout(timeout):
                channel = await self._connection.open_tcp(host, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"no channel to {host}:{port} within {timeout} s") from error
        except ConnectionRefusedError as error:
            raise _NobodyListens(str(error)) from error
        except ChannelRefused as error:
            raise _ForwardingForbidden(str(error)) from error
        except RemoteError as error:
            raise httpcore2.ConnectError(str(error)) from error
        return _ChannelStream(channel)


class _OutgoingBackend(httpcore2.AsyncNetworkBackend):
    """Connects to an address that was looked at, never to a name: between two lookups it may stand for another."""

    def __init__(self, refuse: Callable[[str], None]) -> None:
        self._refuse = refuse
        self._sockets = httpcore2.AnyIOBackend()
        self._lookups = asyncio.Semaphore(LOOKUPS_AT_ONCE)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore2's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with self._lookups:
                addresses = await look_up(host.removeprefix("[").removesuffix("]"), port)
            for address in addresses:
                self._refuse(address)
        except OSError as error:
            raise httpcore2.ConnectError(error.strerror or str(error)) from error
        for address in addresses[:-1]:
            try:
                return await self._sockets.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._sockets.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)


class _ChannelStream(httpcore2.AsyncNetworkStream):
    def __init__(self, channel: TcpChannel) -> None:
        self._channel = channel

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  # httpcore2's signature
        try:
            async with asyncio.timeout(timeout):
                return await self._channel.read(max_bytes)
        except TimeoutError as error:
            raise httpcore2.ReadTimeout(f"nothing within {timeout} s") from error
        except RemoteError as error:
            raise httpcore2.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  # httpcore2's signature
        try:
            async with asyncio.timeout(timeout):
                await self._channel.write(buffer)
        except TimeoutError as error:
            raise httpcore2.WriteTimeout(f"not taken within {timeout} s") from error
        except RemoteError as error:
            raise httpcore2.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._channel.close()

    def get_extra_info(self, info: str) -> Any:
        """Answer the pool's one question: whether an idle connection has something to say, which is its end."""
        return self._channel.is_ended if info == "is_readable" else None


class _NobodyListens(httpcore2.ConnectError):
    """The node answered for the port: closed."""


class _ForwardingForbidden(httpcore2.ConnectError):
    """The node's sshd did not even try."""


_HTTPX_ERRORS: tuple[tuple[type[Exception], type[httpx2.TransportError]], ...] = (
    (httpcore2.ConnectTimeout, httpx2.ConnectTimeout),
    (httpcore2.ReadTimeout, httpx2.ReadTimeout),
    (httpcore2.WriteTimeout, httpx2.WriteTimeout),
    (httpcore2.PoolTimeout, httpx2.PoolTimeout),
    (httpcore2.ConnectError, httpx2.ConnectError),
    (httpcore2.ReadError, httpx2.ReadError),
    (httpcore2.WriteError, httpx2.WriteError),
    (httpcore2.LocalProtocolError, httpx2.LocalProtocolError),
    (httpcore2.ProtocolError, httpx2.RemoteProtocolError),
    (httpcore2.UnsupportedProtocol, httpx2.UnsupportedProtocol),
)


@contextmanager
def _as_httpx_errors() -> Generator[None]:
    try:
        yield
    except tuple(below for below, _ in _HTTPX_ERRORS) as error:
        kind = next(above for below, above in _HTTPX_ERRORS if isinstance(error, below))
        raise kind(str(error)) from error


def _kind(error: BaseException) -> AskError:
    match error.__cause__:
        case _NobodyListens():
            return AskError.REFUSED
        case _ForwardingForbidden():
            return AskError.FORBIDDEN
        case _:
            return AskError.BROKEN
