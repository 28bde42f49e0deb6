"""What is said of one launch under watch."""

from pathlib import Path
from typing import Any

import pytest

from service.remote.on_node import proc
from service.remote.on_node.watched import Watched


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the directory of a launch with two lines of log."""
    monkeypatch.setenv("HOME", str(tmp_path))
    made = tmp_path / ".vigil" / "launches" / "ln_a"
    made.mkdir(parents=True)
    stat = proc.read_stat(1)
    assert stat
    for name, text in {
        "boot_id": proc.boot_id(),
        "pid": f"1 {stat.start_ticks}\n",
        "log": "a\nb\n",
        "secrets": "",
    }.items():
        (made / name).write_text(text)
    return made


def log_parts(watched: Watched, now_s: float) -> list[Any]:
    return [(fact["offset"]) for fact in watched.look(now_s, is_second=False) if fact["k"] == "log"]


def test_a_log_that_was_away_goes_on_where_it_was(directory: Path) -> None:
    watched = Watched("ln_a", 1, "127.0.0.1", 0)
    assert log_parts(watched, 0) == [0]
    away = directory.rename(directory.with_name("away"))
    assert log_parts(watched, 1) == []
    away.rename(directory)
    assert log_parts(watched, 2) == []
    with (directory / "log").open("a") as log:
        log.write("c\n")
    assert log_parts(watched, 3) == [4]


def test_a_log_that_was_cut_begins_anew(directory: Path) -> None:
    watched = Watched("ln_a", 1, "127.0.0.1", 0)
    assert log_parts(watched, 0) == [0]
    (directory / "log").write_text("")
    assert log_parts(watched, 1) == []
    (directory / "log").write_text("c\n")
    assert log_parts(watched, 2) == [0]
