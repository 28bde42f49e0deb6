"""What columns of tables are made of: keys, names, references, instants, JSON."""

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Index, MetaData, String, text
from sqlmodel import Field, SQLModel

from service.db.columns import Json, UtcDateTime, short_text

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
"""Every constraint has a name, or a migration in batch mode could not drop it."""


class Table(SQLModel):
    """The base of all tables."""

    metadata = MetaData(naming_convention=NAMING)


def key_field() -> Any:
    """Return the column of a row's own id."""
    return Field(sa_column=Column(short_text(), primary_key=True))


def text_field(*, nullable: bool = False, index: bool = False) -> Any:
    """Return a column for a name, an id or a reason: at most 100 characters."""
    return Field(default=None if nullable else ..., sa_column=Column(short_text(), nullable=nullable, index=index))


def long_text_field() -> Any:
    """Return an indexed column for a path: at most 500 characters."""
    return Field(sa_column=Column(String(500), nullable=False, index=True))


def reference_field(target: str, *, nullable: bool = False) -> Any:
    """Return a column that holds the id of a row of another table."""
    column = Column(short_text(), ForeignKey(target), nullable=nullable, index=True)
    return Field(default=None if nullable else ..., sa_column=column)


def instant_field(*, nullable: bool = False, index: bool = False) -> Any:
    """Return a column for an aware instant."""
    return Field(default=None if nullable else ..., sa_column=Column(UtcDateTime(), nullable=nullable, index=index))


def count_field() -> Any:
    """Return a column for a number that may pass 32 bits."""
    return Field(sa_column=Column(BigInteger, nullable=False))


def json_field(*, nullable: bool = False) -> Any:
    """Return a column for what is only read back as a whole."""
    return Field(default=None if nullable else ..., sa_column=Column(Json(none_as_null=True), nullable=nullable))


def live_name(table: str) -> Index:
    """Return a unique index over the names of what is not deleted."""
    alive = text("deleted_at IS NULL")
    return Index(f"uq_{table}_name_alive", "name", unique=True, sqlite_where=alive, postgresql_where=alive)
