"""A launch on a real node: written once, started once, alive whatever happens to us, and its end known."""

import asyncio
import json
import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from service.clock import utc_now
from service.errors import RemoteCommandFailed
from service.remote.messages import CONFIG_PATH, FoundLaunch, Launcher, Refusal
from service.remote.node import NodeSession
from service.remote.ssh import open_connection
from service.servers.observation import ProcessState
from tests.remote.conftest import Launches, eventually
from tests.sshd import Sshd

PRINT_ARGV = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


async def found(node: NodeSession, launch_id: str) -> FoundLaunch:
    return next(launch for launch in await node.list_launches() if launch.launch_id == launch_id)


async def ended(node: NodeSession, launches: Launches, launch_id: str) -> FoundLaunch:
    await eventually((launches.home / ".vigil" / "launches" / launch_id / "exit").exists)
    return await found(node, launch_id)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("exec /no/such/program", 127),
        ("sleep 0.2; exit 3", 3),
    ],
)
async def test_the_exit_code_is_kept(node: NodeSession, launches: Launches, script: str, code: int) -> None:
    order = launches.shell(script)
    before = utc_now()
    started = await node.stage_and_start(order)
    assert (started.launcher, started.already_started) == (Launcher.SETSID, False)
    launch = await ended(node, launches, order.launch_id)
    assert (launch.process.state, launch.process.exit_code) == (ProcessState.EXITED, code)
    assert launch.process.ended_at
    assert abs((launch.process.ended_at - before).total_seconds()) < 5
    assert (launch.process.pid, launch.start_ticks) == (started.pid, started.start_ticks)


