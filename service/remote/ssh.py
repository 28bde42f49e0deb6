"""SSH to one node: the only module that imports asyncssh; sessions, streams, TCP channels and what their failures mean.

Facts behind the options (OpenSSH 9.2, measured): MaxSessions is 10 and TCP channels do not count, so eight sessions at
once leave room; `run(timeout=)` of asyncssh does not cover the opening of the channel (its issue 626), so every await
here is inside one `asyncio.timeout`; a peer that stops answering is noticed after three keepalives of five seconds.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from signal import Signals
from typing import Any, assert_never

import asyncssh
from asyncssh.constants import OPEN_CONNECT_FAILED

from service.errors import (
    AuthenticationRefused,
    ChannelRefused,
    CredentialUnusable,
    HostKeyChanged,
    HostKeyUntrusted,
    NodeUnreachable,
    RemoteError,
    RemoteTimeout,
)
from service.nodes.endpoint import Agent, Endpoint, HostKey, KeyFile
from service.remote.command_line import command_line
from service.remote.credentials import check_key_file
from service.remote.sessions import Completed, Gathering, LineFeed, Sink, Stream, TcpChannel

SESSION_LIMIT = 8
"""Sessions at once on one connection; sshd's MaxSessions is 10 unless an administrator lowered it."""
OPEN_DEADLINE_S = 10.0
KEEPALIVE_INTERVAL_S = 5
KEEPALIVE_COUNT = 3
_LOST = (OSError, asyncssh.Error)
_HOST_KEY_ALGORITHMS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_RSA_ALGORITHMS = ("rsa-sha2-512", "rsa-sha2-256")
_CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes256-ctr",
)
"""aes128-gcm first: it costs a quarter less CPU than chacha20, which asyncssh would choose."""


async def fetch_host_key(endpoint: Endpoint, *, deadline_s: float) -> HostKey:
    """Return the key that the endpoint's server offers, without logging in there.

    Through the endpoint's jump host when it has one; that one must be trusted and let us in.
    Raises NodeUnreachable, RemoteTimeout, or what `open_connection` raises for the jump host.
    """
    async with _deadline(deadline_s, f"fetching the host key of {endpoint.label}"):
        jump = await open_connection(endpoint.jump, deadline_s=deadline_s) if endpoint.jump else None
        try:
            key = await asyncssh.get_server_host_key(
                endpoint.address,
                endpoint.port,
                tunnel=jump.transport if jump else (),
                server_host_key_algs=[*_HOST_KEY_ALGORITHMS, *_RSA_ALGORITHMS],
                config=None,
            )
        except _LOST as error:
            raise _connect_error(error, endpoint) from error
        finally:
            if jump:
                await jump.close()
    if key is None:
        raise NodeUnreachable(f"{endpoint.label} offered no host key")
    return _host_key(key)


async def open_connection(
    endpoint: Endpoint, *, deadline_s: float = OPEN_DEADLINE_S, jump: "SshConnection | None" = None
) -> "SshConnection":
    """Connect and log in. The host key must be pinned and the credential usable, or nothing is tried.

    Through `jump` if given (it stays the caller's), else through a connection of its own to the endpoint's jump host.
    Raises HostKeyUntrusted, HostKeyChanged, CredentialUnusable, AuthenticationRefused, NodeUnreachable, RemoteTimeout.
    """
    if endpoint.host_key is None:
        raise HostKeyUntrusted(f"the host key of {endpoint.label} is not confirmed")
    pinned = _pinned_key(endpoint.host_key)
    async with _deadline(deadline_s, f"connecting to {endpoint.label}"):
        own_jump = await open_connection(endpoint.jump, deadline_s=deadline_s) if endpoint.jump and not jump else None
        try:
            transport = await _log_in(endpoint, pinned, jump or own_jump)
        except BaseException:
            if own_jump:
                await own_jump.close()
            raise
    return SshConnection(transport, endpoint.label, own_jump)


