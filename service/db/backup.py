"""Backups of an SQLite database: a copy that is taken while the service runs, checked, and put back."""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from alembic.util import CommandError

from service.db import migrating
from service.db.holding import PRIVATE, database_file, held

_BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite keeps beside a database, by the end of its name; a log that is not its own would be replayed into it."""


class BackupRefused(Exception):
    """A backup or its return cannot be made; the text says why, and nothing was changed."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy that was checked."""

    path: Path
    size_bytes: int
    revision: str
    """The migration that its tables are of."""


def back_up(url: str, target: Path, *, replaces: bool = False) -> Backup:
    """Copy the database as it is at one moment to `target`; blocking, and safe while a service writes.

    The copy is one snapshot; writers go on meanwhile. It appears under its name only when it is whole, checked and on
    the disk, with mode 600. BackupRefused when `target` is there already, unless it `replaces` that.
    """
    source = _file_of(url)
    if not source.is_file():
        raise BackupRefused(f"there is no database at {source}")
    if target.exists() and not replaces:
        raise BackupRefused(f"{target} exists")
    with _whole(target, replaces=replaces) as draft:
        _copy(source, draft)
        revision = _revision(draft)
    return Backup(target, target.stat().st_size, revision)


def check(path: Path) -> Backup:
    """Read a backup from end to end; BackupRefused when it is damaged or not one of ours."""
    if not path.is_file():
        raise BackupRefused(f"there is no file {path}")
    return Backup(path, path.stat().st_size, _revision(path))


def restore(source: Path, url: str, *, at: datetime, replaces: bool = False) -> Path | None:
    """Put a backup in the place of the database and return where the database that was there lies now, if one was.

    BackupRefused when the backup is damaged or of a newer release, or when there is a database that it shall not
    replace; DatabaseInUse while a service runs on it. The copy is brought to the tables of this release; a service that
    starts on it takes up what runs.
    """
    target = _file_of(url)
    check(source)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with held(url):
        if target.exists() and not replaces:
            raise BackupRefused(f"there is a database at {target}")
        with _whole(target, replaces=True) as draft:
            _copy(source, draft)
            _migrate(draft, source)
            return _set_aside(target, at)


def _file_of(url: str) -> Path:
    path = database_file(url)
    if path is None:
        raise BackupRefused("only a database in an SQLite file is copied here; for PostgreSQL use pg_dump")
    return path


@contextmanager
def _whole(target: Path, *, replaces: bool) -> Iterator[Path]:
    """Give a private draft beside `target` that takes its name at the end of the block, or is gone after an error."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
        yield draft
        _sync(draft)
        if replaces:
            draft.replace(target)
        else:
            os.link(draft, target)  # unlike a rename it fails when somebody was faster
        _sync(target.parent)
    except FileExistsError as error:
        raise BackupRefused(f"{target} exists") from error
    except (OSError, sqlite3.Error) as error:
        raise BackupRefused(f"{target} cannot be written: {error}") from error
    finally:
        for end in _BESIDE:
            draft.with_name(draft.name + end).unlink(missing_ok=True)


def _copy(source: Path, draft: Path) -> None:
    """Copy in one step: a second one would begin anew whenever somebody wrote between the two."""
    with closing(_open(source)) as read, closing(_open(draft)) as written:
        written.execute("PRAGMA synchronous=OFF")
        read.backup(written)
        written.execute("PRAGMA journal_mode=DELETE")


def _revision(path: Path) -> str:
    try:
        with closing(_open(path)) as connection:
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                raise BackupRefused(f"{path} is damaged: {verdict}")
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except (sqlite3.Error, TypeError) as error:
        raise BackupRefused(f"{path} is no database of Vigil: {error}") from error
    return str(revision)


def _migrate(draft: Path, source: Path) -> None:
    try:
        migrating.upgrade(f"sqlite:///{draft.absolute()}")
    except CommandError as error:
        raise BackupRefused(f"{source} is of a newer release than this one: {error}") from error


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=10)


def _set_aside(target: Path, at: datetime) -> Path | None:
    """Give the database, with what SQLite keeps beside it, another name; None when there was none."""
    kept = target.with_name(f"{target.name}.before-{at:%Y%m%dT%H%M%SZ}")
    had_one = target.exists()
    for end in _BESIDE:
        old = target.with_name(target.name + end)
        if old.exists():
            old.rename(kept.with_name(kept.name + end))
    return kept if had_one else None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
