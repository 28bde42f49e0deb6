"""The look at a node before a launch: its parts, the limits, and orphans of real processes."""

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from service.preflights.conditions import Limit, LimitName, Part
from service.preflights.node_port import check_port
from service.remote import conditions as parsing
from service.remote.node import NodeSession
from service.remote.on_node import launch_conditions, timely
from service.remote.ssh import open_connection
from service.sglang.checks import Outcome
from tests.remote.conftest import eventually
from tests.remote.looking import AS_ROOT, NOBODY, PYTHON, look, look_as, look_here, wish
from tests.sshd import Sshd


async def test_the_limits_are_those_of_the_login(tmp_path: Path) -> None:
    with Sshd(tmp_path / "sshd") as server:
        assert server._process
        resource.prlimit(server._process.pid, resource.RLIMIT_NOFILE, (300, 400))
        resource.prlimit(server._process.pid, resource.RLIMIT_STACK, (4 << 20, 16 << 20))
        connection = await open_connection(server.endpoint())
        seen = await look(NodeSession(connection))
        await connection.close()
    assert seen.limits
    assert seen.limits.login[LimitName.OPEN_FILES] == Limit(300, 400)
    assert seen.limits.login[LimitName.STACK] == Limit(4 << 20, 16 << 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    unlimited = resource.RLIM_INFINITY
    assert seen.limits.login[LimitName.CORE] == Limit(*(None if x == unlimited else x for x in (soft, hard)))
    assert seen.limits.is_root == (os.geteuid() == 0)
    assert seen.limits.user_threads > 1
    assert seen.limits.user_manager is None


@AS_ROOT
def test_the_limits_of_the_users_own_systemd() -> None:
    """Played by a process of that name, of a user who has nothing else here."""
    script = (
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, 65536));"
        "os.execv(sys.argv[1], ['/lib/systemd/systemd', '-c', 'import time; time.sleep(60)', '--user'])"
    )
    argv = [PYTHON, "-c", script, PYTHON]
    user = 54321
    with subprocess.Popen(argv, user=user, group=user, extra_groups=[], cwd="/") as manager:
        try:
            place = Path(f"/proc/{manager.pid}/cmdline")
            deadline = time.monotonic() + 10
            while not place.read_bytes().startswith(b"/lib/systemd") and time.monotonic() < deadline:
                time.sleep(0.01)
            seen, other = look_as(user), look_as(NOBODY)
        finally:
            manager.kill()
    assert seen.limits
    assert seen.limits.user_manager
    assert seen.limits.user_manager[LimitName.LOCKED_MEMORY] == Limit(4096, 65536)
    assert set(seen.limits.user_manager) == set(LimitName)
    assert not seen.limits.is_root
    assert 0 < seen.limits.user_threads < 20
    assert other.limits
    assert other.limits.user_manager is None


def test_every_part_may_fail_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/some/place")

    for name in ("look_at_port", "look_at_places", "look_at_shared_memory", "look_at_packages", "find_orphans"):
        monkeypatch.setattr(launch_conditions, name, refuse)
    monkeypatch.setattr(launch_conditions, "_limits", refuse)
    seen = look_here()
    assert seen.problems == dict.fromkeys(Part, "/some/place: Permission denied")
    parts = (seen.port, seen.limits, seen.shared_memory, seen.places, seen.packages, seen.processes)
    assert parts == (None,) * 6
    check = check_port(seen, wish("127.0.0.1", 1))
    assert (check.outcome, "Permission denied" in check.found) == (Outcome.SKIPPED, True)


def test_looks_side_by_side_end_each_by_itself() -> None:
    def fail() -> None:
        raise ValueError("odd")

    seen = timely.side_by_side({"good": lambda: 1, "bad": fail, "slow": lambda: time.sleep(2)}, 0.1)
    assert seen == ({"good": 1}, {"bad": "ValueError: odd", "slow": "no answer within 0.1 s"})


SERVER = """
import os, sys, time
if os.fork() == 0:
    if os.fork() == 0:
        os.execv(sys.argv[1], ["sglang::scheduler_TP0", "60"])
    os.execv(sys.argv[1], ["sglang::data_parallel_controller", "60"])
time.sleep(60)
"""


@pytest.fixture
def server() -> Iterator[subprocess.Popen[bytes]]:
    """Give a Python with two titled processes below it, one below the other."""
    sleep = shutil.which("sleep") or "/bin/sleep"
    with subprocess.Popen([PYTHON, "-c", SERVER, sleep], start_new_session=True) as process:
        yield process
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def titled_in(session: int) -> set[int]:
    found = set()
    for place in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if os.getsid(int(place.name)) == session and (place / "cmdline").read_bytes().startswith(b"sglang::"):
                found.add(int(place.name))
    return found


async def test_titled_processes_are_orphans_once_their_server_is_gone(
    node: NodeSession, server: subprocess.Popen[bytes]
) -> None:
    pids: set[int] = await eventually(lambda: len(titled_in(server.pid)) == 2 and titled_in(server.pid))
    seen = await look(node)
    assert seen.processes
    assert not pids & {orphan.pid for orphan in seen.processes.orphans}
    server.kill()
    server.wait()
    seen = await look(node)
    assert seen.processes
    orphans = {orphan.pid: orphan for orphan in seen.processes.orphans}
    assert pids <= set(orphans)
    assert {orphans[pid].command for pid in pids} == {"sglang::scheduler_TP0 60", "sglang::data_parallel_controller 60"}
    assert {orphans[pid].launch_id for pid in pids} == {None}
    assert orphans[min(pids)].user


KEEPER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork():
    os.execv(sys.argv[1], ["keeper", "60"])
os.setsid()
exec(sys.argv[2])
"""


@pytest.fixture
def kept_server() -> Iterator[int]:
    """Give the pid of such a server whose orphans a process of another session takes in, as a user's systemd does."""
    sleep = shutil.which("sleep") or "/bin/sleep"
    with subprocess.Popen([PYTHON, "-c", KEEPER, sleep, SERVER], start_new_session=True) as keeper:
        children = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children")
        deadline = time.monotonic() + 10
        while not (found := children.read_text().split()) and time.monotonic() < deadline:
            time.sleep(0.01)
        yield int(found[0])
        with suppress(ProcessLookupError):
            os.killpg(int(found[0]), signal.SIGKILL)
        keeper.kill()


async def test_orphans_are_known_whoever_takes_them_in(node: NodeSession, kept_server: int) -> None:
    pids: set[int] = await eventually(lambda: len(titled_in(kept_server)) == 2 and titled_in(kept_server))
    os.kill(kept_server, signal.SIGKILL)
    await eventually(lambda: "State:\tZ" in Path(f"/proc/{kept_server}/status").read_text())
    seen = await look(node)
    assert seen.processes
    assert pids <= {orphan.pid for orphan in seen.processes.orphans}


def test_another_answer_than_agreed_is_no_look() -> None:
    plain = launch_conditions.launch_conditions(
        {"host": "", "port": 1, "python": PYTHON, "paths": [], "environment": {}}
    )
    assert parsing.launch_conditions(plain).problems == {}
    del plain["port"]
    with pytest.raises(KeyError):
        parsing.launch_conditions(plain)
