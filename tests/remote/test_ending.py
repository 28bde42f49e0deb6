"""How a launch is ended, and how it is proven that nothing of it is left."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.errors import RemoteCommandFailed
from service.remote.messages import LogSlice, Refusal, SignalStep
from service.remote.node import NodeSession
from service.remote.on_node import proc, signals
from service.servers.observation import ProcessState
from tests.remote.conftest import Launches, eventually
from tests.sshd import free_port

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable


async def started(
    node: NodeSession, launches: Launches, script: str, *, count: int = 1, port: int = 1
) -> tuple[str, int]:
    """Start a shell script as a launch; return its id and main pid once so many of its processes are there."""
    order = launches.shell(script, port=port)
    answer = await node.stage_and_start(order)
    assert answer.pid
    await eventually(lambda: len(launches.pids(order)) >= count)
    return order.launch_id, answer.pid


async def test_term_goes_to_the_main_process_and_its_end_is_known(node: NodeSession, launches: Launches) -> None:
    launch_id, pid = await started(node, launches, "exec sleep 60")
    answer = await node.signal(launch_id, SignalStep.TERM)
    assert answer.pids == (pid,)
    await eventually((launches.home / ".vigil" / "launches" / launch_id / "exit").exists)
    process = (await node.signal(launch_id, SignalStep.TERM)).process
    assert (process.state, process.exit_code) == (ProcessState.EXITED, 143)


async def test_term_leaves_the_children_to_the_main_process(node: NodeSession, launches: Launches) -> None:
    script = "sleep 61 & trap 'wait; exit 5' TERM; while :; do sleep 0.05; done"
    launch_id, pid = await started(node, launches, script, count=2)
    answer = await node.signal(launch_id, SignalStep.TERM)
    assert (answer.pids, answer.process.state) == ((pid,), ProcessState.RUNNING)
    await node.signal(launch_id, SignalStep.KILL)


async def test_kill_ends_group_session_leavers_and_those_without_a_mark(node: NodeSession, launches: Launches) -> None:
    script = (
        "trap '' TERM; sleep 61 & setsid sleep 62 & env -i /bin/sleep 63 & setsid sh -c 'sleep 64 & sleep 65' & "
        "while :; do sleep 0.05; done"
    )
    launch_id, pid = await started(node, launches, script, count=5)
    unmarked = await eventually(lambda: [p for p in proc.pids() if (proc.command(p) or "") == "/bin/sleep 63"])
    answer = await node.signal(launch_id, SignalStep.TERM)
    assert answer.process.state is ProcessState.RUNNING
    answer = await node.signal(launch_id, SignalStep.KILL)
    assert (answer.process.state, answer.process.exit_code, answer.process.member_count) == (
        ProcessState.EXITED,
        137,
        0,
    )
    assert {pid, *unmarked} <= set(answer.pids)
    assert launches.pids(launches.shell("", launch_id=launch_id)) == []
    assert not any(proc.read_stat(p) and proc.command(p) == "/bin/sleep 63" for p in unmarked)
    assert (await node.verify(launch_id, port=1)).is_clear


async def test_what_a_dead_main_process_left_is_found_and_ended(node: NodeSession, launches: Launches) -> None:
    launch_id, _ = await started(node, launches, "sleep 61 & setsid sleep 62 & exec sleep 0.1", count=2)
    directory = launches.home / ".vigil" / "launches" / launch_id
    await eventually((directory / "exit").exists)
    left = await node.verify(launch_id, port=1)
    assert sorted(process.command for process in left.processes) == ["sleep 61", "sleep 62"]
    assert not left.is_clear
    answer = await node.signal(launch_id, SignalStep.TERM)
    assert set(answer.pids) == {process.pid for process in left.processes}
    await eventually(lambda: not launches.pids(launches.shell("", launch_id=launch_id)))
    assert (await node.verify(launch_id, port=1)).is_clear


async def test_a_stopped_process_can_be_killed(node: NodeSession, launches: Launches) -> None:
    launch_id, pid = await started(node, launches, "exec sleep 60")
    os.kill(pid, signal.SIGSTOP)
    assert (await node.signal(launch_id, SignalStep.TERM)).process.state is ProcessState.RUNNING
    assert (await node.signal(launch_id, SignalStep.KILL)).process.exit_code == 137


async def test_another_launch_is_never_touched(node: NodeSession, launches: Launches) -> None:
    one, _ = await started(node, launches, "setsid sleep 61 & sleep 62", count=3)
    other, other_pid = await started(node, launches, "setsid sleep 63 & exec sleep 64", count=2)
    before = launches.pids(launches.shell("", launch_id=other))
    await node.signal(one, SignalStep.KILL)
    assert launches.pids(launches.shell("", launch_id=other)) == before
    assert other_pid in before


async def test_a_signal_to_an_ended_launch_reaches_nobody(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("exit 0")
    await node.stage_and_start(order)
    await eventually((launches.directory(order) / "exit").exists)
    for step in SignalStep:
        answer = await node.signal(order.launch_id, step)
        assert (answer.pids, answer.process.state) == ((), ProcessState.EXITED)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


async def test_a_reused_pid_is_not_the_launch(
    node: NodeSession, launches: Launches, bystander: subprocess.Popen[bytes]
) -> None:
    order = launches.shell("exit 0")
    await node.stage_and_start(order)
    directory = launches.directory(order)
    await eventually((directory / "exit").exists)
    stat = proc.read_stat(bystander.pid)
    assert stat
    (directory / "exit").unlink()
    (directory / "pid").write_text(f"{bystander.pid} {stat.start_ticks - 1}\n")
    for step in SignalStep:
        answer = await node.signal(order.launch_id, step)
        assert (answer.pids, answer.process.state) == ((), ProcessState.LOST)
    assert (await node.verify(order.launch_id, port=1)).is_clear
    assert bystander.poll() is None


async def test_nothing_is_signalled_after_a_reboot(node: NodeSession, launches: Launches) -> None:
    launch_id, pid = await started(node, launches, "exec sleep 60")
    (launches.home / ".vigil" / "launches" / launch_id / "boot_id").write_text("another-boot\n")
    for step in SignalStep:
        answer = await node.signal(launch_id, step)
        assert (answer.pids, answer.process.state) == ((), ProcessState.REBOOTED)
    assert proc.read_stat(pid)


def test_a_signal_is_sent_only_to_the_process_that_was_seen(bystander: subprocess.Popen[bytes]) -> None:
    stat = proc.read_stat(bystander.pid)
    assert stat
    assert not signals.send(stat._replace(start_ticks=stat.start_ticks + 1), signal.SIGKILL)
    assert bystander.poll() is None
    assert signals.send(stat, signal.SIGKILL)
    assert bystander.wait(5) == -signal.SIGKILL
    assert not signals.send(stat, signal.SIGKILL)


def test_without_pidfd_the_check_comes_right_before(
    bystander: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    stat = proc.read_stat(bystander.pid)
    assert stat
    assert not signals.send(stat._replace(start_ticks=stat.start_ticks + 1), signal.SIGKILL)
    assert signals.send(stat, signal.SIGKILL)
    assert bystander.wait(5) == -signal.SIGKILL


async def test_a_launch_that_was_ended_before_it_began_never_starts(
    node: NodeSession, launches: Launches, tmp_path: Path
) -> None:
    proof = tmp_path / "ran"
    order = launches.order("/bin/sh", "-c", f"touch {proof}; sleep 60")
    signalled = await node.signal(order.launch_id, SignalStep.TERM)
    assert signalled.process.state is ProcessState.ABSENT
    again = await node.signal(order.launch_id, SignalStep.KILL)
    assert (again.process.state, again.pids) == (ProcessState.ABSENT, ())
    answer = await node.stage_and_start(order)
    assert (answer.already_started, answer.pid) == (True, None)
    assert (await node.verify(order.launch_id, port=free_port())).is_clear
    assert not proof.exists()


async def test_start_and_end_at_the_same_moment_leave_nothing_running(node: NodeSession, launches: Launches) -> None:
    orders = [launches.shell("exec sleep 60") for _ in range(4)]
    starts = [node.stage_and_start(order) for order in orders]
    ends = [node.signal(order.launch_id, SignalStep.KILL) for order in orders]
    await asyncio.gather(*starts, *ends)
    for order in orders:
        await node.signal(order.launch_id, SignalStep.KILL)
        assert (await node.verify(order.launch_id, port=1)).is_clear
        assert launches.pids(order) == []


async def test_an_unknown_launch_is_refused(node: NodeSession) -> None:
    verbs = [
        node.verify("ln_none", port=1),
        node.read_log("ln_none"),
        node.read_log("../../../etc"),
    ]
    refusals = []
    for verb in verbs:
        with pytest.raises(RemoteCommandFailed) as caught:
            await verb
        refusals.append(caught.value.context["refusal"])
    assert refusals == [Refusal.LAUNCH_ABSENT] * 2 + [Refusal.ORDER_INVALID]


def text(piece: LogSlice) -> str:
    return piece.data.decode()


async def test_the_log_is_read_from_offsets_tails_and_by_content(node: NodeSession, launches: Launches) -> None:
    script = "for i in 1 2 3 4 5; do echo line $i; done; echo 'key=sk-abcdef'; printf unfinished"
    order = launches.shell(script, secrets=("sk-abcdef",))
    await node.stage_and_start(order)
    await eventually((launches.directory(order) / "exit").exists)
    size = 35 + 14 + 10
    whole = await node.read_log(order.launch_id)
    assert text(whole) == "".join(f"line {i}\n" for i in range(1, 6)) + "key=*********\nunfinished"
    assert (whole.offset, whole.next_offset, whole.size) == (0, size, size)
    part = await node.read_log(order.launch_id, offset=7, limit_bytes=7)
    assert (text(part), part.offset, part.next_offset) == ("line 2\n", 7, 14)
    tail = await node.read_log(order.launch_id, tail_lines=2)
    assert (text(tail), tail.offset) == ("key=*********\nunfinished", 35)
    assert text(await node.read_log(order.launch_id, contains="line 3")) == "line 3\n"
    assert text(await node.read_log(order.launch_id, contains="line", tail_lines=2)) == "line 4\nline 5\n"
    assert text(await node.read_log(order.launch_id, contains="unfin")) == "unfinished"
    assert text(await node.read_log(order.launch_id, contains="sk-abc")) == ""
    assert text(await node.read_log(order.launch_id, offset=10_000)) == ""
