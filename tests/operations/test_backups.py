"""Backups by the clock: one when the newest is too old, so many kept, nothing else touched."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from service.db import migrating
from service.db.backup import BackupRefused, check
from service.db.engine import Database
from service.operations import backups
from service.operations.control import Control
from service.remote.connections import Connections
from service.settings import Settings


@dataclass
class Clock:
    """What time it is said to be."""

    at: datetime = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    """Give a control plane that backs up every day and keeps two."""
    migrating.upgrade(url := f"sqlite+aiosqlite:///{tmp_path / 'vigil.db'}")
    settings = Settings(state_dir=tmp_path, backup_dir=tmp_path / "backups", backup_every_h=24, backup_keep=2)
    made = Control(settings, Database(url), Connections(), now=Clock().now)
    yield made
    await made.database.close()


async def test_the_first_one_is_due_at_once_and_the_next_a_day_later(control: Control) -> None:
    clock = _clock(control)
    first = await backups.keep_up(control)
    assert first is not None
    assert first.path.name == "vigil-20261129T120000Z.db"
    assert first.path.parent.stat().st_mode & 0o777 == 0o700
    check(first.path)
    clock.at += timedelta(hours=23)
    assert await backups.keep_up(control) is None
    clock.at += timedelta(hours=1)
    assert await backups.keep_up(control) is not None
    assert backups.newest_at(first.path.parent) == clock.at


async def test_the_oldest_go_and_what_has_another_name_stays(control: Control) -> None:
    clock = _clock(control)
    directory = control.settings.backup_dir
    assert directory is not None
    directory.mkdir()
    others = ["vigil.db", "vigil-20200101T000000Z.db.gz", "a-vigil-20200101T000000Z.db"]
    for name in others:
        (directory / name).touch()
    for _ in range(4):
        await backups.keep_up(control)
        clock.at += timedelta(days=1)
    mine = ["vigil-20261201T120000Z.db", "vigil-20261202T120000Z.db"]
    assert sorted(path.name for path in directory.iterdir()) == sorted(others + mine)


async def test_what_cannot_be_written_costs_no_old_backup(control: Control) -> None:
    clock = _clock(control)
    made = await backups.keep_up(control)
    assert made is not None
    (control.settings.state_dir / "vigil.db").unlink()
    clock.at += timedelta(days=1)
    with pytest.raises(BackupRefused, match="no database"):
        await backups.keep_up(control)
    check(made.path)


async def test_none_are_made_without_a_directory(control: Control) -> None:
    control.settings = control.settings.model_copy(update={"backup_dir": None})
    assert await backups.keep_up(control) is None


def _clock(control: Control) -> Clock:
    clock = Clock()
    control.now = clock.now
    return clock