class SshConnection:
    """A live connection to one node, shared by all who talk to it. Made by `open_connection`."""

    def __init__(
        self, transport: asyncssh.SSHClientConnection, label: str, jump: "SshConnection | None" = None
    ) -> None:
        self.transport = transport
        self.label = label
        self._jump = jump
        self._sessions = asyncio.Semaphore(SESSION_LIMIT)

    @property
    def is_open(self) -> bool:
        """Tell whether the connection still stands, as far as is known."""
        return not self.transport.is_closed()

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", deadline_s: float) -> Completed:
        """Run a command to its end and return all it said; a status other than 0 is no error here.

        The deadline covers the wait for a free session too. When it passes, the channel is closed and RemoteTimeout
        raised; the process on the node may go on. Raises NodeUnreachable when the connection is lost, ChannelRefused
        when sshd allows no more sessions, RemoteCommandFailed when there is too much output.
        """
        async with _deadline(deadline_s, f"running {argv[0]} on {self.label}"), self._sessions:
            output = Gathering()
            channel = await self._open_session(output, argv)
            try:
                with suppress(BrokenPipeError):  # it may end before it has read its input: what it said tells
                    channel.write(stdin)
                    channel.write_eof()
                await output.ended.wait()
            finally:
                channel.close()
        return output.completed(self.label)

    async def open_stream(
        self,
        argv: Sequence[str],
        *,
        on_line: Callable[[bytes], None],
        on_close: Callable[[RemoteError | None], None],
        deadline_s: float = OPEN_DEADLINE_S,
    ) -> Stream:
        """Start a command that talks in lines for as long as it lives; it takes one of the sessions until it ends.

        `on_line` gets each line without its end. `on_close` is called once: with None when the command ended with
        status 0 or the stream was closed here, else with the error. An exception from `on_line` closes the stream.
        """
        async with _deadline(deadline_s, f"starting {argv[0]} on {self.label}"):
            await self._sessions.acquire()
            try:
                feed = LineFeed(self.label, on_line, partial(self._stream_ended, on_close))
                channel = await self._open_session(feed, argv)
            except BaseException:
                self._sessions.release()
                raise
        return Stream(channel, feed)

    async def open_tcp(self, host: str, port: int) -> TcpChannel:
        """Open a TCP channel from the node to `host`:`port`, as the node sees it; bounded by the caller's timeout.

        Raises ConnectionRefusedError when nobody listens there, ChannelRefused when sshd forbids forwarding,
        NodeUnreachable when the connection is lost.
        """
        try:
            reader, writer = await self.transport.open_connection(host, port, encoding=None)
        except asyncssh.ChannelOpenError as error:
            if self.is_open and error.code == OPEN_CONNECT_FAILED:
                raise ConnectionRefusedError(f"{host}:{port} on {self.label}: {error.reason}") from error
            raise self._channel_error(error) from error
        except _LOST as error:
            raise NodeUnreachable(f"the connection to {self.label} is lost: {error}") from error
        return TcpChannel(reader, writer, lost_as=_LOST)

    async def close(self) -> None:
        """Close the connection and all its channels at once; safe to call twice."""
        self.transport.abort()
        with suppress(*_LOST):
            await self.transport.wait_closed()
        if self._jump:
            await self._jump.close()

    def _stream_ended(self, on_close: Callable[[RemoteError | None], None], error: RemoteError | None) -> None:
        self._sessions.release()
        on_close(error)

    async def _open_session(self, sink: Sink, argv: Sequence[str]) -> asyncssh.SSHClientChannel[bytes]:
        try:
            channel, _ = await self.transport.create_session(
                lambda: _Session(sink), command_line(argv), encoding=None, request_pty=False
            )
        except asyncssh.ChannelOpenError as error:
            raise self._channel_error(error) from error
        except _LOST as error:
            raise NodeUnreachable(f"the connection to {self.label} is lost: {error}") from error
        return channel

    def _channel_error(self, error: asyncssh.ChannelOpenError) -> RemoteError:
        if not self.is_open:
            return NodeUnreachable(f"the connection to {self.label} is lost: {error.reason}")
        return ChannelRefused(f"sshd of {self.label} refused a channel: {error.reason}")


class _Session(asyncssh.SSHClientSession[bytes]):
    """The callbacks of one session, handed on to its sink; callbacks cost less than asyncssh's process streams."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._exit_status: int | None = None

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._channel = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if not self._sink.receive(data, is_stderr=datatype == asyncssh.EXTENDED_DATA_STDERR) and self._channel:
            self._channel.abort()
            self._sink.finish(None, None)  # sshd confirms only once the command has ended, which may be never

    def exit_status_received(self, status: int) -> None:
        self._exit_status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:  # noqa: FBT001
        del core_dumped, msg, lang
        number = Signals.__members__.get(f"SIG{signal}")
        self._exit_status = 128 + number if number else 255

    def connection_lost(self, exc: Exception | None) -> None:
        self._sink.finish(self._exit_status, exc)


class _Watchful(asyncssh.SSHClient):
    """Keeps the key that a server offered when it is not the pinned one."""

    def __init__(self) -> None:
        self.offered: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        del host, addr, port
        self.offered = key
        return False


async def _log_in(
    endpoint: Endpoint, pinned: asyncssh.SSHKey, jump: SshConnection | None
) -> asyncssh.SSHClientConnection:
    client = _Watchful()
    async with _client_keys(endpoint) as keys:
        try:
            return await asyncssh.connect(
                endpoint.address,
                endpoint.port,
                username=endpoint.user,
                client_factory=lambda: client,
                tunnel=jump.transport if jump else (),
                known_hosts=([pinned], [], []),
                server_host_key_algs=_algorithms(pinned),
                client_keys=keys,
                **_FIXED_OPTIONS,
            )
        except _LOST as error:
            if client.offered:
                raise _changed_key(endpoint, client.offered) from error
            raise _connect_error(error, endpoint) from error


_FIXED_OPTIONS: dict[str, Any] = {
    "config": None,
    "agent_path": None,
    "preferred_auth": ("publickey",),
    "password_auth": False,
    "kbdint_auth": False,
    "host_based_auth": False,
    "gss_host": None,
    "x509_trusted_certs": None,
    "x509_trusted_cert_paths": [],
    "agent_forwarding": False,
    "x11_forwarding": False,
    "compression_algs": ["none"],
    "encryption_algs": list(_CIPHERS),
    "keepalive_interval": KEEPALIVE_INTERVAL_S,
    "keepalive_count_max": KEEPALIVE_COUNT,
}
"""Nothing of the operator's own ~/.ssh may change what Vigil does, and nothing but a key logs in."""


