"""Keyset paging: newest first, by a column that sorts by creation, with an opaque cursor."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, Mapped
from sqlmodel.sql.expression import SelectOfScalar

from service.errors import InvalidInput

MAX_LIMIT = 200
_KEY = re.compile(r"[0-9a-z_]{1,40}|[0-9]{1,18}")
"""What a page may be keyed by: an id, or a number that fits a database's integer."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """How many rows are wanted (1 to 200), and where the last page ended."""

    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Rows(Generic[Row]):
    """One page of rows and the cursor of the next, None at the end."""

    items: Sequence[Row]
    next_cursor: str | None


async def fetch_page(
    session: AsyncSession, query: SelectOfScalar[Row], key: Mapped[Any], request: PageRequest
) -> Rows[Row]:
    """Run `query` for one page, newest first by `key`; InvalidInput for a cursor that is not one of ours."""
    rows = (await session.execute(page_query(query, key, request))).scalars()
    return page_of(list(rows), request, lambda row: getattr(row, _column(key).key))


def page_query(query: Select[Any], key: Mapped[Any], request: PageRequest) -> Select[Any]:
    """Return `query` for one page and one row more; InvalidInput for a cursor that is not one of ours."""
    if request.cursor is not None:
        query = query.where(key < _decode(request.cursor, _column(key).type.python_type))
    return query.order_by(key.desc()).limit(request.limit + 1)


def page_of(rows: Sequence[Row], request: PageRequest, key_of: Callable[[Row], str | int]) -> Rows[Row]:
    """Return the page of what such a query gave, with the cursor of the next if there is one row more."""
    has_more = len(rows) > request.limit
    rows = rows[: request.limit]
    return Rows(rows, _encode(key_of(rows[-1])) if has_more else None)


def _column(key: Mapped[Any]) -> InstrumentedAttribute[Any]:
    if not isinstance(key, InstrumentedAttribute):
        raise TypeError("pages are keyed by a column")
    return key


def _encode(value: str | int) -> str:
    return base64.urlsafe_b64encode(str(value).encode()).decode().rstrip("=")


def _decode(cursor: str, kind: type) -> Any:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (ValueError, binascii.Error) as error:
        raise InvalidInput("cursor is not one that a list returned") from error
    if not _KEY.fullmatch(text) or (kind is int and not text.isdecimal()):
        raise InvalidInput("cursor is not one that a list returned")
    return kind(text)