async def test_a_found_launch_says_what_was_ordered(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("echo hello; exec sleep 60", server="big one", port=31234)
    started = await node.stage_and_start(order)
    await eventually((launches.directory(order) / "log").read_bytes)
    launch = await found(node, order.launch_id)
    assert (launch.server, launch.port, launch.created_at) == ("big one", 31234, order.created_at)
    assert (launch.launcher, launch.boot_id, launch.log_bytes) == (Launcher.SETSID, started.boot_id, 6)
    assert (launch.process.state, launch.process.member_count) == (ProcessState.RUNNING, 1)


HOSTILE = [
    "two words",
    'it\'s "quoted"',
    "$(touch {pwned}) `touch {pwned}` ${HOME}",
    "; touch {pwned} & | > < * ? ~ ! # \\ %s",
    "line\nbreak\n\n",
    "trailing space ",
    "",
    "-n",
    "ümlaut 中文 🙂",
    "\t\x01\x7f",
    "\udcff",
    "'",
    "\\'",
]


async def test_shell_characters_are_inert_in_arguments_and_environment(
    node: NodeSession, launches: Launches, tmp_path: Path
) -> None:
    pwned = tmp_path / "pwned"
    texts = [text.replace("{pwned}", str(pwned)) for text in HOSTILE]
    environment = {f"HOSTILE_{index}": text for index, text in enumerate(texts)}
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or "python3"
    order = launches.order(python, "-c", PRINT_ARGV, *texts, environment=environment, server="$(touch /x)'\n")
    await node.stage_and_start(order)
    launch = await ended(node, launches, order.launch_id)
    argv, seen = json.loads((launches.directory(order) / "log").read_text())
    assert argv == texts
    assert {name: seen[name] for name in environment} == environment
    assert launch.server == "$(touch /x)'\n"
    assert not pwned.exists()


async def test_the_engines_surroundings(node: NodeSession, launches: Launches) -> None:
    program = (
        "import os, json, signal; status = open('/proc/self/status').read();"
        "ignored = int(next(l for l in status.splitlines() if l.startswith('SigIgn')).split()[1], 16);"
        "os.umask(u := os.umask(0));"
        "print(json.dumps({'ignored': [s for s in (1, 2, 3, 13, 15) if ignored >> (s - 1) & 1], 'umask': u,"
        "'own': os.getsid(0) == os.getpgid(0) == os.getpid(), 'cwd': os.getcwd(),"
        "'stdin': os.readlink('/proc/self/fd/0'),"
        "'env': dict(os.environ)}))"
    )
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or "python3"
    hostile = {"VIGIL_LAUNCH_ID": "other", "SPT_NOENV": "", "HF_HOME": "/models/hub"}
    order = launches.order(python, "-S", "-c", program, environment=hostile)
    await node.stage_and_start(order)
    await ended(node, launches, order.launch_id)
    said: dict[str, Any] = json.loads((launches.directory(order) / "log").read_text())
    # Python itself ignores SIGPIPE; INT and QUIT would be ignored in a shell's background command.
    assert said["ignored"] == [13]
    assert said["umask"] == 0o022
    assert said["own"] is True
    assert said["stdin"] == "/dev/null"
    assert said["cwd"] == str(launches.directory(order) / "work")
    environment = said["env"]
    assert (environment["VIGIL_LAUNCH_ID"], environment["SPT_NOENV"]) == (order.launch_id, "1")
    assert (environment["HF_HOME"], environment["HOME"]) == ("/models/hub", str(launches.home))
    assert environment["PATH"].startswith(f"{Path(python).parent}:")
    assert not [name for name in environment if name.startswith("SSH_")]


async def test_a_profile_that_breaks_the_shells_own_variables_breaks_only_itself(
    node: NodeSession, launches: Launches
) -> None:
    order = launches.shell(
        "exit 5", environment={"PATH": "/nowhere", "LD_LIBRARY_PATH": "/nowhere", "PYTHONHOME": "/nowhere"}
    )
    await node.stage_and_start(order)
    launch = await ended(node, launches, order.launch_id)
    assert launch.process.exit_code == 5


async def test_nobody_else_can_read_the_launch(node: NodeSession, launches: Launches) -> None:
    order = launches.order(
        "/bin/sh", "-c", 'cat "$1"; echo out', "sh", CONFIG_PATH, config_text="api-key: sk-1234\n", secrets=("sk-1234",)
    )
    await node.stage_and_start(order)
    await ended(node, launches, order.launch_id)
    directory = launches.directory(order)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for path in directory.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert (directory / "log").read_text() == "api-key: sk-1234\nout\n"
    assert "sk-1234" not in (directory / "command").read_text() + (directory / "launch.json").read_text()


async def test_an_open_directory_is_closed_to_others(other_sshd: Sshd) -> None:
    (other_sshd.home / ".vigil" / "launches").mkdir(parents=True)
    (other_sshd.home / ".vigil").chmod(0o755)
    connection = await open_connection(other_sshd.endpoint())
    await NodeSession(connection).stage_and_start(Launches(other_sshd.home).shell("exit 0"))
    assert stat.S_IMODE((other_sshd.home / ".vigil").stat().st_mode) == 0o700
    assert stat.S_IMODE((other_sshd.home / ".vigil" / "launches").stat().st_mode) == 0o700
    await connection.close()


async def test_a_second_order_starts_nothing(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("echo once; exec sleep 60")
    first = await node.stage_and_start(order)
    second = await node.stage_and_start(order)
    assert (second.pid, second.already_started) == (first.pid, True)
    await asyncio.sleep(0.1)
    assert (launches.directory(order) / "log").read_text() == "once\n"


async def test_an_ended_launch_is_not_started_again(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("echo once")
    await node.stage_and_start(order)
    await ended(node, launches, order.launch_id)
    again = await node.stage_and_start(order)
    assert again.already_started
    assert (launches.directory(order) / "log").read_text() == "once\n"


async def test_of_many_orders_at_once_one_starts(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("echo once; exec sleep 60")
    answers = await asyncio.gather(*(node.stage_and_start(order) for _ in range(6)))
    assert len({answer.pid for answer in answers}) == 1
    await eventually(lambda: (launches.directory(order) / "log").read_text() == "once\n")
    assert len(launches.pids(order)) == 1
    assert [path.name for path in launches.directory(order).parent.glob(f"{order.launch_id}*")] == [order.launch_id]


async def test_a_staged_launch_whose_start_was_lost_is_started_by_the_next_order(
    node: NodeSession, launches: Launches
) -> None:
    order = launches.shell("exec sleep 60")
    await node.stage_and_start(order)
    await eventually(lambda: launches.pids(order))
    launches.kill_all()
    directory = launches.directory(order)
    await eventually((directory / "exit").exists)
    for name in ("lock", "supervisor", "boot_id", "pid", "exit"):
        path = directory / name
        path.rmdir() if path.is_dir() else path.unlink()
    assert (await found(node, order.launch_id)).process.state is ProcessState.PENDING
    started = await node.stage_and_start(order)
    assert not started.already_started
    assert await eventually(lambda: launches.pids(order)) == [started.pid]


async def test_the_launch_outlives_the_connection(launches: Launches, sshd: Sshd) -> None:
    connection = await open_connection(sshd.endpoint())
    order = launches.shell("sleep 0.5; echo still here; exit 9")
    await NodeSession(connection).stage_and_start(order)
    sshd.drop_connections()
    await connection.close()
    again = await open_connection(sshd.endpoint())
    launch = await ended(NodeSession(again), launches, order.launch_id)
    assert launch.process.exit_code == 9
    assert (launches.directory(order) / "log").read_text() == "still here\n"
    await again.close()


def supervisor_pid(directory: Path) -> int:
    return int((directory / "supervisor").read_text().split()[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_the_supervisor_is_not_disturbed_by_signals(
    node: NodeSession, launches: Launches, number: signal.Signals
) -> None:
    order = launches.shell("sleep 0.4; exit 9")
    await node.stage_and_start(order)
    for _ in range(3):
        os.kill(supervisor_pid(launches.directory(order)), number)
        await asyncio.sleep(0.05)
    launch = await ended(node, launches, order.launch_id)
    assert launch.process.exit_code == 9


async def test_a_killed_supervisor_leaves_a_running_launch_and_then_a_lost_one(
    node: NodeSession, launches: Launches
) -> None:
    order = launches.shell("exec sleep 60")
    started = await node.stage_and_start(order)
    await eventually(lambda: launches.pids(order))
    os.kill(supervisor_pid(launches.directory(order)), signal.SIGKILL)
    assert (await found(node, order.launch_id)).process.state is ProcessState.RUNNING
    launches.kill_all()
    launch = await found(node, order.launch_id)
    assert (launch.process.state, launch.process.pid) == (ProcessState.LOST, started.pid)
    assert launch.process.exit_code is None


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"argv": ("/no/such/python", "-m", "x")}, Refusal.ENGINE_MISSING),
        ({"argv": ("no-such-program-on-the-path",)}, Refusal.ENGINE_MISSING),
        ({"argv": ("/etc/passwd",)}, Refusal.ENGINE_NOT_EXECUTABLE),
        ({"argv": ("/etc",)}, Refusal.ENGINE_NOT_EXECUTABLE),
        ({"argv": ()}, Refusal.ORDER_INVALID),
        ({"argv": ("/bin/sh", "a\0b")}, Refusal.ORDER_INVALID),
        ({"argv": ("/bin/sh", "\ud800")}, Refusal.ORDER_INVALID),
        ({"environment": {"A-B": "x"}}, Refusal.ORDER_INVALID),
        ({"environment": {"A;touch x": "x"}}, Refusal.ORDER_INVALID),
        ({"environment": {"UID": "0"}}, Refusal.ORDER_INVALID),
        ({"environment": {"A": "a\0b"}}, Refusal.ORDER_INVALID),
        ({"launch_id": "../../etc"}, Refusal.ORDER_INVALID),
        ({"launch_id": "Ln 1"}, Refusal.ORDER_INVALID),
        ({"launch_id": ""}, Refusal.ORDER_INVALID),
        ({"launch_id": "x" * 41}, Refusal.ORDER_INVALID),
        ({"secrets": ("abc",)}, Refusal.ORDER_INVALID),
    ],
)
async def test_an_order_that_cannot_be_carried_out_is_refused_and_leaves_nothing(
    node: NodeSession, launches: Launches, fields: dict[str, Any], refusal: Refusal
) -> None:
    order = launches.order(**{"argv": ("/bin/sh", "-c", "exit 0"), **fields})
    root = launches.home / ".vigil" / "launches"
    before = sorted(root.glob("*"))
    with pytest.raises(RemoteCommandFailed) as caught:
        await node.stage_and_start(order)
    assert caught.value.context["refusal"] is refusal
    assert sorted(root.glob("*")) == before


async def test_a_home_that_cannot_be_written_is_refused(tmp_path: Path, launches: Launches) -> None:
    (tmp_path / "home.txt").write_text("a file")
    with Sshd(tmp_path / "sshd", environment={"HOME": str(tmp_path / "home.txt")}) as server:
        connection = await open_connection(server.endpoint())
        with pytest.raises(RemoteCommandFailed) as caught:
            await NodeSession(connection).stage_and_start(launches.shell("exit 0"))
        assert caught.value.context["refusal"] is Refusal.DIRECTORY_UNUSABLE
        await connection.close()


async def test_a_node_without_python_says_so(tmp_path: Path, launches: Launches) -> None:
    with Sshd(tmp_path / "sshd", environment={"PATH": str(tmp_path)}) as server:
        connection = await open_connection(server.endpoint())
        with pytest.raises(RemoteCommandFailed) as caught:
            await NodeSession(connection).stage_and_start(launches.shell("exit 0"))
        assert caught.value.context["refusal"] is Refusal.PYTHON_MISSING
        await connection.close()


async def test_start_up_files_that_print_do_not_get_in_the_way(other_sshd: Sshd) -> None:
    for name in (".bashrc", ".profile", ".zshenv"):
        (other_sshd.home / name).write_text("echo 'Welcome to the {\"k\": cluster!'; echo VIGIL >&2\n")
    connection = await open_connection(other_sshd.endpoint())
    inventory = await NodeSession(connection).inventory()
    assert inventory.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    await connection.close()


async def test_launches_of_another_machine_on_a_shared_home_are_not_ours(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("exit 0")
    await node.stage_and_start(order)
    await ended(node, launches, order.launch_id)
    path = launches.directory(order) / "launch.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine_id": "another"}))
    assert order.launch_id not in [launch.launch_id for launch in await node.list_launches()]


