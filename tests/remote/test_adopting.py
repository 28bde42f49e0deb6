"""SGLang servers that Vigil did not start: how they are found, and how one becomes a launch without being touched."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from service.errors import RemoteCommandFailed
from service.remote.messages import LaunchFact, LogFact, Refusal, SignalStep, Watch
from service.remote.node import NodeSession
from service.remote.on_node import engines, proc, sockets
from service.remote.on_node.shared_memory import CLOCK_SLACK_S
from service.servers.observation import ListenerOwner, ProcessState
from tests.remote.conftest import Launches, eventually, observing
from tests.remote.foreign import STAND_IN, Foreign, Yard, is_alive
from tests.sshd import Sshd, free_port

NOBODY = 65534
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
_NUMBERS = itertools.count()


@pytest.fixture
async def yard(tmp_path: Path, node: NodeSession) -> AsyncIterator[Yard]:
    made = Yard(tmp_path, node)
    yield made
    made.clean_up()


async def adopted(node: NodeSession, foreign: Foreign) -> str:
    launch_id = f"ln_a{os.getpid()}_{next(_NUMBERS)}"
    found = foreign.found
    await node.adopt(launch_id, pid=found.pid, start_ticks=found.start_ticks, port=foreign.port)
    return launch_id


async def refusal(node: NodeSession, launch_id: str, pid: int, start_ticks: int) -> object:
    with pytest.raises(RemoteCommandFailed) as caught:
        await node.adopt(launch_id, pid=pid, start_ticks=start_ticks, port=1)
    return caught.value.context["refusal"]


async def test_vigils_own_engines_are_known_as_such(yard: Yard, launches: Launches) -> None:
    port = free_port()
    argv = (sys.executable, str(yard.root / "sglang" / "launch_server.py"), "--port", str(port))
    order = launches.order(*argv, port=port)
    answer = await yard.node.stage_and_start(order)
    await eventually(lambda: sockets.listeners(port))
    (found,) = [engine for engine in await yard.node.find_engines() if engine.pid == answer.pid]
    assert found.launch_id == order.launch_id
    assert answer.pid
    assert answer.start_ticks
    refused = await refusal(yard.node, "ln_another", answer.pid, answer.start_ticks)
    assert refused is Refusal.PROCESS_CLAIMED


async def test_an_adopted_engine_is_a_launch_like_any_other(yard: Yard, sshd: Sshd) -> None:
    foreign = await yard.start("--api-key", "sk-hidden-1", environment={"HF_TOKEN": "hf_hidden_2"})
    found = foreign.found
    launch_id = await adopted(yard.node, foreign)
    again = await yard.node.adopt(launch_id, pid=found.pid, start_ticks=found.start_ticks, port=foreign.port)
    assert again.log_path == str(foreign.log_path)
    assert again.boot_id == proc.boot_id()
    (listed,) = await yard.node.list_launches(only=[launch_id])
    assert (listed.process.state, listed.process.pid, listed.start_ticks, listed.port, listed.boot_id) == (
        ProcessState.RUNNING,
        found.pid,
        found.start_ticks,
        foreign.port,
        proc.boot_id(),
    )
    assert listed.process.member_count == len(found.member_pids)
    log = await yard.node.read_log(launch_id)
    assert log.data.decode() == f"ready, key {'*' * 11} token {'*' * 11}\n"
    left = await yard.node.verify(launch_id, port=foreign.port)
    assert {process.pid for process in left.processes} == set(found.member_pids)
    assert (left.listener.owner, left.listener.pid in found.member_pids) == (ListenerOwner.OURS, True)
    assert "hidden" not in repr(left)
    (known,) = [engine for engine in await yard.node.find_engines() if engine.pid == found.pid]
    assert known.launch_id == launch_id
    directory = sshd.home / ".vigil" / "launches" / launch_id
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / "secrets").stat().st_mode & 0o777 == 0o600
    facts = json.loads((directory / "launch.json").read_text())
    assert (facts["launch_id"], facts["adopted"], facts["port"]) == (launch_id, True, foreign.port)
    assert all(is_alive(pid) for pid in foreign.everything)


async def test_an_adopted_engine_is_observed_to_its_end(yard: Yard) -> None:
    foreign = await yard.start()
    launch_id = await adopted(yard.node, foreign)
    async with observing(yard.node, [Watch(launch_id, foreign.port, "127.0.0.1", 0)]) as (_, facts):

        def last(state: ProcessState) -> list[LaunchFact]:
            said = [fact for fact in facts.said if isinstance(fact, LaunchFact) and fact.process]
            return [fact for fact in said[-1:] if fact.process and fact.process.state is state]

        (fact,) = await facts.until(
            lambda: [
                fact
                for fact in last(ProcessState.RUNNING)
                if fact.process and fact.process.member_count == len(foreign.found.member_pids)
            ]
        )
        assert fact.process
        await yard.node.signal(launch_id, SignalStep.TERM)
        (fact,) = await facts.until(lambda: last(ProcessState.LOST))
        assert fact.process
        assert (fact.process.pid, fact.process.exit_code) == (foreign.found.pid, None)
        log = b"".join(fact.data for fact in facts.said if isinstance(fact, LogFact))
        assert log.endswith(b"ending\n")
    assert is_alive(foreign.shell.pid)


async def test_kill_ends_the_descendants_and_leaves_the_shell_of_the_same_group(yard: Yard) -> None:
    foreign = await yard.start()
    bystander = await yard.start(output="> other.log 2>&1")
    launch_id = await adopted(yard.node, foreign)
    answer = await yard.node.signal(launch_id, SignalStep.KILL)
    assert set(answer.pids) == set(foreign.found.member_pids)
    assert (answer.process.state, answer.process.exit_code, answer.process.member_count) == (
        ProcessState.LOST,
        None,
        0,
    )
    assert not any(is_alive(pid) for pid in foreign.found.member_pids)
    assert is_alive(foreign.shell.pid)
    assert foreign.shell.poll() is None
    assert all(is_alive(pid) for pid in bystander.everything)
    assert (await yard.node.verify(launch_id, port=foreign.port)).is_clear
    assert await yard.node.remove_launch(launch_id)
    assert foreign.log_path.exists()


async def test_a_leader_of_session_and_group_takes_only_its_descendants_with_it(yard: Yard) -> None:
    line = f"(sleep 64 &) ; exec '{sys.executable}' -m sglang.launch_server \"$@\" > engine.log 2>&1"
    foreign = await yard.run(line)
    assert foreign.shell.pid == foreign.found.pid
    in_group = [stat for stat in engines.living().values() if stat.group == foreign.shell.pid]
    (neighbour,) = [stat for stat in in_group if proc.command(stat.pid) == "sleep 64"]
    yard.pids.add(neighbour.pid)
    assert neighbour.pid not in foreign.found.member_pids
    launch_id = await adopted(yard.node, foreign)
    async with observing(yard.node, [Watch(launch_id, foreign.port, "127.0.0.1", 0)]) as (_, facts):
        seen = await facts.until(
            lambda: [f.process for f in facts.said if isinstance(f, LaunchFact) and f.process][-1:]
        )
        assert seen[0].member_count <= len(foreign.found.member_pids)
    answer = await yard.node.signal(launch_id, SignalStep.KILL)
    assert set(answer.pids) == set(foreign.found.member_pids)
    assert answer.process.member_count == 0
    assert (await yard.node.verify(launch_id, port=foreign.port)).is_clear
    assert is_alive(neighbour.pid)


async def test_what_a_dead_adopted_engine_left_is_found_and_ended(yard: Yard) -> None:
    foreign = await yard.start()
    launch_id = await adopted(yard.node, foreign)
    os.kill(foreign.found.pid, signal.SIGKILL)
    await eventually(lambda: not is_alive(foreign.found.pid))
    left = await yard.node.verify(launch_id, port=foreign.port)
    assert {process.pid for process in left.processes} == set(foreign.found.member_pids) - {foreign.found.pid}
    assert not left.is_clear
    await yard.node.signal(launch_id, SignalStep.KILL)
    assert (await yard.node.verify(launch_id, port=foreign.port)).is_clear
    assert is_alive(foreign.shell.pid)


async def test_a_forking_engine_cannot_outrun_the_kill(yard: Yard) -> None:
    breeder = "import subprocess, time\nfor _ in range(300): subprocess.Popen(['sleep', '63']); time.sleep(0.005)\n"
    storm = f"for _ in range(2): subprocess.Popen([sys.executable, '-S', '-c', {breeder + 'time.sleep(60)'!r}])\n"
    stand_in = yard.root / "sglang" / "launch_server.py"
    stand_in.write_text(STAND_IN.replace("def end", f"{storm}def end"))
    foreign = await yard.start()
    launch_id = await adopted(yard.node, foreign)
    answer = await yard.node.signal(launch_id, SignalStep.KILL)
    yard.pids |= set(answer.pids)
    assert answer.process.member_count == 0
    assert len(answer.pids) > len(foreign.found.member_pids)
    stats = engines.living()
    left = [stat for stat in stats.values() if stat.session == foreign.shell.pid]
    assert [stat.pid for stat in left if foreign.shell.pid not in (stat.pid, stat.parent)] == []


async def test_shared_memory_from_before_the_adoption_is_its_own(yard: Yard) -> None:
    foreign = await yard.start()
    path = Path("/dev/shm") / f"sgl_shm_kv_{foreign.found.pid}_ab12"
    path.write_bytes(b"x")
    as_old_as_may_be = foreign.found.started_at.timestamp() - CLOCK_SLACK_S + 0.1
    os.utime(path, (as_old_as_may_be, as_old_as_may_be))
    try:
        launch_id = await adopted(yard.node, foreign)
        await yard.node.signal(launch_id, SignalStep.KILL)
        left = await yard.node.verify(launch_id, port=foreign.port)
        assert (left.shm_removed, left.is_clear) == ((path.name,), True)
    finally:
        path.unlink(missing_ok=True)


async def test_without_a_readable_log_file_the_log_is_empty(yard: Yard) -> None:
    foreign = await yard.start(output="2>&1 | cat > piped.log")
    found = foreign.found
    answer = await yard.node.adopt("ln_piped", pid=found.pid, start_ticks=found.start_ticks, port=foreign.port)
    assert (found.log_path, answer.log_path) == (None, None)
    assert (await yard.node.read_log("ln_piped")).size == 0
    removed = await yard.start(output="> gone.log 2>&1; true")
    (yard.root / "gone.log").unlink()
    assert engines.log_path_of(removed.found.pid) is None


async def test_what_is_not_to_be_adopted_is_refused_with_the_reason(yard: Yard, sshd: Sshd) -> None:
    foreign = await yard.start()
    found = foreign.found
    node = yard.node
    assert await refusal(node, "ln_r", found.pid, found.start_ticks - 1) is Refusal.PROCESS_ABSENT
    assert await refusal(node, "ln_r", 2**22 + 1, 1) is Refusal.PROCESS_ABSENT
    shell = proc.read_stat(foreign.shell.pid)
    assert shell
    assert await refusal(node, "ln_r", shell.pid, shell.start_ticks) is Refusal.PROCESS_NOT_ENGINE
    forked = [
        stat for pid in found.member_pids if (stat := proc.read_stat(pid)) and "launch_server" in str(proc.words(pid))
    ]
    child = next(stat for stat in forked if stat.pid != found.pid)
    assert await refusal(node, "ln_r", child.pid, child.start_ticks) is Refusal.PROCESS_NOT_ENGINE
    assert await refusal(node, "../ln_r", found.pid, found.start_ticks) is Refusal.ORDER_INVALID
    launch_id = await adopted(node, foreign)
    assert await refusal(node, "ln_r", found.pid, found.start_ticks) is Refusal.PROCESS_CLAIMED
    assert await refusal(node, launch_id, shell.pid, shell.start_ticks) is Refusal.LAUNCH_TAKEN
    assert not (sshd.home / ".vigil" / "launches" / "ln_r").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
async def test_another_users_engine_is_found_and_not_adopted(node: NodeSession, sshd: Sshd) -> None:
    script = sshd.home / "sglang" / "launch_server.py"
    script.parent.mkdir()
    script.write_text("")
    argv = [PYTHON, "-i", str(script), "--port", "7"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, user=NOBODY, cwd="/") as process:
        stat = await eventually(lambda: proc.words(process.pid) == argv and proc.read_stat(process.pid))
        (found,) = [engine for engine in await node.find_engines() if engine.pid == process.pid]
        assert (found.port, found.python, found.user) == (7, PYTHON, proc.user_of(process.pid))
        assert found.user != proc.user_of(os.getpid())
        assert await refusal(node, "ln_r", stat.pid, stat.start_ticks) is Refusal.PROCESS_FOREIGN
        process.kill()
