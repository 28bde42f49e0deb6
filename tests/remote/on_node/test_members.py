"""Which processes are a launch's: real processes with and without a mark, in and out of its session."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.remote.on_node import proc
from service.remote.on_node.effort import Effort, Rising
from service.remote.on_node.members import Census, find_all_members, owner_of, record_members, recorded_members
from service.remote.on_node.proc import Stat
from tests.remote.conftest import eventually


class Family:
    """Real `sleep`s: each in a session of its own or in that of another, with an environment of its own."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []

    async def sleep(self, environment: dict[str, str], *, group: int = 0) -> Stat:
        process = subprocess.Popen(
            ["/bin/sleep", "60"], env=environment, process_group=group or None, start_new_session=not group
        )
        self.processes.append(process)
        await eventually(lambda: proc.command(process.pid) == "/bin/sleep 60")
        stat = proc.read_stat(process.pid)
        assert stat
        return stat

    def end(self, stat: Stat) -> None:
        os.kill(stat.pid, signal.SIGKILL)
        next(process for process in self.processes if process.pid == stat.pid).wait()


@pytest.fixture
def family() -> Iterator[Family]:
    made = Family()
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


def identity(stat: Stat) -> tuple[int, int]:
    return stat.pid, stat.start_ticks


async def test_a_mark_decides_wherever_the_process_is(family: Family) -> None:
    main = await family.sleep({"PATH": "/bin"})
    far = await family.sleep({"VIGIL_LAUNCH_ID": "ln_a"})
    stranger = await family.sleep({"VIGIL_LAUNCH_ID": "ln_b"})
    launches = {"ln_a": identity(main)}
    assert owner_of(main, launches) == "ln_a"
    assert owner_of(far, launches) == "ln_a"
    assert owner_of(stranger, launches) is None
    assert owner_of(stranger._replace(session=main.pid, group=main.pid), launches) is None


async def test_without_a_mark_session_or_group_decides_while_the_main_process_is_there(family: Family) -> None:
    main = await family.sleep({"VIGIL_LAUNCH_ID": "ln_a"})
    bare = await family.sleep({"PATH": "/bin"})
    launches = {"ln_a": identity(main)}
    assert owner_of(bare, launches) is None
    assert owner_of(bare._replace(group=main.pid), launches) == "ln_a"
    assert owner_of(bare._replace(session=main.pid), launches) == "ln_a"
    assert owner_of(bare._replace(session=main.pid, start_ticks=main.start_ticks - 1), launches) is None
    reused = {"ln_a": (main.pid, main.start_ticks - 9)}
    assert owner_of(bare._replace(session=main.pid), reused) is None


async def test_with_the_main_process_gone_only_a_silent_one_is_taken_for_ours(family: Family) -> None:
    main = await family.sleep({"VIGIL_LAUNCH_ID": "ln_a"})
    telling = await family.sleep({"PATH": "/bin"})
    silent = await family.sleep({})
    family.end(main)
    launches = {"ln_a": identity(main)}
    assert owner_of(telling._replace(session=main.pid), launches) is None
    assert owner_of(silent._replace(session=main.pid), launches) == "ln_a"


async def test_one_look_finds_the_members_of_all(family: Family) -> None:
    one = await family.sleep({"VIGIL_LAUNCH_ID": f"ln_one{os.getpid()}"})
    two = await family.sleep({"VIGIL_LAUNCH_ID": f"ln_two{os.getpid()}"})
    found = find_all_members({f"ln_one{os.getpid()}": None, f"ln_two{os.getpid()}": None, "ln_none": None})
    assert [[stat.pid for stat in stats] for stats in found.values()] == [[one.pid], [two.pid], []]


async def test_the_census_judges_each_process_once(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"ln_census{os.getpid()}"
    census = Census()
    first = await family.sleep({"VIGIL_LAUNCH_ID": name})
    assert [stat.pid for stat in census.newcomers({name: None}, [])[name]] == [first.pid]
    looked_at: list[int] = []
    really_read = proc.read_stat

    def reading(pid: int) -> Stat | None:
        looked_at.append(pid)
        return really_read(pid)

    monkeypatch.setattr(proc, "read_stat", reading)
    assert census.newcomers({name: None}, [first.pid]) == {}
    second = await family.sleep({"VIGIL_LAUNCH_ID": name})
    looked_at.clear()
    assert [stat.pid for stat in census.newcomers({name: None}, [first.pid])[name]] == [second.pid]
    assert 1 not in looked_at
    census.forget_strangers()
    census.newcomers({name: None}, [first.pid, second.pid])
    assert 1 in looked_at


def test_members_are_noted_once(tmp_path: Path) -> None:
    stats = [Stat(pid, "S", 1, 1, 1, 0, 1, pid * 10, 0) for pid in (5, 6)]
    record_members(str(tmp_path), stats[:1])
    record_members(str(tmp_path), stats)
    assert recorded_members(str(tmp_path)) == [(5, 50), (6, 60)]
    assert (tmp_path / "members").stat().st_mode & 0o777 == 0o600
    with (tmp_path / "members").open("a") as file:
        file.write("7 7")
    assert recorded_members(str(tmp_path)) == [(5, 50), (6, 60), (7, 7)]


def test_a_sum_that_falls_is_made_good() -> None:
    rising = Rising()
    assert [rising.look(total) for total in (5, 9, 4, 6, 0, 3)] == [5, 9, 9, 11, 11, 14]


def test_effort_of_nobody() -> None:
    effort = Effort().look([], 12, None)
    assert effort == {"cpu_ticks": 0, "read_bytes": None, "rss_mib": 0, "gpu_memory_mib": None, "log_bytes": 12}