async def test_a_garbled_launch_directory_does_not_hide_the_others(node: NodeSession, launches: Launches) -> None:
    good, bad = launches.shell("exit 0"), launches.shell("exit 0")
    for order in (good, bad):
        await node.stage_and_start(order)
        await ended(node, launches, order.launch_id)
    directory = launches.directory(bad)
    for name in ("launch.json", "pid", "exit", "boot_id", "launcher"):
        (directory / name).write_bytes(b"\xff\0{garbage")
    odd = launches.shell("exit 0")
    await node.stage_and_start(odd)
    (launches.directory(odd) / "launch.json").write_text('{"created_at": "yesterday", "port": null}')
    (launches.home / ".vigil" / "launches" / "Not A Launch").mkdir(exist_ok=True)
    assert (await found(node, good.launch_id)).process.state is ProcessState.EXITED
    assert (await found(node, bad.launch_id)).server is None
    assert (await found(node, odd.launch_id)).created_at is None


async def test_only_the_launches_named_are_listed(node: NodeSession, launches: Launches) -> None:
    one, two = launches.shell("exit 0"), launches.shell("exit 0")
    for order in (one, two):
        await node.stage_and_start(order)
    listed = await node.list_launches(only=[two.launch_id, "ln_none"])
    assert [launch.launch_id for launch in listed] == [two.launch_id]
    assert await node.list_launches(only=[]) == ()


