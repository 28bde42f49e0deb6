"""The fleet as a whole: many nodes, nothing left behind, and a process of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from service.simulator.demo import demo_fleet, node_body, profile_bodies
from service.simulator.fleet import EmbeddedFleet
from service.simulator.ports import PortRanges
from service.simulator.processes import HOME_MARKER, find_processes, kill_processes
from service.simulator.specs import NodeSpec
from tests.simulator.clients import connect
from tests.simulator.engines import eventually

MANY = 50


async def test_many_nodes_answer(tmp_path: Path) -> None:
    gate = asyncio.Semaphore(8)
    async with EmbeddedFleet(tmp_path, [NodeSpec(name=f"n{number}") for number in range(MANY)]) as fleet:

        async def ask(name: str) -> str:
            async with gate, connect(fleet.node(name)) as client:
                return str((await client.run("echo $SIMULATED_NODE $HOME")).stdout)

        names = [node.name for node in fleet.nodes]
        answers = await asyncio.gather(*(ask(name) for name in names))
        assert answers == [f"{name} {tmp_path / name}\n" for name in names]
        assert len({node.host_key_fingerprint for node in fleet.nodes}) == MANY
        ports = [port for node in fleet.nodes for port in node.port_range]
        assert len(set(ports)) == len(ports)


async def test_nothing_is_left_after_close(tmp_path: Path) -> None:
    async with EmbeddedFleet(tmp_path, [NodeSpec(name="a"), NodeSpec(name="b")]) as fleet:
        for node in fleet.nodes:
            async with connect(node) as client:
                await client.run("setsid sleep 60 >/dev/null 2>&1 </dev/null & sleep 60 >/dev/null 2>&1 </dev/null &")
        assert len(find_processes(tmp_path)) == 4
        ports = [node.port for node in fleet.nodes]
    assert find_processes(tmp_path) == []
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_fleets_beside_each_other_do_not_touch(tmp_path: Path) -> None:
    spec = NodeSpec(name="same")
    async with EmbeddedFleet(tmp_path / "one", [spec]) as one:
        async with connect(one.nodes[0]) as client:
            await client.run("setsid sleep 60 >/dev/null 2>&1 </dev/null &")
        async with EmbeddedFleet(tmp_path / "two", [spec]) as two:
            assert not set(one.nodes[0].port_range) & set(two.nodes[0].port_range)
            assert two.nodes[0].processes() == []
        assert len(one.nodes[0].processes()) == 1


def test_names_are_unique(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same name"):
        EmbeddedFleet(tmp_path, [NodeSpec(name="a"), NodeSpec(name="a")])


async def test_engine_without_stand_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"0\.4\.9"):
        await EmbeddedFleet(tmp_path, [NodeSpec(name="a", engine_versions=("0.4.9",))]).start()


def test_ports_are_given_back() -> None:
    first, second = PortRanges(), PortRanges()
    taken = first.take(20)
    assert not set(taken) & set(second.take(20))
    first.release()
    second.release()
    with pytest.raises(RuntimeError, match="adjacent ports"):
        PortRanges().take(1_000_000)


async def test_engine_version_is_in_the_environment(tmp_path: Path) -> None:
    async with EmbeddedFleet(tmp_path, [NodeSpec(name="a", engine_versions=("0.5.16", "0.5.23"))]) as fleet:
        question = "import importlib.metadata as m; print(m.version('sglang'))"
        async with connect(fleet.nodes[0]) as client:
            for version, python in fleet.nodes[0].engine_pythons.items():
                assert (await client.run(f'{python} -c "{question}"')).stdout == f"{version}\n"
        assert fleet.nodes[0].engine_python == fleet.nodes[0].engine_pythons["0.5.16"]


async def test_demo_fleet_has_what_its_profiles_name(tmp_path: Path) -> None:
    async with demo_fleet(tmp_path) as fleet:
        assert [node.name for node in fleet.nodes] == ["atlas", "borealis", "cirrus"]
        assert node_body(fleet.node("atlas"))["credential"] == {"kind": "key_file", "path": str(fleet.key_path)}
        for body in profile_bodies(fleet):
            recipe = body["recipe"]
            assert isinstance(recipe, dict)
            assert os.access(recipe["python"], os.X_OK)
            assert (Path(recipe["model_path"]) / "config.json").exists()
        with pytest.raises(KeyError):
            fleet.node("cirrus").model_path("kimi-like")


def test_process_of_its_own_survives_kill_and_leaves_nothing(tmp_path: Path) -> None:
    first, described = _start_process(tmp_path)
    node = described["nodes"][0]
    _ssh(node, "setsid sleep 60 >/dev/null 2>&1 </dev/null &")
    first.kill()
    first.wait()
    assert len(find_processes(tmp_path)) == 1, "processes outlive a killed fleet, as they outlive sshd"
    second, described = _start_process(tmp_path)
    assert find_processes(tmp_path) == []
    _ssh(described["nodes"][0], "setsid sleep 60 >/dev/null 2>&1 </dev/null &")
    second.send_signal(signal.SIGTERM)
    assert second.wait(10) == 0
    assert find_processes(tmp_path) == []


def _start_process(root: Path) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "service.simulator", "--root", str(root), "--nodes", "1", "--gpus", "2"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        return process, json.loads(process.stdout.readline())


def _ssh(node: dict[str, Any], command: str) -> None:
    async def run() -> None:
        known: Any = ([asyncssh.import_public_key(node["host_key"])], [], [])
        async with asyncssh.connect(
            node["address"], node["port"], username=node["user"], client_keys=[node["key_path"]],
            known_hosts=known, config=None, agent_path=None,
        ) as client:  # fmt: skip
            await client.run(command, check=True)

    asyncio.run(run())


def test_processes_are_known_without_a_marker_when_their_command_lies_in_a_home(tmp_path: Path) -> None:
    home = tmp_path / "fleet" / "a"
    home.mkdir(parents=True)
    (home / "supervisor.sh").write_text("sleep 60 & wait\n")
    script, elsewhere = str(home / "supervisor.sh"), {HOME_MARKER: str(tmp_path / "b")}
    unmarked = subprocess.Popen(["/bin/sh", script], start_new_session=True, env={"PATH": os.defpath})
    bystander = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True, env=elsewhere)
    try:
        commands = [f"/bin/sh {home / 'supervisor.sh'}", "sleep 60"]
        assert kill_when_complete(tmp_path / "fleet", commands) == 2
        assert unmarked.wait(10) == -signal.SIGKILL
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_marked_process_in_a_session_of_others_spares_them(tmp_path: Path) -> None:
    leader = subprocess.Popen(
        ["/bin/sh", "-c", f"{HOME_MARKER}={tmp_path}/a sleep 60 & wait; exec sleep 60"], start_new_session=True
    )
    try:
        assert kill_when_complete(tmp_path, ["sleep 60"]) == 1
        assert leader.poll() is None
    finally:
        os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()


def kill_when_complete(root: Path, commands: list[str]) -> int:
    eventually(lambda: sorted(found.command for found in find_processes(root)) == sorted(commands), "all have started")
    return kill_processes(root)
