"""Column types: instants that stay aware and in UTC, enums stored by value, and JSON."""

from collections.abc import Collection
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, ColumnElement, DateTime, Dialect, Enum, String
from sqlalchemy.orm import Mapped
from sqlalchemy.types import TypeDecorator, TypeEngine

Json = JSON
"""JSON as the dialect stores it; None is SQL NULL."""


class UtcDateTime(TypeDecorator[datetime]):
    """Stores an aware instant in UTC and gives it back aware; SQLite keeps no time zone by itself."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Use a column with a zone where the dialect has one."""
        return dialect.type_descriptor(DateTime(timezone=dialect.name != "sqlite"))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a naive instant; strip the zone only where the column has none."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("an instant must be aware")
        instant = value.astimezone(UTC)
        return instant.replace(tzinfo=None) if dialect.name == "sqlite" else instant

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Give the instant back aware, in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def enum_text(kind: type[StrEnum]) -> Enum:
    """Return a text column that holds the values of an enum, without a database type of its own."""
    return Enum(
        kind,
        native_enum=False,
        create_constraint=False,
        values_callable=lambda members: [member.value for member in members],
        length=40,
    )


def short_text() -> String:
    """Return a column for names, ids and reasons."""
    return String(100)


def one_of(column: Mapped[Any], values: Collection[Any]) -> ColumnElement[bool]:
    """Return whether a column is one of many values, asked in one of a few lengths.

    A list of each length is a statement of its own, and connections keep them prepared: two hundred for the servers
    of a list of two hundred. So a list is filled up to the next power of two with its last value.
    """
    asked = list(values)
    if asked:
        asked += asked[-1:] * ((1 << (len(asked) - 1).bit_length()) - len(asked))
    return column.in_(asked)