async def test_a_launch_is_removed_only_when_nothing_of_it_lives(node: NodeSession, launches: Launches) -> None:
    order = launches.shell("setsid sleep 60 & sleep 0.3; exit 0")
    await node.stage_and_start(order)
    for is_ended in (False, True):
        if is_ended:
            await eventually((launches.directory(order) / "exit").exists)
        with pytest.raises(RemoteCommandFailed) as caught:
            await node.remove_launch(order.launch_id)
        assert caught.value.context["refusal"] is Refusal.LAUNCH_ALIVE
    launches.kill_all()
    await eventually(lambda: not launches.pids(order))
    assert await node.remove_launch(order.launch_id)
    assert list(launches.directory(order).parent.glob(f"{order.launch_id}*")) == []
    assert not await node.remove_launch(order.launch_id)


def can_mount(path: Path) -> bool:
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=40m", "vigil-test", str(path)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


async def test_a_full_disk_loses_no_exit_code_and_refuses_the_next_start(tmp_path: Path) -> None:
    small = tmp_path / "small"
    if not can_mount(small):
        pytest.skip("mounting a small file system needs root")
    try:
        with Sshd(tmp_path / "sshd", environment={"HOME": str(small)}) as server:
            connection = await open_connection(server.endpoint())
            node, launches = NodeSession(connection), Launches(small)
            order = launches.shell("cat /dev/zero; exit 6")
            await node.stage_and_start(order)
            launch = await ended(node, launches, order.launch_id)
            assert launch.process.exit_code == 6
            with pytest.raises(RemoteCommandFailed) as caught:
                await node.stage_and_start(launches.shell("exit 0"))
            assert caught.value.context["refusal"] is Refusal.NO_ROOM
            await connection.close()
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
