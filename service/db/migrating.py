"""Brings the database to the schema of this release, at start and in tests."""

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import Engine, make_url

from service.db import benchmark_tables, event_tables, tables

TABLE_MODULES = (tables, benchmark_tables, event_tables)
"""Each module of tables is named here, or its tables would be missing."""
METADATA = tables.Node.metadata
"""Of all tables."""

_PACKAGED = Path(__file__).parent / "migrations"
_CHECKED_OUT = Path(__file__).parents[2] / "migrations"


def upgrade(url: str, revision: str = "head") -> None:
    """Run every migration up to `revision`. Blocking: call it before the service takes requests."""
    _run(url, lambda config: command.upgrade(config, revision))


def downgrade(url: str, revision: str) -> None:
    """Run migrations backwards to `revision`; `base` is the empty database."""
    _run(url, lambda config: command.downgrade(config, revision))


def write_revision(url: str, message: str, number: str) -> None:
    """Write a new migration from the difference between the tables and the database (for developers)."""
    _run(url, lambda config: command.revision(config, message=message, autogenerate=True, rev_id=number))


def differences(url: str) -> list[object]:
    """Return what the tables in code and the database's schema do not share; empty when they agree."""
    engine = sync_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "render_as_batch": True})
        found = list(compare_metadata(context, METADATA))
    engine.dispose()
    return found


def _run(url: str, action: Callable[[Config], object]) -> None:
    engine = sync_engine(url)
    with engine.begin() as connection:
        action(_config(connection))
    engine.dispose()


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_PACKAGED if _PACKAGED.is_dir() else _CHECKED_OUT))
    config.attributes["connection"] = connection
    return config


def sync_engine(url: str) -> Engine:
    """Return a blocking engine on the same database, for migrations."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(parsed)
    engine = create_engine(parsed.set(drivername="sqlite"))

    @event.listens_for(engine, "connect")
    def _configure(connection: object, _record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
