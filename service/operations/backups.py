"""Backups that Vigil makes by itself: when the newest is too old, as many as are kept, and no other file is touched."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from service.db.backup import Backup, back_up
from service.logs import EventLog
from service.operations.control import Control

_NAME = re.compile(r"vigil-(\d{8}T\d{6}Z)\.db")
_WRITTEN = "%Y%m%dT%H%M%SZ"
_events = EventLog("backups")


async def keep_up(control: Control) -> Backup | None:
    """Write the backup that is due, if one is, and let go of the oldest beyond the number that is kept.

    The copy is made in a thread: it takes as long as reading the database does. An old one goes only when a new one is
    whole. BackupRefused when it cannot be made.
    """
    directory, now = control.settings.backup_dir, control.now()
    if directory is None or not _is_due(directory, now, every_h=control.settings.backup_every_h):
        return None
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = await asyncio.to_thread(back_up, control.database.url, directory / f"vigil-{now:{_WRITTEN}}.db")
    _events.info("backup_written", path=made.path, size_bytes=made.size_bytes)
    for path in _found(directory)[: -control.settings.backup_keep]:
        path.unlink(missing_ok=True)
        _events.info("backup_removed", path=path)
    return made


def newest_at(directory: Path) -> datetime | None:
    """Return when the newest backup in a directory was made; None when there is none."""
    found = _found(directory)
    return datetime.strptime(found[-1].name, f"vigil-{_WRITTEN}.db").replace(tzinfo=UTC) if found else None


def _is_due(directory: Path, now: datetime, *, every_h: float) -> bool:
    made_at = newest_at(directory)
    return made_at is None or now - made_at >= timedelta(hours=every_h)


def _found(directory: Path) -> list[Path]:
    """Return the backups in a directory, oldest first; what has another name is not one of ours."""
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if _NAME.fullmatch(path.name))
