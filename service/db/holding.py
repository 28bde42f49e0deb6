"""Who holds an SQLite database: one service at a time, or nobody while it is replaced."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url

PRIVATE = 0o600


class DatabaseInUse(Exception):
    """Another process serves from this database, or replaces it, at this moment."""


def database_file(url: str) -> Path | None:
    """Return the file of an SQLite database; None for one in memory and for another dialect."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        return None
    return Path(parsed.database)


def require_free(url: str) -> None:
    """Raise DatabaseInUse if another process holds the database now; to say so before anything is begun."""
    path = database_file(url)
    if path is not None and path.parent.is_dir():
        with held(url):
            pass


@contextmanager
def held(url: str) -> Iterator[None]:
    """Hold the database for this process alone until the end of the block; DatabaseInUse if another does.

    Two services on one database would both carry out every operation. The lock is one of the kernel's on a file beside
    the database, so it ends with the process however that ends. A database that is no file is not guarded.
    """
    path = database_file(url)
    if path is None:
        yield
        return
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DatabaseInUse(f"a service runs on {path}; end it first") from error
        yield
    finally:
        os.close(descriptor)
