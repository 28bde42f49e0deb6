"""The faults a node can be given: closed, frozen, dropped, refused, another host key, rebooted."""

import asyncio

import asyncssh
import pytest

from service.simulator.node import SimulatedNode
from tests.simulator.clients import Client, connect

SHORT_S = 0.25
"""How long silence is waited for; everything here answers within a few milliseconds."""


async def test_stopped_node_refuses_and_comes_back_on_its_port(node: SimulatedNode, client: Client) -> None:
    port = node.port
    node.stop()
    await client.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        async with connect(node):
            pass
    await node.start()
    assert node.port == port
    async with connect(node) as again:
        assert (await again.run("echo back")).stdout == "back\n"


async def test_frozen_node_takes_connections_and_says_nothing(node: SimulatedNode, client: Client) -> None:
    process = await client.create_process("cat")
    node.freeze()
    reader, writer = await asyncio.open_connection(node.address, node.port)
    process.stdin.write("held\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), SHORT_S)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.stdout.readline(), SHORT_S)
    node.thaw()
    assert await process.stdout.readline() == "held\n"
    assert (await reader.read(4)) == b"SSH-"
    writer.close()


async def test_frozen_node_holds_back_output_of_running_commands(node: SimulatedNode, client: Client) -> None:
    process = await client.create_process("while :; do echo tick; sleep 0.02; done")
    assert await process.stdout.readline() == "tick\n"
    node.freeze()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(_read_for_ever(process.stdout), SHORT_S)
    silent_since = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.stdout.readline(), SHORT_S)
    assert asyncio.get_running_loop().time() - silent_since >= SHORT_S
    node.thaw()
    assert await process.stdout.readline() == "tick\n"


async def test_dropped_connections_end_and_new_ones_are_welcome(node: SimulatedNode, client: Client) -> None:
    assert node.connection_count == 1
    node.drop_connections()
    await client.wait_closed()
    assert node.connection_count == 0
    async with connect(node) as again:
        assert (await again.run("true")).exit_status == 0


async def test_changed_host_key_is_not_the_pinned_one(node: SimulatedNode, client: Client) -> None:
    before = node.host_key_fingerprint
    pinned = asyncssh.import_public_key(node.host_key_line)
    await node.change_host_key()
    assert node.host_key_fingerprint != before
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        async with connect(node, known_hosts=([pinned], [], [])):
            pass
    assert (await client.run("echo old connection lives")).exit_status == 0
    async with connect(node) as again:
        assert (await again.run("true")).exit_status == 0


async def test_logins_are_refused_and_accepted_again(node: SimulatedNode) -> None:
    node.refuse_login(is_refused=True)
    with pytest.raises(asyncssh.PermissionDenied):
        async with connect(node):
            pass
    node.refuse_login(is_refused=False)
    async with connect(node) as again:
        assert (await again.run("true")).exit_status == 0


async def test_reboot_kills_everything_and_drops_connections(node: SimulatedNode, client: Client) -> None:
    await client.run("setsid sleep 60 >/dev/null 2>&1 </dev/null &")
    async with asyncio.timeout(5):
        while [process.command for process in node.processes()] != ["sleep 60"]:
            await asyncio.sleep(0.02)  # it is `setsid sleep 60` until that has become the sleep
    await node.reboot()
    await client.wait_closed()
    assert node.processes() == []
    async with connect(node) as again:
        assert (await again.run("true")).exit_status == 0


async def _read_for_ever(reader: asyncssh.SSHReader[str]) -> None:
    while True:
        await reader.readline()
