"""The shared connections: one per node, one attempt at a time, replaced when broken."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from service.errors import AuthenticationRefused, NodeUnreachable, RemoteTimeout
from service.nodes.endpoint import KeyFile
from service.remote import connections as module
from service.remote.connections import Connections
from tests.sshd import Sshd, make_key


async def test_everyone_gets_the_same_connection(sshd: Sshd) -> None:
    connections = Connections()
    first, *others = await asyncio.gather(*(connections.get("nd_1", sshd.endpoint()) for _ in range(8)))
    assert all(other is first for other in others)
    assert await connections.get("nd_1", sshd.endpoint()) is first
    assert await connections.get("nd_2", sshd.endpoint()) is not first
    await connections.close()
    assert not first.is_open


async def test_a_broken_connection_is_replaced_at_the_next_get(other_sshd: Sshd) -> None:
    connections = Connections()
    first = await connections.get("nd_1", other_sshd.endpoint())
    other_sshd.drop_connections()
    with pytest.raises(NodeUnreachable):
        await first.run(["sleep", "3"], deadline_s=5)
    second = await connections.get("nd_1", other_sshd.endpoint())
    assert second is not first
    assert (await second.run(["true"], deadline_s=5)).exit_status == 0
    await connections.close()


async def test_another_endpoint_takes_the_place_of_the_old(sshd: Sshd, other_sshd: Sshd) -> None:
    connections = Connections()
    first = await connections.get("nd_1", sshd.endpoint())
    second = await connections.get("nd_1", other_sshd.endpoint())
    assert not first.is_open
    home = (await second.run(["printenv", "HOME"], deadline_s=5)).stdout.decode().strip()
    assert home == str(other_sshd.home)
    await connections.close()


async def test_all_who_wait_share_one_refusal(sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    endpoint = sshd.endpoint(credential=KeyFile(str(tmp_path / "stranger")))
    before = sshd.log_path.read_text().count("Failed publickey")
    connections = Connections()
    results = await asyncio.gather(*(connections.get("nd_1", endpoint) for _ in range(8)), return_exceptions=True)
    assert all(isinstance(result, AuthenticationRefused) for result in results)
    assert sshd.log_path.read_text().count("Failed publickey") - before <= 1
    await connections.close()


async def test_forget_ends_an_attempt_and_tells_who_waits(other_sshd: Sshd) -> None:
    other_sshd.pause()
    connections = Connections()
    waiting = asyncio.create_task(connections.get("nd_1", other_sshd.endpoint()))
    await asyncio.sleep(0.1)
    await connections.forget("nd_1")
    with pytest.raises(NodeUnreachable, match="closed while opening"):
        await waiting


async def test_who_gives_up_waiting_does_not_end_the_attempt_for_others(sshd: Sshd) -> None:
    connections = Connections()
    impatient = asyncio.create_task(connections.get("nd_1", sshd.endpoint()))
    patient = asyncio.create_task(connections.get("nd_1", sshd.endpoint()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).is_open
    await connections.close()


async def test_dead_nodes_do_not_keep_living_ones_waiting(
    sshd: Sshd, other_sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TURN_S", 0.05)
    monkeypatch.setattr(module, "CONNECTS_AT_ONCE", 4)
    other_sshd.pause()
    connections = Connections(open_deadline_s=4)
    dead = [asyncio.create_task(connections.get(f"dead_{n}", other_sshd.endpoint())) for n in range(20)]
    await asyncio.sleep(0)
    async with asyncio.timeout(3):
        assert (await connections.get("nd_1", sshd.endpoint())).is_open
    results = await asyncio.gather(*dead, return_exceptions=True)
    assert all(isinstance(result, RemoteTimeout) for result in results)
    assert connections._turns._value == module.CONNECTS_AT_ONCE
    await connections.close()


async def test_a_queue_is_not_mistaken_for_a_dead_node(
    sshd: Sshd, other_sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TURN_S", 1.0)
    monkeypatch.setattr(module, "CONNECTS_AT_ONCE", 1)
    other_sshd.pause()
    connections = Connections(open_deadline_s=0.7)
    dead = [asyncio.create_task(connections.get(f"dead_{n}", other_sshd.endpoint())) for n in range(2)]
    await asyncio.sleep(0)
    queued = asyncio.create_task(connections.get("nd_1", sshd.endpoint()))
    await asyncio.sleep(0)
    with pytest.raises(RemoteTimeout, match="takes longer"):
        await connections.get("nd_1", sshd.endpoint(), patience_s=0.1)
    assert (await queued).is_open
    results = await asyncio.gather(*dead, return_exceptions=True)
    assert all(isinstance(result, RemoteTimeout) for result in results)
    await connections.close()


async def test_a_jump_host_is_shared_and_closed_with_its_last_node(sshd: Sshd, other_sshd: Sshd) -> None:
    connections = Connections()
    through = sshd.endpoint(jump=other_sshd.endpoint())
    await connections.get("nd_1", through)
    await connections.get("nd_2", replace(through, user=sshd.user))
    (jump,) = connections._jumps.values()
    assert jump.connection
    assert jump.connection.is_open
    await connections.forget("nd_1")
    assert jump.connection.is_open
    await connections.forget("nd_2")
    assert not jump.connection.is_open
    await connections.close()


async def test_a_lost_jump_host_is_opened_again(sshd: Sshd, other_sshd: Sshd) -> None:
    connections = Connections()
    through = sshd.endpoint(jump=other_sshd.endpoint())
    first = await connections.get("nd_1", through)
    other_sshd.drop_connections()
    with pytest.raises(NodeUnreachable):
        await first.run(["sleep", "3"], deadline_s=5)
    again = await connections.get("nd_1", through)
    assert (await again.run(["true"], deadline_s=5)).exit_status == 0
    await connections.close()
