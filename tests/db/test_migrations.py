"""Migrations: up, the same as the tables in code, down again; on both dialects."""

from sqlalchemy import inspect

from service.db import migrating


def test_up_agrees_with_the_tables_and_down_leaves_nothing(url: str) -> None:
    migrating.upgrade(url)
    assert migrating.differences(url) == []
    migrating.upgrade(url)  # a second time changes nothing
    migrating.downgrade(url, "base")
    engine = migrating.sync_engine(url)
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
    engine.dispose()
    migrating.upgrade(url)
    assert migrating.differences(url) == []


def test_every_constraint_has_a_name(url: str) -> None:
    migrating.upgrade(url)
    engine = migrating.sync_engine(url)
    inspector = inspect(engine)
    for table in inspector.get_table_names():
        for found in (*inspector.get_unique_constraints(table), *inspector.get_foreign_keys(table)):
            assert found["name"], (table, found)
    engine.dispose()
