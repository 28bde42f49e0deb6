"""How it is proven that nothing of a launch is left: processes, listener, shared memory, GPU memory."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from service.remote.messages import LeftoverGpu, SignalStep
from service.remote.node import NodeSession
from service.remote.on_node import sockets
from service.remote.ssh import open_connection
from service.servers.observation import ListenerOwner
from tests.remote.conftest import Launches, eventually
from tests.sshd import Sshd, free_port

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
LISTEN = "import socket, sys, time; s = socket.create_server((sys.argv[1], int(sys.argv[2]))); time.sleep(60)"


async def test_the_port_is_ours_only_while_a_process_of_ours_holds_it(node: NodeSession, launches: Launches) -> None:
    port = free_port()
    order = launches.order(
        PYTHON, "-c", LISTEN, "127.0.0.1", str(port), "--api-key", "sk-secret-1", secrets=("sk-secret-1",)
    )
    answer = await node.stage_and_start(order)
    await eventually(lambda: sockets.listeners(port))
    left = await node.verify(order.launch_id, port=port)
    assert (left.listener.owner, left.listener.pid) == (ListenerOwner.OURS, answer.pid)
    assert left.listener.command
    assert left.listener.command.startswith(PYTHON)
    assert "sk-secret-1" not in repr(left)
    assert not left.is_clear
    await node.signal(order.launch_id, SignalStep.KILL)
    assert (await node.verify(order.launch_id, port=port)).listener.owner is ListenerOwner.NONE


async def test_a_strangers_listener_is_named_and_does_not_count_as_left(node: NodeSession, launches: Launches) -> None:
    port = free_port()
    order = launches.shell("exit 0")
    await node.stage_and_start(order)
    with subprocess.Popen([PYTHON, "-c", LISTEN, "0.0.0.0", str(port), "--api-key=sk-other"]) as stranger:
        await eventually(lambda: sockets.listeners(port))
        left = await node.verify(order.launch_id, port=port)
        stranger.kill()
    assert (left.listener.owner, left.listener.pid, left.is_clear) == (ListenerOwner.OTHER, stranger.pid, True)
    assert "sk-other" not in repr(left)


class SharedMemory:
    """Entries of /dev/shm that are removed after the test."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    def path(self, name: str) -> Path:
        path = Path("/dev/shm") / name
        self.paths.append(path)
        return path


@pytest.fixture
def shm() -> Iterator[SharedMemory]:
    made = SharedMemory()
    yield made
    for path in made.paths:
        path.unlink(missing_ok=True)


OPEN_SHM = (
    "import mmap, sys, time; f = open(sys.argv[1], 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096);"
    "len(sys.argv) > 2 and f.close(); time.sleep(60)"
)


@pytest.mark.parametrize("how", ["open", "mapped"])
async def test_shared_memory_that_the_launch_had_open_is_removed_once_it_is_dead(
    node: NodeSession, launches: Launches, shm: SharedMemory, how: str
) -> None:
    path = shm.path(f"psm_{os.getpid()}abc")
    bystander = shm.path(f"psm_{os.getpid()}def")
    bystander.write_bytes(b"x")
    order = launches.order(PYTHON, "-c", OPEN_SHM, str(path), *(["mapped"] if how == "mapped" else []))
    await node.stage_and_start(order)
    await eventually(lambda: path.exists() and path.stat().st_size)
    await asyncio.sleep(0.05)
    await node.signal(order.launch_id, SignalStep.KILL)
    left = await node.verify(order.launch_id, port=1)
    assert (left.shm_removed, left.shm, left.is_clear) == ((path.name,), (), True)
    assert not path.exists()
    assert bystander.exists()


async def test_a_killed_engines_semaphores_are_removed(
    node: NodeSession, launches: Launches, shm: SharedMemory
) -> None:
    program = (
        "import multiprocessing as m, time; c = m.get_context('spawn'); s = c.Semaphore(); "
        "print(s._semlock.name, flush=True); time.sleep(60)"
    )
    order = launches.order(PYTHON, "-c", program)
    await node.stage_and_start(order)
    name = await eventually((launches.directory(order) / "log").read_text)
    path = shm.path(f"sem.{name.strip().lstrip('/')}")
    assert path.exists()
    await node.signal(order.launch_id, SignalStep.KILL)
    left = await node.verify(order.launch_id, port=1)
    assert (left.shm_removed, left.is_clear) == ((path.name,), True)
    assert not path.exists()


async def test_shared_memory_in_use_by_a_living_launch_stays(
    node: NodeSession, launches: Launches, shm: SharedMemory
) -> None:
    path = shm.path(f"sglang_loads_{os.getpid()}_abc.shm")
    living = launches.order(PYTHON, "-c", OPEN_SHM, str(path))
    dead = launches.shell("sleep 0.2")
    for order in (dead, living):
        await node.stage_and_start(order)
    await eventually(lambda: path.exists() and path.stat().st_size)
    await eventually((launches.directory(dead) / "exit").exists)
    left = await node.verify(dead.launch_id, port=1)
    assert (left.shm_removed, left.shm, left.shm_unproven) == ((), (), ())
    left = await node.verify(living.launch_id, port=1)
    assert (left.shm_removed, left.shm) == ((), (path.name,))
    assert path.exists()


