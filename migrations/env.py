"""Runs the migrations on the connection that the service or a test hands over."""

from alembic import context
from sqlalchemy import Connection

from service.db.migrating import METADATA


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        render_as_batch=True,
        compare_type=True,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


_run(context.config.attributes["connection"])
