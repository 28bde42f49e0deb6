"""nvidia-smi, played by scripts: one at a time, never a second while one is stuck, and its words kept as they are."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.remote.on_node import gpu
from service.remote.on_node.answering import Refused
from tests.remote.conftest import eventually

Script = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """Put a shell script in the place of nvidia-smi, in a home of its own."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")

    def write(text: str) -> Path:
        program = tmp_path / "bin" / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        return tmp_path

    yield write
    for pid in (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else ():
        os.kill(int(pid), signal.SIGKILL)


def test_the_words_and_the_exit_code_come_back(script: Script) -> None:
    script('echo "$@"; echo error text >&2; echo "$LC_ALL $(ulimit -n)"; exit 14')
    assert gpu.ask("gpu", ("uuid", "name"), 5) == {
        "exit": 14,
        "text": "--query-gpu=uuid,name --format=csv,noheader,nounits\nerror text\nC 1024\n",
        "fields": ["uuid", "name"],
        "is_stuck": False,
    }


def test_a_node_without_it_is_told_from_a_broken_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpu, "PLACES", str(tmp_path))
    assert gpu.ask("gpu", ("uuid",), 5)["exit"] == gpu.NOT_FOUND


def test_without_a_place_for_the_lock_nothing_is_started(script: Script) -> None:
    home = script("echo started >> $HOME/started")
    (home / ".vigil").write_text("a file")
    with pytest.raises(Refused):
        gpu.ask("gpu", ("uuid",), 5)
    assert not (home / "started").exists()


def test_it_is_found_off_the_path_of_a_bare_login(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    home = script("echo found")
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr(gpu, "PLACES", str(home / "bin"))
    assert gpu.ask("gpu", ("uuid",), 5)["text"] == "found\n"


def test_one_that_takes_too_long_is_killed(script: Script) -> None:
    script("exec sleep 60")
    began = time.monotonic()
    outcome = gpu.ask("gpu", ("uuid",), 0.2)
    assert time.monotonic() - began < 10
    assert (outcome["exit"], outcome["is_stuck"]) == (None, False)
    assert "no answer" in outcome["text"]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_while_one_cannot_be_ended_no_second_is_started(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    home = script('echo $$ >> "$HOME/pids"; exec sleep 60')
    monkeypatch.setattr(gpu, "KILL_PATIENCE_S", 0.1)
    monkeypatch.setattr(subprocess.Popen, "kill", lambda _: None)  # as in an uninterruptible wait
    outcome = gpu.ask("gpu", ("uuid",), 0.3)
    assert outcome["is_stuck"]
    assert "cannot be killed" in outcome["text"]
    (pid,) = (home / "pids").read_text().split()
    assert gpu.start("gpu", ("uuid",)) is None
    outcome = gpu.ask("gpu", ("uuid",), 0.1)
    assert outcome["is_stuck"]
    assert f"pid {pid}, state S, has not ended since 20" in outcome["text"]
    assert (home / "pids").read_text().split() == [pid]
    monkeypatch.undo()


async def test_the_lock_goes_with_the_stuck_one_whoever_started_it(script: Script) -> None:
    home = script('echo $$ >> "$HOME/pids"; exec sleep 60')
    starter = "import os; from service.remote.on_node import gpu; gpu.start('gpu', ('uuid',)); os._exit(0)"
    environment = {**os.environ, "PYTHONPATH": str(Path(gpu.__file__).parents[3])}
    subprocess.run([sys.executable, "-c", starter], check=True, env=environment)
    await eventually((home / "pids").exists)
    pid = int((await eventually((home / "pids").read_text)).split()[0])
    assert gpu.ask("gpu", ("uuid",), 0.1)["is_stuck"]
    os.kill(pid, signal.SIGKILL)
    (home / "pids").unlink()
    script("echo fine")
    assert gpu.ask("gpu", ("uuid",), 5)["text"] == "fine\n"


def test_fields_that_the_driver_does_not_know_are_left_out(script: Script) -> None:
    script(
        'for field in fabric.state gpu_recovery_action; do case "$1" in *$field*)'
        ' echo "Field \\"$field\\" is not a valid field to query."; exit 2;; esac; done; echo "$1"'
    )
    outcome = gpu.ask_what_is_known("gpu", ("uuid", "gpu_recovery_action", "name", "fabric.state"), 5)
    assert (outcome["exit"], outcome["fields"]) == (0, ["uuid", "name"])
    script('echo "Field \\"uuid\\" is not a valid field to query."; exit 2')
    assert gpu.ask_what_is_known("gpu", ("uuid", "name"), 5)["exit"] == 2


def test_holders_are_read_outside_in() -> None:
    text = (
        "GPU-a, 11345, 15690, ./gpu_burn\n"
        "GPU-b, 7, 12, /opt/a tool, with commas, 3\n"
        "GPU-c, 8, [N/A], python\n"
        "GPU-d, [Insufficient Permissions], [Insufficient Permissions], [Insufficient Permissions]\n"
        "GPU-e, 9, 4, [Not Found]\n"
        "\nNo running processes found\n"
    )
    rows = gpu.holders({"exit": 0, "text": text})
    assert [tuple(row.values()) for row in rows] == [
        ("GPU-a", 11345, 15690, "./gpu_burn"),
        ("GPU-b", 7, 12, "/opt/a tool, with commas, 3"),
        ("GPU-c", 8, None, "python"),
    ]
    assert gpu.holders({"exit": 9, "text": text}) == []
