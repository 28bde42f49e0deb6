"""Backups: whole while somebody writes, private, never half there; and the way back."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.db import migrating
from service.db.backup import BackupRefused, back_up, check, restore
from service.db.holding import DatabaseInUse, database_file, held

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
PAIRS_BEFORE = 2000


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Give a database with two tables that always hold the same number of rows."""
    found = f"sqlite+aiosqlite:///{tmp_path / 'state' / 'vigil.db'}"
    (tmp_path / "state").mkdir()
    migrating.upgrade(found)
    with closing(sqlite3.connect(tmp_path / "state" / "vigil.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE left_hand (n INTEGER, filler TEXT)")
        connection.execute("CREATE TABLE right_hand (n INTEGER, filler TEXT)")
        rows = [(number, "x" * 500) for number in range(PAIRS_BEFORE)]
        connection.executemany("INSERT INTO left_hand VALUES (?, ?)", rows)
        connection.executemany("INSERT INTO right_hand VALUES (?, ?)", rows)
        connection.commit()
    return found


@pytest.fixture
def writer(url: str) -> Iterator[threading.Event]:
    """Write pairs as fast as can be, one transaction a pair; gives what is set once some are written."""
    is_over, is_busy = threading.Event(), threading.Event()
    path = database_file(url)
    assert path is not None

    def write() -> None:
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=OFF")
            number = PAIRS_BEFORE
            while not is_over.is_set():
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO left_hand VALUES (?, ?)", (number, "y" * 500))
                connection.execute("INSERT INTO right_hand VALUES (?, ?)", (number, "y" * 500))
                connection.execute("COMMIT")
                number += 1
                if number == PAIRS_BEFORE + 50:
                    is_busy.set()

    thread = threading.Thread(target=write)
    thread.start()
    yield is_busy
    is_over.set()
    thread.join()


def test_a_backup_under_load_is_one_moment(url: str, writer: threading.Event, tmp_path: Path) -> None:
    assert writer.wait(20)
    counts = []
    for number in range(5):
        made = back_up(url, tmp_path / f"{number}.db")
        assert made.size_bytes == made.path.stat().st_size
        left, right = _counts(made.path)
        assert left == right > PAIRS_BEFORE
        counts.append(left)
    assert counts == sorted(counts)
    assert counts[-1] > counts[0], "the writer was kept from writing"


def test_a_backup_is_private_and_one_file(url: str, tmp_path: Path) -> None:
    made = back_up(url, tmp_path / "a.db")
    assert made.path.stat().st_mode & 0o777 == 0o600
    check(made.path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.db", "state"]


def test_a_file_that_is_there_is_replaced_only_on_demand(url: str, tmp_path: Path) -> None:
    target = tmp_path / "a.db"
    target.write_text("precious")
    with pytest.raises(BackupRefused, match="exists"):
        back_up(url, target)
    assert target.read_text() == "precious"
    back_up(url, target, replaces=True)
    check(target)


def test_a_backup_that_fails_leaves_nothing(url: str, tmp_path: Path) -> None:
    database = tmp_path / "state" / "vigil.db"
    back_up(url, tmp_path / "good.db")
    pages = bytearray(database.read_bytes())
    for offset in range(8 * 4096, len(pages), 4096):
        pages[offset : offset + 64] = b"\xff" * 64
    database.write_bytes(pages)
    with pytest.raises(BackupRefused):
        back_up(url, tmp_path / "good.db", replaces=True)
    check(tmp_path / "good.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.db", "state"]


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_what_is_no_backup_is_not_put_back(url: str, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.db").write_bytes(content)
    with pytest.raises(BackupRefused, match="no database of Vigil"):
        restore(tmp_path / "a.db", url, at=NOW, replaces=True)
    assert _counts(tmp_path / "state" / "vigil.db") == (PAIRS_BEFORE, PAIRS_BEFORE)


def test_what_a_newer_release_wrote_is_not_put_back(url: str, tmp_path: Path) -> None:
    made = back_up(url, tmp_path / "a.db")
    with closing(sqlite3.connect(made.path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(BackupRefused, match="newer release"):
        restore(made.path, url, at=NOW, replaces=True)
    assert check(tmp_path / "state" / "vigil.db").revision != "9999"


def test_a_log_of_the_old_database_is_not_replayed_into_the_new_one(url: str, tmp_path: Path) -> None:
    """The old one was left by a kill with its last transactions still in the write-ahead log."""
    made = back_up(url, tmp_path / "a.db")
    database = tmp_path / "state" / "vigil.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("INSERT INTO left_hand VALUES (1, 'late')")
        connection.execute("INSERT INTO right_hand VALUES (1, 'late')")
        log = database.with_name("vigil.db-wal")
        remains = {path: path.read_bytes() for path in (database, log)}
        assert remains[log]
    for path, content in remains.items():
        path.write_bytes(content)
    kept = restore(made.path, url, at=NOW, replaces=True)
    assert kept == tmp_path / "state" / "vigil.db.before-20261129T120000Z"
    assert _counts(database) == (PAIRS_BEFORE, PAIRS_BEFORE)
    assert _counts(kept) == (PAIRS_BEFORE + 1, PAIRS_BEFORE + 1)
    assert database.stat().st_mode & 0o777 == 0o600


def test_into_a_new_directory(url: str, tmp_path: Path) -> None:
    made = back_up(url, tmp_path / "a.db")
    target = tmp_path / "elsewhere" / "vigil.db"
    assert restore(made.path, f"sqlite+aiosqlite:///{target}", at=NOW) is None
    assert _counts(target) == (PAIRS_BEFORE, PAIRS_BEFORE)
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o700
    with pytest.raises(BackupRefused, match="there is a database"):
        restore(made.path, f"sqlite+aiosqlite:///{target}", at=NOW)


def test_not_while_a_service_runs_on_it(url: str, tmp_path: Path) -> None:
    made = back_up(url, tmp_path / "a.db")
    with held(url):
        back_up(url, tmp_path / "b.db")
        with pytest.raises(DatabaseInUse, match="a service runs on"):
            restore(made.path, url, at=NOW, replaces=True)
    restore(made.path, url, at=NOW, replaces=True)


def test_postgresql_has_its_own_tools(tmp_path: Path) -> None:
    with pytest.raises(BackupRefused, match="pg_dump"):
        back_up("postgresql+psycopg:///vigil", tmp_path / "a.db")
    with held("postgresql+psycopg:///vigil"), held("postgresql+psycopg:///vigil"):
        pass


def _counts(path: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(path)) as connection:
        (left,) = connection.execute("SELECT count(*) FROM left_hand").fetchone()
        (right,) = connection.execute("SELECT count(*) FROM right_hand").fetchone()
    return left, right
