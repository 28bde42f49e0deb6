"""The SSH server of one simulated node, on loopback: the only user of asyncssh in the simulator."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import asyncssh
from asyncssh import SSHKey

from service.simulator.commands import Command, Far
from service.simulator.door import Door

LOCAL_ADDRESSES = frozenset({"127.0.0.1", "localhost", "::1"})
"""Where a forwarded connection may go: the node itself."""
ACCEPTED_ENVIRONMENT = ("LANG", "LC_")
"""Prefixes of the variables a client may set, as Debian's sshd_config has it."""
ALGORITHMS = {
    "kex_algs": ["curve25519-sha256", "curve25519-sha256@libssh.org"],
    "encryption_algs": ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com"],
    "compression_algs": ["none"],
}
"""A short list that OpenSSH and asyncssh share; the post-quantum exchanges cost ten times as much here."""

__all__ = ["SSHKey", "SshServer", "new_key", "write_private_key"]


def new_key() -> SSHKey:
    """Return a fresh Ed25519 key."""
    return asyncssh.generate_private_key("ssh-ed25519")


def write_private_key(key: SSHKey, path: Path) -> None:
    """Write a private key in OpenSSH's format with mode 600."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_bytes(key.export_private_key())


class SshServer:
    """Accepts the fleet's client key on a loopback port and runs commands in a node's home."""

    def __init__(self, *, user: str, client_key: SSHKey, home: Path, environment: Mapping[str, str]) -> None:
        self.user = user
        self.home = home
        self.environment = dict(environment)
        self.is_refusing_logins = False
        self.host_key = new_key()
        self.door = Door(asyncio.Protocol)
        self._commands: set[Command] = set()
        self._client_key = client_key.public_data
        self._acceptor: asyncssh.SSHAcceptor | None = None

    async def start(self) -> None:
        """Listen; the port stays the same from one start to the next."""
        if self._acceptor is None:
            self._acceptor = await self._listen()
        self.door.open()

    def stop(self) -> None:
        """Close the port and every connection. Processes live on."""
        self.door.close()

    def bury_commands(self) -> None:
        """Collect the processes of all commands; they have been killed."""
        for command in self._commands:
            command.bury()
        self._commands.clear()

    def run(self, line: str, environment: Mapping[str, str], far: Far) -> Command:
        """Start one command in the node's home."""
        self._commands = {command for command in self._commands if not command.is_over}
        command = Command(line, home=self.home, environment={**self.environment, **environment}, far=far)
        self._commands.add(command)
        return command

    async def change_host_key(self) -> None:
        """Offer another host key to connections made from now on."""
        self.host_key = new_key()
        self._acceptor = await self._listen()

    def fingerprint(self) -> str:
        """Return the host key's fingerprint as `SHA256:…`."""
        return self.host_key.get_fingerprint("sha256")

    def public_line(self) -> str:
        """Return the host key as `ssh-ed25519 AAAA…`, the form a known_hosts file takes after the host."""
        return " ".join(self.host_key.export_public_key().decode().split()[:2])

    def accepts(self, user: str, key: SSHKey) -> bool:
        """Tell whether a login with a public key succeeds."""
        return not self.is_refusing_logins and user == self.user and key.public_data == self._client_key

    async def _listen(self) -> asyncssh.SSHAcceptor:
        options = asyncssh.SSHServerConnectionOptions(
            server_host_keys=[self.host_key],
            server_factory=lambda: _Login(self),
            encoding=None,
            password_auth=False,
            kbdint_auth=False,
            host_based_auth=False,
            gss_host=None,
            agent_forwarding=False,
            x11_forwarding=False,
            allow_scp=False,
            keepalive_interval=0,
            login_timeout=30,
            **ALGORITHMS,
        )
        return await asyncssh.listen("127.0.0.1", 0, tunnel=_DoorAsTunnel(self.door), options=options)


class _DoorAsTunnel(asyncssh.SSHListener):
    """Gives asyncssh connections that came through a door, by the way it takes those of an SSH tunnel."""

    def __init__(self, door: Door) -> None:
        super().__init__()
        self._door = door

    async def create_server(
        self, session_factory: Callable[[str, int], object], listen_host: str, listen_port: int
    ) -> asyncssh.SSHListener:
        self._door.factory = lambda: cast("asyncio.Protocol", session_factory(listen_host, listen_port))
        return self

    def get_port(self) -> int:
        return self._door.port

    def close(self) -> None:
        self._door.close()

    async def wait_closed(self) -> None:
        """Return at once: a door closes without waiting."""


class _Login(asyncssh.SSHServer):
    """Decides about one connection: who may come in, and where it may be forwarded to."""

    def __init__(self, server: SshServer) -> None:
        self._server = server

    def begin_auth(self, username: str) -> bool:  # noqa: ARG002 - asyncssh's signature
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: SSHKey) -> bool:
        return self._server.accepts(username, key)

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        return _CommandSession(self._server)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:  # noqa: ARG002
        if dest_host not in LOCAL_ADDRESSES:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "open failed")
        return True


class _CommandSession(asyncssh.SSHServerSession[bytes]):
    """One session channel: an exec or shell request and the process that serves it."""

    def __init__(self, server: SshServer) -> None:
        self._server = server
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._line = "exec /bin/sh"
        self._command: Command | None = None

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        self._line = command
        return True

    def session_started(self) -> None:
        channel = self._open_channel()
        sent = {k: v for k, v in channel.get_environment().items() if k.startswith(ACCEPTED_ENVIRONMENT)}
        client, own = channel.get_extra_info("peername"), channel.get_extra_info("sockname")
        origin = {"SSH_CONNECTION": f"{client[0]} {client[1]} {own[0]} {own[1]}"}
        self._command = self._server.run(self._line, {**sent, **origin}, self)

    def data_received(self, data: bytes, datatype: int | None) -> None:  # noqa: ARG002 - asyncssh's signature
        if self._command is not None:
            self._command.feed(data)

    def eof_received(self) -> bool:
        if self._command is not None:
            self._command.end_input()
        return True

    def signal_received(self, signal: str) -> None:
        number = _signal_number(signal)
        if self._command is not None and number is not None:
            self._command.signal(number)

    def pause_writing(self) -> None:
        if self._command is not None:
            self._command.pause_output()

    def resume_writing(self) -> None:
        if self._command is not None:
            self._command.resume_output()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncssh's signature
        self._channel = None
        if self._command is not None:
            self._command.detach()

    def output(self, stream: int, data: bytes) -> None:
        self._open_channel().write(data, asyncssh.EXTENDED_DATA_STDERR if stream == 2 else None)  # noqa: PLR2004

    def input_full(self, *, is_full: bool) -> None:
        channel = self._open_channel()
        if is_full:
            channel.pause_reading()
        else:
            channel.resume_reading()

    def ended(self, returncode: int) -> None:
        channel = self._open_channel()
        if returncode >= 0:
            channel.exit(returncode)
        else:
            channel.exit_with_signal(signal.Signals(-returncode).name.removeprefix("SIG"))

    def _open_channel(self) -> asyncssh.SSHServerChannel[bytes]:
        if self._channel is None:
            raise RuntimeError("the channel of this session is closed")
        return self._channel


def _signal_number(name: str) -> int | None:
    try:
        return signal.Signals[f"SIG{name}"]
    except KeyError:
        return None
