"""The observer on a real node: what changes is said within a tick, no byte of a log is lost, doubled or leaked."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from service.clock import utc_now
from service.errors import NodeUnreachable
from service.remote.messages import Beat, GpuHoldersFact, Hello, LaunchFact, LaunchOrder, LogFact, SignalStep, Watch
from service.remote.node import NodeSession
from service.remote.observing import observe
from service.remote.on_node import proc, sockets
from service.remote.ssh import open_connection
from service.servers.observation import EffortFact, ListenerFact, ListenerOwner, ProcessFact, ProcessState
from tests.remote.conftest import Facts, Launches, eventually, observing
from tests.sshd import Sshd, free_port

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable


def watch(order: LaunchOrder, *, log_offset: int = 0) -> Watch:
    return Watch(order.launch_id, order.port, "127.0.0.1", log_offset)


def processes(facts: Facts, order: LaunchOrder) -> list[ProcessFact]:
    return [f.process for f in facts.said if isinstance(f, LaunchFact) and f.launch_id == order.launch_id and f.process]


def listeners(facts: Facts, order: LaunchOrder) -> list[ListenerFact]:
    return [
        f.listener for f in facts.said if isinstance(f, LaunchFact) and f.launch_id == order.launch_id and f.listener
    ]


def efforts(facts: Facts, order: LaunchOrder) -> list[EffortFact]:
    return [f.effort for f in facts.said if isinstance(f, LaunchFact) and f.launch_id == order.launch_id and f.effort]


def log_of(facts: Facts, order: LaunchOrder, *, since: int = 0) -> bytes:
    """Return the log as it was said, and fail where a byte is missing or said twice."""
    data = b""
    for fact in facts.said:
        if isinstance(fact, LogFact) and fact.launch_id == order.launch_id:
            assert fact.offset == since + len(data)
            data += fact.data
    return data


def state_is(facts: Facts, order: LaunchOrder, state: ProcessState) -> bool:
    said = processes(facts, order)
    return bool(said) and said[-1].state is state


async def test_it_greets_and_beats_each_second_with_nothing_to_watch(node: NodeSession) -> None:
    async with observing(node) as (_, facts):
        await facts.until(lambda: sum(isinstance(f, Beat) for f in facts.said) >= 3)
    hello, beat = facts.said[:2]
    assert isinstance(hello, Hello)
    assert hello.boot_id == proc.boot_id()
    assert isinstance(beat, Beat)
    assert beat.shm_free_mib
    assert beat.disk_free_mib
    instants = [f.at for f in facts.said if isinstance(f, Beat)]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(instants)]
    assert max(gaps) > 0.7
    assert min(gaps) < 1.8  # a machine that is busy may hold one of them back
    assert abs((utc_now() - hello.at).total_seconds()) < 10


async def test_a_launch_is_followed_from_start_to_end(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("echo one; sleep 0.6; echo two; exit 7")
    async with observing(node, [watch(order)]) as (_, facts):
        await facts.until(lambda: state_is(facts, order, ProcessState.ABSENT))
        started = await node.stage_and_start(order)
        await facts.until(lambda: state_is(facts, order, ProcessState.EXITED))
        states = [fact.state for fact in processes(facts, order)]
        assert states[0] is ProcessState.ABSENT
        assert [state for state in states if state not in {ProcessState.ABSENT, ProcessState.PENDING}] == sorted(
            (state for state in states if state not in {ProcessState.ABSENT, ProcessState.PENDING}), reverse=True
        )
        last = processes(facts, order)[-1]
        assert (last.pid, last.exit_code, last.member_count) == (started.pid, 7, 0)
        # Everything logged before the end is said before the end.
        end = next(i for i, f in enumerate(facts.said) if isinstance(f, LaunchFact) and f.process == last)
        assert b"".join(f.data for f in facts.said[:end] if isinstance(f, LogFact)) == b"one\ntwo\n"


async def test_a_death_is_said_within_a_second_of_it(node: NodeSession, launches: Launches) -> None:
    took_s = [await seconds_until_a_death_is_said(node, launches) for _ in range(3)]
    assert min(took_s) < 1  # a machine that is busy may hold some of them back


async def seconds_until_a_death_is_said(node: NodeSession, launches: Launches) -> float:
    order = launches.shell("exec sleep 60")
    started = await node.stage_and_start(order)
    assert started.pid
    async with observing(node, [watch(order)]) as (_, facts):
        await facts.until(lambda: state_is(facts, order, ProcessState.RUNNING))
        os.kill(started.pid, signal.SIGKILL)
        began = time.monotonic()
        await facts.until(lambda: state_is(facts, order, ProcessState.EXITED))
        took_s = time.monotonic() - began
    assert processes(facts, order)[-1].exit_code == 137
    return took_s


async def test_a_killed_supervisor_makes_the_end_a_lost_one(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("exec sleep 60")
    started = await node.stage_and_start(order)
    assert started.pid
    async with observing(node, [watch(order)]) as (_, facts):
        await facts.until(lambda: state_is(facts, order, ProcessState.RUNNING))
        os.kill(int((launches.directory(order) / "supervisor").read_text().split()[0]), signal.SIGKILL)
        os.kill(started.pid, signal.SIGKILL)
        await facts.until(lambda: state_is(facts, order, ProcessState.LOST))
        assert processes(facts, order)[-1].exit_code is None


async def test_a_reboot_is_told_from_a_death(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("exec sleep 60")
    await node.stage_and_start(order)
    (launches.directory(order) / "boot_id").write_text("another-boot\n")
    async with observing(node, [watch(order)]) as (_, facts):
        await facts.until(lambda: state_is(facts, order, ProcessState.REBOOTED))


LISTEN = 'import socket, sys, time; s = socket.create_server(("", int(sys.argv[1]))); time.sleep(60)'
SERVE = (
    "import socket, sys, time; time.sleep(0.3); s = socket.create_server(('', int(sys.argv[1])));"
    "time.sleep(0.7); s.close(); time.sleep(60)"
)


async def test_the_listener_comes_and_goes(node: NodeSession, launches: Launches) -> None:
    port = free_port()
    order = launches.order(PYTHON, "-c", SERVE, str(port), port=port)
    started = await node.stage_and_start(order)
    async with observing(node, [watch(order)]) as (_, facts):
        await facts.until(
            lambda: (
                [f.owner for f in listeners(facts, order)][-3:]
                == [ListenerOwner.NONE, ListenerOwner.OURS, ListenerOwner.NONE]
            )
        )
        assert [fact.pid for fact in listeners(facts, order)][-2] == started.pid


async def test_a_strangers_listener_is_told_from_ours_and_a_child_of_ours_is_ours(
    node: NodeSession, launches: Launches
) -> None:
    port = free_port()
    order = launches.shell(f"setsid {PYTHON} -c '{LISTEN}' {port} & exec sleep 60", port=port)
    with subprocess.Popen([PYTHON, "-c", LISTEN, str(port)]) as stranger:
        await eventually(lambda: sockets.listeners(port))
        async with observing(node, [watch(order)]) as (_, facts):
            await facts.until(lambda: listeners(facts, order))
            assert (listeners(facts, order)[-1].owner, listeners(facts, order)[-1].pid) == (
                ListenerOwner.OTHER,
                stranger.pid,
            )
            stranger.kill()
            stranger.wait()
            await facts.until(lambda: listeners(facts, order)[-1].owner is ListenerOwner.NONE)
            await node.stage_and_start(order)
            await facts.until(lambda: listeners(facts, order)[-1].owner is ListenerOwner.OURS)


async def test_effort_only_grows_and_counts_the_dead(node: NodeSession, launches: Launches) -> None:
    busy = "import time; end = time.process_time() + 0.25\nwhile time.process_time() < end: pass"
    order = launches.shell(f"{PYTHON} -c '{busy}'; {PYTHON} -c '{busy}'; sleep 61 & exec sleep 60")
    await node.stage_and_start(order)
    async with observing(node, [watch(order)]) as (_, facts):
        await facts.until(lambda: any(effort.cpu_ticks >= 50 for effort in efforts(facts, order)))
        (child,) = [pid for pid in launches.pids(order) if proc.command(pid) == "sleep 61"]
        os.kill(child, signal.SIGKILL)
        await facts.until(lambda: processes(facts, order)[-1].member_count == 1)
    ticks = [effort.cpu_ticks for effort in efforts(facts, order)]
    assert ticks == sorted(ticks)
    assert ticks[-1] >= 50
    assert all(effort.read_bytes is not None for effort in efforts(facts, order))


async def test_secrets_are_masked_across_the_borders_of_parts(node: NodeSession, launches: Launches) -> None:
    secret = "sk-0123456789-secret"  # noqa: S105
    stars = b"*" * len(secret)
    paddings = (0, 1, 262_139, 262_144, 262_150, 1_048_571)
    orders = [
        launches.shell(
            f"head -c {padding} /dev/zero | tr '\\0' x; printf 'key=%s\\n' \"$KEY\"; printf sk-01234; sleep 0.6;"
            "printf '56789-secret'; sleep 0.6; printf 'x sk-0'; exit 1",
            environment={"KEY": secret},
            secrets=(secret,),
        )
        for padding in paddings
    ]
    await asyncio.gather(*(node.stage_and_start(order) for order in orders))
    async with observing(node, [watch(order) for order in orders]) as (_, facts):
        await facts.until(lambda: all(state_is(facts, order, ProcessState.EXITED) for order in orders))
    for order, padding in zip(orders, paddings, strict=True):
        assert log_of(facts, order) == b"x" * padding + b"key=" + stars + b"\n" + stars + b"x " + b"****"
    assert not [fact for fact in facts.said if isinstance(fact, LogFact) and b"sk-0" in fact.data]


async def test_a_new_observer_goes_on_where_the_old_one_was_lost(launches: Launches, sshd: Sshd) -> None:
    order = launches.shell("i=0; while [ $i -lt 150 ]; do echo line $i; i=$((i+1)); sleep 0.005; done; exit 4")
    data = b""
    first = await open_connection(sshd.endpoint())
    facts = Facts()
    await NodeSession(first).stage_and_start(order)
    observer = await observe(first, on_fact=facts.add, on_close=facts.closed.set_result)
    observer.watch([watch(order)])
    await facts.until(lambda: len(log_of(facts, order)) > 500)
    sshd.drop_connections()
    assert isinstance(await facts.closed, NodeUnreachable)
    await first.close()
    data = log_of(facts, order)
    hello = facts.said[0]
    assert isinstance(hello, Hello)
    await eventually(lambda: proc.read_stat(hello.pid) is None)
    second = await open_connection(sshd.endpoint())
    async with observing(NodeSession(second), [watch(order, log_offset=len(data))]) as (_, facts):
        await facts.until(lambda: state_is(facts, order, ProcessState.EXITED))
        data += log_of(facts, order, since=len(data))
    assert data == b"".join(b"line %d\n" % i for i in range(150))
    await second.close()


async def test_a_large_log_comes_whole_and_quickly(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("head -c 20000000 /dev/zero | tr '\\0' 'a'; echo end")
    await node.stage_and_start(order)
    await eventually((launches.directory(order) / "exit").exists)
    async with observing(node, [watch(order)]) as (_, facts):
        await facts.until(lambda: state_is(facts, order, ProcessState.EXITED), timeout_s=30)
        assert log_of(facts, order) == b"a" * 20_000_000 + b"end\n"


async def test_a_log_that_was_cut_begins_anew(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("echo a long first line; exec sleep 60")
    await node.stage_and_start(order)
    async with observing(node, [watch(order)]) as (_, facts):
        await facts.until(lambda: log_of(facts, order) == b"a long first line\n")
        with (launches.directory(order) / "log").open("r+b") as log:
            log.truncate(0)
            log.write(b"new\n")
        await facts.until(lambda: isinstance(facts.said[-1], LogFact) or None)
        last = [fact for fact in facts.said if isinstance(fact, LogFact)][-1]
        assert (last.offset, last.data) == (0, b"new\n")


async def test_what_is_watched_changes_with_each_word(node: NodeSession, launches: Launches) -> None:
    one, two = launches.shell("echo 1; exec sleep 60"), launches.shell("echo 2; exec sleep 60")
    for order in (one, two):
        await node.stage_and_start(order)
    async with observing(node, [watch(one)]) as (observer, facts):
        await facts.until(lambda: log_of(facts, one) == b"1\n")
        observer.watch([watch(one), watch(two)])
        await facts.until(lambda: log_of(facts, two) == b"2\n")
        assert log_of(facts, one) == b"1\n"
        observer.watch([watch(two), Watch("Not an id", 1, "127.0.0.1", 0)])
        await node.signal(one.launch_id, SignalStep.KILL)
        await node.signal(two.launch_id, SignalStep.KILL)
        await facts.until(lambda: state_is(facts, two, ProcessState.EXITED))
        assert state_is(facts, one, ProcessState.RUNNING)


async def test_the_observer_ends_with_its_channel(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("exec sleep 60")
    await node.stage_and_start(order)
    async with observing(node, [watch(order)]) as (_, facts):
        await facts.until(lambda: state_is(facts, order, ProcessState.RUNNING))
    hello = facts.said[0]
    assert isinstance(hello, Hello)
    assert await facts.closed is None
    await eventually(lambda: proc.read_stat(hello.pid) is None)
    assert launches.pids(order)


async def test_members_come_and_go(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("setsid sleep 1.5 & sleep 61 & exec sleep 62")
    await node.stage_and_start(order)
    await eventually(lambda: len(launches.pids(order)) == 3)
    async with observing(node, [watch(order)]) as (_, facts):
        await facts.until(lambda: processes(facts, order) and processes(facts, order)[-1].member_count == 3)
        await facts.until(lambda: processes(facts, order)[-1].member_count == 2)


async def test_the_holders_of_the_gpus_are_told_with_their_launch(tmp_path: Path) -> None:
    root = tmp_path / "bin"
    root.mkdir()
    (root / "nvidia-smi").write_text(f"#!/bin/sh\ncat {root}/apps\n")
    (root / "nvidia-smi").chmod(0o755)
    (root / "apps").write_text("")
    with Sshd(tmp_path / "sshd", environment={"PATH": f"{root}:{os.defpath}"}) as server:
        connection = await open_connection(server.endpoint())
        node, launches = NodeSession(connection), Launches(server.home)
        order = launches.shell("exec sleep 60")
        pid = (await node.stage_and_start(order)).pid
        await eventually(lambda: launches.pids(order))
        (root / "apps").write_text(f"GPU-a, {pid}, 1000, python\nGPU-b, {pid}, 24, python\nGPU-a, 1, 7, x\n")
        async with observing(node, [watch(order)]) as (_, facts):
            said = await facts.until(lambda: [f for f in facts.said if isinstance(f, GpuHoldersFact)])
            holders = {(uuid, holder.pid): holder for uuid, holder in said[0].holders}
            assert set(holders) == {("GPU-a", pid), ("GPU-b", pid), ("GPU-a", 1)}
            assert holders["GPU-a", pid].launch_id == order.launch_id
            assert holders["GPU-a", pid].command == "sleep 60"
            assert holders["GPU-a", 1].launch_id is None
            await facts.until(lambda: [e for e in efforts(facts, order) if e.gpu_memory_mib == 1024])
        launches.kill_all()
        await connection.close()
