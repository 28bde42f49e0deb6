"""`vigil backup` and `vigil restore`, and what `vigil serve` says of a database in use."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.app import app
from service.db import migrating
from service.db.backup import check
from service.db.holding import held


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a database that the settings name."""
    monkeypatch.setenv("VIGIL_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    migrating.upgrade(found := f"sqlite+aiosqlite:///{tmp_path / 'state' / 'vigil.db'}")
    return found


def test_there_and_back(url: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert _run("backup", copy) == (
        0,
        f"{copy}: {copy.stat().st_size / 2**20:.1f} MiB, checked, tables of migration 0001",
    )
    check(copy)
    assert _run("backup", copy) == (1, f"vigil backup: {copy} exists")
    assert _run("backup", copy, "--force")[0] == 0
    code, said = _run("restore", copy)
    assert (code, said) == (1, f"vigil restore: there is a database at {tmp_path / 'state' / 'vigil.db'}")
    code, said = _run("restore", copy, "--force")
    assert code == 0
    assert "what was there before is" in said
    with held(url):
        assert _run("restore", copy, "--force")[0] == 1


def test_a_second_service_says_why_it_does_not_start(url: str, tmp_path: Path) -> None:
    with held(url):
        database = tmp_path / "state" / "vigil.db"
        assert _run("serve", "--port", "0") == (2, f"not started: a service runs on {database}; end it first")


def _run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output.strip()
