"""One connection to a real sshd: login, host keys, commands, limits, and each way it can fail."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.errors import (
    AuthenticationRefused,
    ChannelRefused,
    CredentialUnusable,
    HostKeyChanged,
    HostKeyUntrusted,
    NodeUnreachable,
    RemoteCommandFailed,
    RemoteError,
    RemoteTimeout,
)
from service.nodes.endpoint import Agent, KeyFile
from service.remote import ssh
from service.remote.ssh import SshConnection, fetch_host_key, open_connection
from tests.sshd import Sshd, free_port, make_key


async def test_runs_a_command_and_returns_all_it_said(connection: SshConnection) -> None:
    completed = await connection.run(["sh", "-c", "cat; echo no >&2; exit 7"], stdin=b"in\0put\xff", deadline_s=5)
    assert (completed.exit_status, completed.stdout, completed.stderr) == (7, b"in\0put\xff", b"no\n")


async def test_a_signalled_command_has_a_shells_status(connection: SshConnection) -> None:
    completed = await connection.run(["sh", "-c", "kill -KILL $$"], deadline_s=5)
    assert completed.exit_status == 137


@pytest.mark.parametrize(
    "argument",
    [
        "plain",
        "two words",
        "it's",
        'say "hi"',
        "$(touch pwned)",
        "`touch pwned`",
        "$HOME ${HOME} ~ *",
        "a;b|c&d>e<f",
        "!history !! !$",
        "back\\slash \\\\ \\'",
        "line\nbreak\n",
        "tab\tbell\x07",
        "ümlaut 中文 🙂",
        "",
        "-n",
        "%s %b \\0101",
        "\udcff\udcfe",
    ],
)
async def test_an_argument_arrives_byte_for_byte(connection: SshConnection, argument: str) -> None:
    completed = await connection.run(["printf", "[%s]", argument], deadline_s=5)
    assert completed.stdout == b"[" + argument.encode("utf-8", "surrogateescape") + b"]"


async def test_an_argument_with_a_nul_is_refused_here(connection: SshConnection) -> None:
    with pytest.raises(ValueError, match="NUL"):
        await connection.run(["echo", "a\0b"], deadline_s=5)


async def test_large_input_and_output_survive(connection: SshConnection) -> None:
    data = os.urandom(3 * 2**20)
    completed = await connection.run(["cat"], stdin=data, deadline_s=20)
    assert completed.stdout == data


async def test_too_much_output_ends_the_command(connection: SshConnection) -> None:
    with pytest.raises(RemoteCommandFailed, match="more than"):
        await connection.run(["head", "-c", "70000000", "/dev/zero"], deadline_s=20)
    assert (await connection.run(["true"], deadline_s=5)).exit_status == 0


async def test_a_slow_command_meets_its_deadline(connection: SshConnection) -> None:
    began = time.monotonic()
    with pytest.raises(RemoteTimeout, match=r"0\.2 s"):
        await connection.run(["sleep", "20"], deadline_s=0.2)
    assert time.monotonic() - began < 10
    assert (await connection.run(["true"], deadline_s=5)).exit_status == 0


async def test_a_command_that_ends_before_it_is_given_its_input(
    connection: SshConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_session = SshConnection._open_session

    async def until_it_has_ended(self: SshConnection, output: Any, argv: Sequence[str]) -> Any:
        channel = await open_session(self, output, argv)
        await output.ended.wait()
        return channel

    monkeypatch.setattr(SshConnection, "_open_session", until_it_has_ended)
    completed = await connection.run(["echo", "early"], stdin=b"nobody reads this", deadline_s=5)
    assert (completed.exit_status, completed.stdout) == (0, b"early\n")


async def test_the_ninth_command_waits_for_a_session(connection: SshConnection) -> None:
    slow = [asyncio.create_task(connection.run(["sleep", "0.3"], deadline_s=5)) for _ in range(ssh.SESSION_LIMIT)]
    await asyncio.sleep(0.1)
    began = time.monotonic()
    await connection.run(["true"], deadline_s=5)
    assert time.monotonic() - began > 0.1
    assert all(done.exit_status == 0 for done in await asyncio.gather(*slow))


async def test_more_sessions_than_sshd_allows_is_its_own_error(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "SESSION_LIMIT", 20)
    connection = await open_connection(sshd.endpoint())
    try:
        held = [asyncio.create_task(connection.run(["sleep", "1"], deadline_s=5)) for _ in range(10)]
        await asyncio.sleep(0.3)
        with pytest.raises(ChannelRefused):
            await connection.run(["true"], deadline_s=5)
        await asyncio.gather(*held)
        assert (await connection.run(["true"], deadline_s=5)).exit_status == 0
    finally:
        await connection.close()


async def test_the_fetched_host_key_is_the_servers(sshd: Sshd) -> None:
    key = await fetch_host_key(sshd.endpoint(is_pinned=False), deadline_s=5)
    assert (key.algorithm, key.public_line) == ("ssh-ed25519", sshd.host_key)
    assert key.fingerprint == sshd.host_key_fingerprint


async def test_nothing_is_tried_without_a_pinned_key(sshd: Sshd) -> None:
    with pytest.raises(HostKeyUntrusted):
        await open_connection(sshd.endpoint(is_pinned=False))


@pytest.mark.parametrize("new_type", ["ed25519", "rsa", "ecdsa"])
async def test_a_changed_host_key_is_a_hard_stop_that_shows_the_new_one(other_sshd: Sshd, new_type: str) -> None:
    before = other_sshd.endpoint()
    other_sshd.stop()
    other_sshd.change_host_key(new_type)
    other_sshd.start()
    with pytest.raises(HostKeyChanged) as caught:
        await open_connection(before)
    assert caught.value.context["fingerprint"] == other_sshd.host_key_fingerprint
    assert caught.value.context["public_line"] == other_sshd.host_key


@pytest.mark.parametrize("key_type", ["rsa", "ecdsa"])
async def test_other_kinds_of_host_key_can_be_pinned(tmp_path: Path, key_type: str) -> None:
    with Sshd(tmp_path / "sshd", key_type=key_type) as server:
        connection = await open_connection(server.endpoint())
        assert (await connection.run(["true"], deadline_s=5)).exit_status == 0
        await connection.close()


async def test_a_garbled_pinned_key_is_untrusted(sshd: Sshd) -> None:
    with pytest.raises(HostKeyUntrusted, match="cannot be read"):
        await open_connection(replace(sshd.endpoint(), host_key="ssh-ed25519 nonsense"))


async def test_a_key_that_the_server_does_not_know_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    with pytest.raises(AuthenticationRefused):
        await open_connection(sshd.endpoint(credential=KeyFile(str(tmp_path / "stranger"))))


async def test_an_unknown_user_is_refused(sshd: Sshd) -> None:
    with pytest.raises(AuthenticationRefused):
        await open_connection(replace(sshd.endpoint(), user="nobody-of-that-name"))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("absent", "cannot be read"),
        ("directory", "is not a file"),
        ("world_readable", "mode 644"),
        ("group_readable", "mode 640"),
        ("encrypted", "is encrypted"),
        ("garbage", "no private key"),
        ("empty", "no private key"),
        ("public", "no private key"),
    ],
)
async def test_an_unusable_key_file_says_why(sshd: Sshd, tmp_path: Path, fault: str, said: str) -> None:
    path = tmp_path / "key"
    match fault:
        case "directory":
            path.mkdir()
        case "world_readable" | "group_readable":
            make_key(path)
            path.chmod(0o644 if fault == "world_readable" else 0o640)
        case "encrypted":
            make_key(path, passphrase="open sesame")  # noqa: S106
        case "garbage" | "empty":
            path.write_text("not a key\n" if fault == "garbage" else "")
            path.chmod(0o600)
        case "public":
            shutil.copy(sshd.key_path.with_name("client_key.pub"), path)
            path.chmod(0o600)
    with pytest.raises(CredentialUnusable, match=said):
        await open_connection(sshd.endpoint(credential=KeyFile(str(path))))


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    socket_path = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", socket_path], stdout=subprocess.DEVNULL) as process:
        while not socket_path.exists():
            time.sleep(0.01)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket_path))
        yield socket_path
        process.kill()


async def test_the_agents_keys_log_in(sshd: Sshd, agent: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    for key in (tmp_path / "other", sshd.key_path):
        subprocess.run(["ssh-add", "-q", key], check=True, env={**os.environ, "SSH_AUTH_SOCK": str(agent)})
    connection = await open_connection(sshd.endpoint(credential=Agent()))
    assert (await connection.run(["true"], deadline_s=5)).exit_status == 0
    await connection.close()


@pytest.mark.usefixtures("agent")
async def test_an_agent_without_keys_is_unusable(sshd: Sshd) -> None:
    with pytest.raises(CredentialUnusable, match="holds no key"):
        await open_connection(sshd.endpoint(credential=Agent()))


async def test_no_agent_is_unusable(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(CredentialUnusable, match="SSH_AUTH_SOCK"):
        await open_connection(sshd.endpoint(credential=Agent()))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "nowhere"))
    with pytest.raises(CredentialUnusable, match="does not answer"):
        await open_connection(sshd.endpoint(credential=Agent()))


async def test_the_operators_own_keys_and_settings_do_not_count(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    shutil.copy(sshd.key_path, tmp_path / ".ssh" / "id_ed25519")
    (tmp_path / ".ssh" / "config").write_text("Host *\n  User nobody\n  ProxyCommand false\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    make_key(tmp_path / "stranger")
    with pytest.raises(AuthenticationRefused):
        await open_connection(sshd.endpoint(credential=KeyFile(str(tmp_path / "stranger"))))


async def test_a_closed_port_and_a_bad_address_are_unreachable(sshd: Sshd) -> None:
    with pytest.raises(NodeUnreachable):
        await open_connection(replace(sshd.endpoint(), port=free_port()))
    with pytest.raises(NodeUnreachable, match="resolved"):
        await open_connection(replace(sshd.endpoint(), address="no-such-host.invalid"))
    with pytest.raises(NodeUnreachable):
        await fetch_host_key(replace(sshd.endpoint(), port=free_port()), deadline_s=5)


async def test_something_that_is_not_ssh_is_unreachable(sshd: Sshd) -> None:
    async def chat(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(chat, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(NodeUnreachable):
            await open_connection(replace(sshd.endpoint(), port=port))


async def test_a_frozen_sshd_meets_the_deadline(other_sshd: Sshd) -> None:
    other_sshd.pause()
    with pytest.raises(RemoteTimeout):
        await open_connection(other_sshd.endpoint(), deadline_s=0.3)
    with pytest.raises(RemoteTimeout):
        await fetch_host_key(other_sshd.endpoint(), deadline_s=0.3)


async def test_a_connection_whose_sshd_freezes_is_lost_within_seconds(
    other_sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ssh._FIXED_OPTIONS, "keepalive_interval", 0.1)
    connection = await open_connection(other_sshd.endpoint())
    closed: asyncio.Future[RemoteError | None] = asyncio.get_running_loop().create_future()
    await connection.open_stream(["cat"], on_line=lambda _: None, on_close=closed.set_result)
    running = asyncio.create_task(connection.run(["sleep", "9"], deadline_s=9))
    await asyncio.sleep(0.1)
    other_sshd.pause()
    assert isinstance(await asyncio.wait_for(closed, 3), NodeUnreachable)
    with pytest.raises(NodeUnreachable):
        await running
    assert not connection.is_open
    with pytest.raises(NodeUnreachable):
        await connection.run(["true"], deadline_s=5)


async def test_a_lost_connection_ends_every_wait(other_sshd: Sshd) -> None:
    connection = await open_connection(other_sshd.endpoint())
    running = asyncio.create_task(connection.run(["sleep", "9"], deadline_s=9))
    await asyncio.sleep(0.1)
    other_sshd.drop_connections()
    with pytest.raises(NodeUnreachable):
        await running
    assert not connection.is_open
    await connection.close()


async def test_a_jump_host_leads_to_the_node(sshd: Sshd, other_sshd: Sshd) -> None:
    through = sshd.endpoint(jump=other_sshd.endpoint())
    key = await fetch_host_key(replace(through, host_key=None), deadline_s=5)
    assert key.public_line == sshd.host_key
    connection = await open_connection(through)
    completed = await connection.run(["printenv", "HOME"], deadline_s=5)
    assert completed.stdout.decode().strip() == str(sshd.home)
    other_sshd.drop_connections()
    with pytest.raises(NodeUnreachable):
        await connection.run(["sleep", "5"], deadline_s=5)
    await connection.close()


async def test_a_jump_hosts_faults_are_told_as_such(sshd: Sshd, other_sshd: Sshd) -> None:
    with pytest.raises(HostKeyUntrusted):
        await open_connection(sshd.endpoint(jump=other_sshd.endpoint(is_pinned=False)))
    with pytest.raises(NodeUnreachable, match="jump host"):
        await open_connection(replace(sshd.endpoint(jump=other_sshd.endpoint()), port=free_port()))


async def test_a_stream_hands_on_lines_and_takes_input(connection: SshConnection) -> None:
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    closed: asyncio.Future[RemoteError | None] = asyncio.get_running_loop().create_future()
    stream = await connection.open_stream(["cat"], on_line=lines.put_nowait, on_close=closed.set_result)
    stream.send(b"one\ntw")
    stream.send(b"o\n" + b"x" * 300_000 + b"\nhalf")
    assert [await lines.get() for _ in range(3)] == [b"one", b"two", b"x" * 300_000]
    await stream.close()
    assert await closed is None
    assert lines.empty()


async def test_a_stream_that_fails_says_how(connection: SshConnection) -> None:
    closed: asyncio.Future[RemoteError | None] = asyncio.get_running_loop().create_future()
    await connection.open_stream(
        ["sh", "-c", "echo broken >&2; exit 3"], on_line=lambda _: None, on_close=closed.set_result
    )
    error = await closed
    assert isinstance(error, RemoteCommandFailed)
    assert "status 3: broken" in error.detail


async def test_a_line_that_cannot_be_read_ends_the_stream_at_once(connection: SshConnection) -> None:
    def refuse(line: bytes) -> None:
        raise ValueError(f"odd {line!r}")

    closed: asyncio.Future[RemoteError | None] = asyncio.get_running_loop().create_future()
    await connection.open_stream(["sh", "-c", "echo x; sleep 9"], on_line=refuse, on_close=closed.set_result)
    error = await asyncio.wait_for(closed, 3)
    assert isinstance(error, RemoteCommandFailed)
    assert "odd" in error.detail


async def test_an_ended_stream_frees_its_session(connection: SshConnection) -> None:
    for _ in range(3 * ssh.SESSION_LIMIT):
        stream = await connection.open_stream(["cat"], on_line=lambda _: None, on_close=lambda _: None)
        await stream.close()
    assert (await connection.run(["true"], deadline_s=5)).exit_status == 0
