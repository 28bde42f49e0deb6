"""The state of a main process, by its files and by real processes."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.remote.on_node import main_process, proc
from service.remote.on_node.main_process import MainProcess


@pytest.fixture
def living() -> Iterator[proc.Stat]:
    with subprocess.Popen(["sleep", "60"]) as process:
        stat = proc.read_stat(process.pid)
        assert stat
        yield stat
        process.kill()


def identity(stat: proc.Stat) -> str:
    return f"{stat.pid} {stat.start_ticks}\n"


def write(directory: Path, **files: str) -> MainProcess:
    for name, text in files.items():
        if name == "lock":
            (directory / name).mkdir()
        else:
            (directory / name).write_text(text)
    return MainProcess(str(directory))


HERE = proc.boot_id()
DEAD = "4194303 1\n"


def test_no_directory_is_absent_and_no_lock_is_pending(tmp_path: Path) -> None:
    assert MainProcess(str(tmp_path / "none")).look(0)["state"] == "absent"
    assert MainProcess(str(tmp_path)).look(0)["state"] == "pending"


def test_running_needs_pid_start_time_and_boot(tmp_path: Path, living: proc.Stat) -> None:
    main = write(tmp_path, lock="", boot_id=HERE, pid=identity(living))
    assert main.look(0) == {
        "state": "running",
        "pid": living.pid,
        "start_ticks": living.start_ticks,
        "exit_code": None,
        "ended_at": None,
    }


def test_a_reused_pid_is_a_lost_launch(tmp_path: Path, living: proc.Stat) -> None:
    main = write(tmp_path, lock="", boot_id=HERE, pid=f"{living.pid} {living.start_ticks - 5}\n")
    assert main.look(0)["state"] == "lost"


def test_another_boot_is_a_reboot_even_with_the_pid_alive(tmp_path: Path, living: proc.Stat) -> None:
    assert write(tmp_path, lock="", boot_id="other\n", pid=identity(living)).look(0)["state"] == "rebooted"


@pytest.mark.parametrize("boot", [HERE, "other"])
def test_a_recorded_exit_is_an_exit_in_any_boot(tmp_path: Path, boot: str) -> None:
    seen = write(tmp_path, lock="", boot_id=boot, pid=DEAD, exit="137 1800000000\n" + " " * 40).look(0)
    assert (seen["state"], seen["exit_code"], seen["ended_at"]) == ("exited", 137, 1800000000)


def test_the_supervisor_gets_time_to_write_the_exit(tmp_path: Path, living: proc.Stat) -> None:
    main = write(tmp_path, lock="", boot_id=HERE, pid=DEAD, supervisor=identity(living))
    assert main.look(100)["state"] == "running"
    assert main.is_settling
    assert main.look(100 + main_process.SETTLE_S)["state"] == "lost"
    assert not main.is_settling
    (tmp_path / "exit").write_text("3 1800000000\n")
    assert main.look(103)["exit_code"] == 3


def test_without_its_supervisor_a_dead_process_is_lost_at_once(tmp_path: Path) -> None:
    assert write(tmp_path, lock="", boot_id=HERE, pid=DEAD, supervisor=DEAD).look(0)["state"] == "lost"


def test_a_start_that_never_came_to_a_pid(tmp_path: Path, living: proc.Stat) -> None:
    main = write(tmp_path, lock="", boot_id=HERE, supervisor=identity(living))
    assert main.look(0)["state"] == "pending"
    (tmp_path / "supervisor").write_text(DEAD)
    assert main.look(0)["state"] == "lost"
    (tmp_path / "supervisor").unlink()
    assert main.look(0)["state"] == "pending"
    long_ago = time.time() - main_process.START_S - 1
    os.utime(tmp_path / "lock", (long_ago, long_ago))
    assert main.look(0)["state"] == "lost"


@pytest.mark.parametrize("text", ["", "12", "12 34 56", "a b", "\xff"])
def test_a_file_half_written_counts_as_not_written(tmp_path: Path, text: str) -> None:
    main = write(tmp_path, lock="", boot_id=HERE, pid=text, exit=text)
    assert main.look(0)["state"] == "pending"


def test_a_process_lives_though_its_directory_is_away(tmp_path: Path, living: proc.Stat) -> None:
    """A home on a network may be away for a while: what was known of a process that lives is true as before."""
    directory = tmp_path / "launch"
    directory.mkdir()
    main = write(directory, boot_id=HERE, pid=identity(living))
    assert main.look(0)["state"] == "running"
    directory.rename(tmp_path / "away")
    assert main.look(1)["state"] == "running"
    os.kill(living.pid, 9)
    os.waitid(os.P_PID, living.pid, os.WEXITED | os.WNOWAIT)
    assert main.look(2)["state"] == "absent"