async def test_shared_memory_is_attributed_by_pid_and_never_by_a_name_alone(
    node: NodeSession, launches: Launches, shm: SharedMemory
) -> None:
    order = launches.shell("exec sleep 60")
    pid = (await node.stage_and_start(order)).pid
    await eventually(lambda: launches.pids(order))
    ours = [f"sgl_shm_kv_{pid}_ab12", f"multi_tokenizer_args_{pid}", f"torch_{pid}_12_0", f"cuda.shm.0.{pid:x}.1"]
    doubtful = [f"psm_{os.getpid()}_doubt", f"nccl-{os.getpid()}", f"sglang_loads_{os.getpid()}_0f.shm"]
    for name in [*ours, *doubtful]:
        shm.path(name).write_bytes(b"x")
    old = shm.path(f"sgl_shm_old_{pid}_ff")
    old.write_bytes(b"x")
    os.utime(old, (1, 1))
    foreign = shm.path(f"sgl_shm_foreign_{pid}_ff")
    foreign.write_bytes(b"x")
    directory = shm.path(f"torch_{pid}_dir")
    directory.mkdir()
    if os.geteuid() == 0:
        os.chown(foreign, 12345, 12345)
    try:
        await node.signal(order.launch_id, SignalStep.KILL)
        left = await node.verify(order.launch_id, port=1)
        assert set(left.shm_removed) - {foreign.name} == set(ours)
        assert not [name for name in doubtful if not (Path("/dev/shm") / name).exists()]
        assert set(doubtful) <= set(left.shm_unproven)
        assert (left.shm, left.is_clear) == ((), True)
        assert old.exists()
        assert directory.exists()
        assert foreign.exists() == (os.geteuid() == 0)
    finally:
        directory.rmdir()


FAKE_NVIDIA_SMI = """#!/bin/sh
case "$1" in
  --query-compute-apps=*) cat "{root}/apps"; exit "$(cat "{root}/code")" ;;
  --query-gpu=*) cat "{root}/gpus"; exit 0 ;;
esac
"""


@pytest.fixture
async def gpu_node(tmp_path: Path) -> AsyncIterator[tuple[NodeSession, Launches, Path]]:
    """Give a node whose nvidia-smi says what is in the files apps and gpus, with the exit code in code."""
    root = tmp_path / "bin"
    root.mkdir()
    program = root / "nvidia-smi"
    program.write_text(FAKE_NVIDIA_SMI.format(root=root))
    program.chmod(0o755)
    for name, text in (("apps", ""), ("gpus", ""), ("code", "0")):
        (root / name).write_text(text)
    with Sshd(tmp_path / "sshd", environment={"PATH": f"{root}:{os.defpath}"}) as server:
        connection = await open_connection(server.endpoint())
        launches = Launches(server.home)
        yield NodeSession(connection), launches, root
        launches.kill_all()
        await connection.close()


async def test_gpu_memory_counts_as_left_while_the_driver_lists_a_process_of_the_launch(
    gpu_node: tuple[NodeSession, Launches, Path],
) -> None:
    node, launches, root = gpu_node
    order = launches.shell("exec sleep 60")
    pid = (await node.stage_and_start(order)).pid
    await eventually(lambda: launches.pids(order))
    (root / "apps").write_text(f"GPU-a, {pid}, 70000, python\nGPU-b, 1, 5, other, with comma\n")
    left = await node.verify(order.launch_id, port=1)
    assert left.gpu == (LeftoverGpu("GPU-a", pid, 70000),)
    await node.signal(order.launch_id, SignalStep.KILL)
    left = await node.verify(order.launch_id, port=1)
    assert (left.processes, left.gpu, left.is_clear) == ((), (LeftoverGpu("GPU-a", pid, 70000),), False)
    (root / "apps").write_text("GPU-b, 1, 5, other\n")
    assert (await node.verify(order.launch_id, port=1)).is_clear


async def test_memory_that_nobody_holds_counts_on_the_launchs_own_gpus_alone(
    gpu_node: tuple[NodeSession, Launches, Path],
) -> None:
    node, launches, root = gpu_node
    order = launches.shell("exit 0")
    await node.stage_and_start(order)
    (root / "gpus").write_text("GPU-a, 58222\nGPU-b, 596\nGPU-c, 40000\n")
    (root / "apps").write_text("GPU-d, 1, 5, other\n")
    left = await node.verify(order.launch_id, port=1, gpu_uuids=["GPU-a", "GPU-b", "GPU-d"])
    assert (left.gpu, left.is_clear) == ((LeftoverGpu("GPU-a", None, 58222),), False)
    assert (await node.verify(order.launch_id, port=1)).is_clear


async def test_gpus_that_cannot_be_asked_are_not_clear_for_who_had_some(
    gpu_node: tuple[NodeSession, Launches, Path],
) -> None:
    node, launches, root = gpu_node
    order = launches.shell("exit 0")
    await node.stage_and_start(order)
    (root / "apps").write_text("Failed to initialize NVML: Driver/library version mismatch\n")
    (root / "code").write_text("18")
    left = await node.verify(order.launch_id, port=1, gpu_uuids=["GPU-a"])
    assert not left.is_clear
    assert left.gpu_error
    assert "Driver/library version mismatch" in left.gpu_error
    assert (await node.verify(order.launch_id, port=1)).is_clear


async def test_a_node_without_nvidia_smi_cannot_prove_gpus_clear(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("exit 0")
    await node.stage_and_start(order)
    assert (await node.verify(order.launch_id, port=1)).is_clear
    left = await node.verify(order.launch_id, port=1, gpu_uuids=["GPU-a"])
    assert (left.is_clear, left.gpu_error) == (False, "there is no nvidia-smi")