@asynccontextmanager
async def _client_keys(endpoint: Endpoint) -> AsyncIterator[list[asyncssh.SSHKeyPair]]:
    match endpoint.credential:
        case KeyFile(path):
            yield await asyncio.to_thread(_load_key_file, path)
        case Agent():
            async with _agent() as agent:
                yield await _agent_keys(agent)
        case _:
            assert_never(endpoint.credential)


def _load_key_file(path: str) -> list[asyncssh.SSHKeyPair]:
    key = check_key_file(path)
    try:
        return list(asyncssh.load_keypairs(str(key)))
    except (OSError, ValueError) as error:
        if "passphrase" in str(error).lower():  # asyncssh has no class of its own for this
            raise CredentialUnusable(f"the key file {path} is encrypted", path=path) from error
        raise CredentialUnusable(f"the key file {path} holds no private key: {error}", path=path) from error


@asynccontextmanager
async def _agent() -> AsyncIterator[asyncssh.SSHAgentClient]:
    path = os.environ.get("SSH_AUTH_SOCK")
    if not path:
        raise CredentialUnusable("there is no SSH agent: SSH_AUTH_SOCK is not set")
    try:
        agent = await asyncssh.connect_agent(path)
    except _LOST as error:
        raise CredentialUnusable(f"the SSH agent at {path} does not answer: {error}") from error
    async with agent:
        yield agent


async def _agent_keys(agent: asyncssh.SSHAgentClient) -> list[asyncssh.SSHKeyPair]:
    try:
        keys = list(await agent.get_keys())
    except ValueError as error:
        raise CredentialUnusable(f"the SSH agent gives no keys: {error}") from error
    if not keys:
        raise CredentialUnusable("the SSH agent holds no key")
    return keys


def _connect_error(error: Exception, endpoint: Endpoint) -> RemoteError:
    where = endpoint.label
    match error:
        case asyncssh.PermissionDenied():
            return AuthenticationRefused(f"{where} refused the login: {error.reason}")
        case asyncssh.DisconnectError() if "authentication failures" in error.reason.lower():
            return AuthenticationRefused(f"{where} refused the login: {error.reason}")
        case asyncssh.ChannelOpenError():
            return NodeUnreachable(f"the jump host cannot reach {where}: {error.reason}")
        case asyncssh.Error():
            return NodeUnreachable(f"no SSH connection to {where}: {error.reason}")
        case socket.gaierror():
            return NodeUnreachable(f"the address of {where} cannot be resolved: {error.strerror}")
        case _:
            return NodeUnreachable(f"no connection to {where}: {error}")


def _changed_key(endpoint: Endpoint, offered: asyncssh.SSHKey) -> HostKeyChanged:
    key = _host_key(offered)
    return HostKeyChanged(
        f"{endpoint.label} offers the {key.algorithm} key {key.fingerprint}, which is not the pinned one",
        fingerprint=key.fingerprint,
        public_line=key.public_line,
        algorithm=key.algorithm,
    )


def _host_key(key: asyncssh.SSHKey) -> HostKey:
    line = key.export_public_key().decode("ascii").split()
    return HostKey(line[0], " ".join(line[:2]), key.get_fingerprint())


def _pinned_key(line: str) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_public_key(line)
    except asyncssh.KeyImportError as error:
        raise HostKeyUntrusted(f"the pinned host key cannot be read: {error}") from error


def _algorithms(pinned: asyncssh.SSHKey) -> list[str]:
    """Return the algorithms to accept: the pinned key's first, the others so that a changed key is seen as one."""
    kind = pinned.get_algorithm()
    own = _RSA_ALGORITHMS if kind == "ssh-rsa" else (kind,)
    return [*own, *(name for name in (*_HOST_KEY_ALGORITHMS, *_RSA_ALGORITHMS) if name not in own)]


@asynccontextmanager
async def _deadline(deadline_s: float, doing: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(deadline_s):
            yield
    except TimeoutError as error:
        raise RemoteTimeout(f"{doing} took longer than {deadline_s:g} s") from error
