"""Commands, streams and forwards of a node's SSH server, seen by a client."""

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import asyncssh
import pytest

from service.simulator.homes import gpu_uuids
from service.simulator.node import SimulatedNode
from service.simulator.specs import NodeSpec
from tests.simulator.clients import Client, connect

MIB = 1 << 20


async def eventually(condition: Callable[[], bool], what: str) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not in time: {what}")


async def test_command_runs_in_the_home_with_an_environment_of_its_own(
    node: SimulatedNode, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVICE", "x")
    result = await client.run('pwd; echo "$HOME|$USER|$SIMULATED_NODE|$SECRET_OF_THE_SERVICE|"; echo bad >&2; exit 7')
    assert result.exit_status == 7
    assert result.stdout == f"{node.home}\n{node.home}|vigil|solo||\n"
    assert result.stderr == "bad\n"


async def test_binary_input_comes_back_whole(client: Client) -> None:
    data = os.urandom(3 * MIB)
    result = await client.run("cat", input=data, encoding=None)
    assert isinstance(result.stdout, bytes)
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(data).digest()


async def test_output_waits_for_a_slow_reader(node: SimulatedNode, client: Client) -> None:
    process = await client.create_process(f"head -c {48 * MIB} /dev/zero; touch finished", encoding=None)
    await asyncio.sleep(0.3)
    assert not (node.home / "finished").exists()
    total = 0
    while chunk := await process.stdout.read(MIB):
        total += len(chunk)
    await process.wait()
    assert total == 48 * MIB
    assert (node.home / "finished").exists()


async def test_input_waits_for_a_slow_process(client: Client) -> None:
    process = await client.create_process("sleep 0.3; wc -c", encoding=None)
    process.stdin.write(b"x" * (16 * MIB))
    process.stdin.write_eof()
    result = await process.wait()
    assert int(result.stdout or b"0") == 16 * MIB


async def test_half_closed_input_leaves_output_open(client: Client) -> None:
    result = await client.run("cat; echo tail", input="head\n")
    assert result.stdout == "head\ntail\n"


async def test_death_by_signal_is_told(client: Client) -> None:
    result = await client.run("kill -9 $$")
    assert result.exit_signal is not None
    assert result.exit_signal[0] == "KILL"


async def test_signal_reaches_the_session_leader(client: Client) -> None:
    process = await client.create_process("trap 'echo got it; exit 5' TERM; echo on; while :; do sleep 0.02; done")
    assert await process.stdout.readline() == "on\n"
    process.send_signal("TERM")
    result = await process.wait()
    assert (result.stdout, result.exit_status) == ("got it\n", 5)


async def test_channel_stays_open_while_somebody_holds_the_output(client: Client) -> None:
    begun_at = time.monotonic()
    result = await client.run("sleep 0.4 & echo begun")
    assert result.stdout == "begun\n"
    assert time.monotonic() - begun_at >= 0.4


async def test_foreground_process_outlives_the_connection(node: SimulatedNode, client: Client) -> None:
    await client.create_process("cat > taken; echo over > ended; exec sleep 60")
    await eventually((node.home / "taken").exists, "the command runs")
    client.abort()
    await eventually((node.home / "ended").exists, "input ends with the connection")
    assert any(process.command == "sleep 60" for process in node.processes())


async def test_many_commands_on_one_connection(client: Client) -> None:
    results = await asyncio.gather(*(client.run(f"echo {number}") for number in range(20)))
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(20)]


async def test_forward_to_a_local_port(client: Client) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        reader, writer = await client.open_connection("127.0.0.1", port)
        writer.write(b"hello\n")
        assert await reader.read() == b"HELLO\n"
        writer.close()


async def test_forward_to_a_closed_port_is_refused(client: Client) -> None:
    with pytest.raises(asyncssh.ChannelOpenError):
        await client.open_connection("127.0.0.1", 1)


async def test_forward_to_another_host_is_forbidden(client: Client) -> None:
    with pytest.raises(asyncssh.ChannelOpenError) as error:
        await client.open_connection("192.0.2.1", 80)
    assert error.value.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED


async def test_other_users_and_keys_are_refused(node: SimulatedNode) -> None:
    with pytest.raises(asyncssh.PermissionDenied):
        async with connect(node, username="root"):
            pass
    with pytest.raises(asyncssh.PermissionDenied):
        async with connect(node, client_keys=[asyncssh.generate_private_key("ssh-ed25519")]):
            pass


async def test_key_file_is_private(node: SimulatedNode) -> None:
    assert node.key_path.stat().st_mode & 0o777 == 0o600
    assert node.host_key_fingerprint.startswith("SHA256:")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client here")
async def test_openssh_client(node: SimulatedNode, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(f"[{node.address}]:{node.port} {node.host_key_line}\n")
    options = [
        "-F",
        "none",
        "-o",
        f"UserKnownHostsFile={known}",
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "BatchMode=yes",
    ]
    process = await asyncio.create_subprocess_exec(
        "ssh", *options, "-i", str(node.key_path), "-p", str(node.port), f"{node.user}@{node.address}",
        "cat; nvidia-smi -L; exit 3",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate(b"in\n")
    assert process.returncode == 3
    assert output.decode().splitlines()[0] == "in"
    assert output.count(b"UUID: GPU-") == 2


def test_specs_have_stable_gpu_uuids() -> None:
    assert gpu_uuids(NodeSpec(name="atlas")) == gpu_uuids(NodeSpec(name="atlas"))
    assert len(set(gpu_uuids(NodeSpec(name="atlas")))) == 8
