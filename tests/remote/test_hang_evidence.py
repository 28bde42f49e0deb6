"""What a hanging launch was doing: stacks of real processes by a real py-spy where there is one, and by a stand-in."""

import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.errors import RemoteCommandFailed
from service.remote.messages import Refusal
from service.remote.node import NodeSession
from service.remote.on_node import hang_evidence, proc
from service.remote.on_node.masking import Masker
from service.remote.ssh import open_connection
from tests.remote.conftest import Launches, eventually
from tests.sshd import Sshd

HIDDEN = "sk-very-secret-1"
ENGINES = Path(__file__).parents[2] / ".engines"
PY_SPY = shutil.which("py-spy") or next(map(str, sorted(ENGINES.glob("*/bin/py-spy"))), None)
FAKE_PY_SPY = """#!/bin/sh
# usage: py-spy dump --pid PID --nonblocking
echo "$@" >> "{root}/calls"
sh "{root}/script" "$3"
"""
FAKE_NVIDIA_SMI = """#!/bin/sh
case "$1" in
  --query-gpu=*) echo "0, GPU-a, {secret}" ;;
  --query-compute-apps=*) echo "GPU-a, 1, 5, python" ;;
esac
"""
ENGINE = """
import os, sys, time
title = sys.argv[1]
def stuck_in_allreduce():
    time.sleep(60)
for name in sys.argv[2:]:
    if os.fork() == 0:
        os.execv(sys.executable, [name, "-S", __file__, name])
stuck_in_allreduce()
"""


class Bench:
    """A node whose PATH has a directory of ours first."""

    def __init__(self, node: NodeSession, launches: Launches, root: Path) -> None:
        self.node = node
        self.launches = launches
        self.root = root
        self.engine_path = root / "engine.py"
        self.engine_path.write_text(ENGINE)

    def program(self, name: str, text: str) -> None:
        path = self.root / name
        path.write_text(text)
        path.chmod(0o755)

    def py_spy(self, script: str) -> None:
        (self.root / "script").write_text(script)
        self.program("py-spy", FAKE_PY_SPY.format(root=self.root))

    async def start(self, *titles: str, log: str = "") -> tuple[str, int]:
        """Start a launch with a child of each title; it says `log` first."""
        command = f"printf '{log}'; exec '{sys.executable}' -S '{self.engine_path}' main \"$@\""
        order = self.launches.order("/bin/sh", "-c", command, "sh", *titles, secrets=(HIDDEN,))
        pid = (await self.node.stage_and_start(order)).pid
        assert pid
        shown = [*titles, sys.executable]
        await eventually(lambda: self.commands(order.launch_id) == sorted(shown))
        return order.launch_id, pid

    def commands(self, launch_id: str) -> list[str]:
        pids = self.launches.pids(self.launches.shell("", launch_id=launch_id))
        return sorted((proc.words(pid) or [""])[0] for pid in pids)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    root = tmp_path / "bin"
    root.mkdir()
    with Sshd(tmp_path / "sshd", environment={"PATH": f"{root}:{os.defpath}"}) as server:
        connection = await open_connection(server.endpoint())
        launches = Launches(server.home)
        yield Bench(NodeSession(connection), launches, root)
        launches.kill_all()
        await connection.close()


async def test_without_py_spy_the_rest_is_told_and_its_absence_said(bench: Bench) -> None:
    launch_id, pid = await bench.start("sglang::scheduler_TP0", log="line 1\\nline 2\\n")
    os.kill(pid, signal.SIGSTOP)
    await eventually(lambda: (stat := proc.read_stat(pid)) and stat.state == "T")
    evidence = await bench.node.hang_evidence(launch_id, python="/nowhere/bin/python")
    first, second = evidence.stacks
    assert (first.pid, first.state, first.text) == (pid, "T", None)
    assert first.error == "py-spy is neither beside the engine's python nor on the path"
    assert second.command.startswith("sglang::scheduler_TP0")
    assert second.state == "S"
    assert evidence.nvidia_smi is None
    assert evidence.log_tail == "line 1\nline 2\n"
    assert abs(evidence.at.timestamp() - time.time()) < 10
    if os.geteuid() == 0:
        assert second.wchan
        assert second.kernel_stack
        assert second.kernel_stack.startswith(f"thread {second.pid} S ")


async def test_py_spy_is_only_ever_asked_not_to_stop_anything(bench: Bench) -> None:
    bench.py_spy("echo stack of $1")
    launch_id, pid = await bench.start("sglang::scheduler_TP0", "sglang::detokenizer", "sleeper")
    evidence = await bench.node.hang_evidence(launch_id, python="/nowhere/bin/python")
    assert [stack.text for stack in evidence.stacks] == [f"stack of {stack.pid}\n" for stack in evidence.stacks]
    assert [stack.command.split()[0] for stack in evidence.stacks][1:] == [
        "sglang::detokenizer",
        "sglang::scheduler_TP0",
    ]
    assert evidence.stacks[0].pid == pid
    calls = (bench.root / "calls").read_text().splitlines()
    assert sorted(calls) == sorted(f"dump --pid {stack.pid} --nonblocking" for stack in evidence.stacks)


async def test_py_spy_beside_the_engines_python_comes_first(bench: Bench, tmp_path: Path) -> None:
    bench.py_spy("echo from the path")
    beside = tmp_path / "venv" / "bin"
    beside.mkdir(parents=True)
    (beside / "py-spy").write_text("#!/bin/sh\necho from beside\n")
    launch_id, _ = await bench.start()
    for mode, said in ((0o644, "from the path\n"), (0o755, "from beside\n")):
        (beside / "py-spy").chmod(mode)
        evidence = await bench.node.hang_evidence(launch_id, python=str(beside / "python"))
        assert [stack.text for stack in evidence.stacks] == [said]


async def test_secrets_are_masked_in_everything(bench: Bench) -> None:
    bench.py_spy(f"echo {HIDDEN}; echo plain")
    bench.program("nvidia-smi", FAKE_NVIDIA_SMI.format(secret=HIDDEN))
    launch_id, _ = await bench.start(f"sglang::scheduler {HIDDEN}", log=f"key {HIDDEN}\\n")
    evidence = await bench.node.hang_evidence(launch_id, python="/nowhere/python")
    assert HIDDEN not in repr(evidence)
    assert [stack.text for stack in evidence.stacks] == [f"{'*' * 16}\nplain\n"] * 2
    assert evidence.log_tail == f"key {'*' * 16}\n"
    assert evidence.nvidia_smi
    assert f"0, GPU-a, {'*' * 16}\n" in evidence.nvidia_smi
    assert "gpu_uuid, pid, used_gpu_memory, process_name\nGPU-a, 1, 5, python\n" in evidence.nvidia_smi


async def test_what_is_on_the_command_line_as_a_secret_is_masked_too(bench: Bench) -> None:
    bench.py_spy("cat /proc/$1/cmdline")
    order = bench.launches.order(sys.executable, "-S", str(bench.engine_path), "--api-key", "sk-typed-by-hand")
    answer = await bench.node.stage_and_start(order)
    await eventually(lambda: proc.words(answer.pid or 0) == list(order.argv))
    evidence = await bench.node.hang_evidence(order.launch_id, python="python")
    assert "sk-typed-by-hand" not in repr(evidence)
    assert f"--api-key\0{'*' * 16}\0" in (evidence.stacks[0].text or "")


async def test_a_garbled_list_of_secrets_shows_nothing(bench: Bench) -> None:
    launch_id, _ = await bench.start()
    (bench.launches.home / ".vigil" / "launches" / launch_id / "secrets").write_text("{")
    with pytest.raises(RemoteCommandFailed) as caught:
        await bench.node.hang_evidence(launch_id, python="python")
    assert caught.value.context["refusal"] is Refusal.DIRECTORY_UNUSABLE


async def test_complaints_of_py_spy_are_told_after_some_attempts(bench: Bench) -> None:
    bench.py_spy("echo 'Error: Permission Denied: try sudo' >&2; exit 1")
    launch_id, _ = await bench.start()
    (stack,) = (await bench.node.hang_evidence(launch_id, python="python")).stacks
    assert (stack.text, stack.error) == (None, "py-spy: Error: Permission Denied: try sudo")
    assert len((bench.root / "calls").read_text().splitlines()) == hang_evidence.ATTEMPTS


async def test_an_ended_launch_has_its_last_lines_left(bench: Bench) -> None:
    lines = "".join(f"line {number}\\n" for number in range(100))
    order = bench.launches.shell(f"printf '{lines}'", secrets=(HIDDEN,))
    await bench.node.stage_and_start(order)
    await eventually((bench.launches.directory(order) / "exit").exists)
    evidence = await bench.node.hang_evidence(order.launch_id, python="python")
    assert evidence.stacks == ()
    assert evidence.log_tail.splitlines() == [f"line {number}" for number in range(40, 100)]


async def test_no_more_processes_than_the_limit(bench: Bench) -> None:
    bench.py_spy("echo stack")
    ranks = [f"sglang::scheduler_TP{rank}" for rank in range(hang_evidence.PROCESS_LIMIT)]
    launch_id, pid = await bench.start(*ranks, "sglang::detokenizer")
    stacks = (await bench.node.hang_evidence(launch_id, python="python")).stacks
    assert len(stacks) == hang_evidence.PROCESS_LIMIT
    assert stacks[0].pid == pid
    assert stacks[1].command.startswith("sglang::detokenizer")


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_stuck_py_spy_is_ended_at_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_evidence, "STACK_PATIENCE_S", 0.2)
    started_at = time.monotonic()
    text, error = hang_evidence._stack(program(tmp_path / "py-spy", "echo begun; exec sleep 60"), 1, Masker(()))
    assert (text, error) == ("begun\n", "py-spy: no answer within 0 s")
    assert time.monotonic() - started_at < 5


def test_a_long_dump_is_cut_and_no_secret_with_it(tmp_path: Path) -> None:
    filler = hang_evidence.STACK_LIMIT_BYTES - 5
    script = f"head -c {filler} /dev/zero | tr '\\0' x; echo {HIDDEN}; exec yes"
    text, error = hang_evidence._stack(program(tmp_path / "py-spy", script), 1, Masker([HIDDEN]))
    assert (text, error) == ("x" * filler + "*" * 5 + hang_evidence.CUT, "")


@pytest.mark.skipif(PY_SPY is None, reason="needs py-spy on the path, or an engine in .engines/")
async def test_the_real_py_spy_tells_the_stack_of_running_and_stopped_processes(bench: Bench) -> None:
    (bench.root / "py-spy").symlink_to(PY_SPY or "")
    launch_id, pid = await bench.start("sglang::scheduler_TP0")
    os.kill(pid, signal.SIGSTOP)
    evidence = await bench.node.hang_evidence(launch_id, python=sys.executable)
    assert [stack.error for stack in evidence.stacks] == [None, None]
    assert all("stuck_in_allreduce" in (stack.text or "") for stack in evidence.stacks)
    stats = [proc.read_stat(stack.pid) for stack in evidence.stacks]
    assert [stat.state for stat in stats if stat] == ["T", "S"]
