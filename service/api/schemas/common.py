"""Shapes that several resources share."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic.config import JsonDict

from service.ids import NAME_PATTERN

Item = TypeVar("Item")
MOST = 2**31 - 1
"""The largest whole number that is taken where nothing narrower is meant: every database has room for it."""
MOST_BYTES = 2**63 - 1
"""The same for a place in a file."""
MOST_LEVELS = 64
"""How deep a body may be nested: what is deeper can be read, but not checked or written."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def _is_dated(value: object) -> object:
    """Refuse a number, which would be read as seconds since 1970: `since=2026` is meant otherwise."""
    if isinstance(value, datetime) or (isinstance(value, str) and _DATE.match(value)):
        return value
    raise ValueError("an instant is written as 2026-11-29T16:04:05Z")


def _as_utc(instant: datetime) -> datetime:
    """Return an instant in UTC; one without an offset is taken as UTC, one that UTC has no date for is refused."""
    try:
        return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError("the instant lies outside the years 1 to 9999") from error


GivenInstant = Annotated[datetime, BeforeValidator(_is_dated), AfterValidator(_as_utc)]
"""An instant in a query; one without an offset is taken as UTC."""
GivenAwareInstant = Annotated[AwareDatetime, BeforeValidator(_is_dated), AfterValidator(_as_utc)]
"""An instant in a body, with its offset."""
Name = Annotated[
    str,
    StringConstraints(pattern=NAME_PATTERN),
    Field(description="Lower case letters, digits, '.', '_' and '-'; at most 63.", examples=["atlas"]),
]


class Request(BaseModel):
    """The base of what is sent: a field that is not known is refused, so that no misspelling is lost.

    So is text that could be kept but neither answered nor handed on: half a pair of surrogates, which JSON can escape
    and UTF-8 cannot write, and U+0000, which no command, file name or PostgreSQL takes.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _is_writable(cls, given: object) -> object:
        if any("\0" in text or not _is_utf8(text) for text in _texts(given)):
            raise ValueError("text may not hold U+0000 or half of a surrogate pair")
        return given


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, names of fields included; ValueError where it is deeper than `MOST_LEVELS`."""
    left = [(value, 0)]
    while left:
        item, level = left.pop()
        if level > MOST_LEVELS:
            raise ValueError(f"it is nested in more than {MOST_LEVELS} levels")
        match item:
            case str() as text:
                yield text
            case dict() as fields:
                left += [(inner, level + 1) for inner in (*fields, *fields.values())]
            case list() as items:
                left += [(inner, level + 1) for inner in items]


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(*examples: JsonDict) -> ConfigDict:
    """Return the configuration of a shape that the OpenAPI document shows with these examples."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class Page(BaseModel, Generic[Item]):
    """One page of a list, newest first."""

    items: list[Item]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null at the end.")


class FieldProblem(BaseModel):
    """One field that breaks a rule."""

    place: str = Field(description="Where it is, such as body.server_args.")
    message: str


class Problem(BaseModel):
    """What went wrong (RFC 9457), with a stable code and what to do about it."""

    type: str = Field(examples=["urn:vigil:problem:gpu_taken"])
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable: programs may rely on it.", examples=["gpu_taken"])
    remedy: str
    errors: list[FieldProblem] | None = None
    context: dict[str, object] | None = Field(default=None, description="Further facts, such as the holder of a GPU.")


class OperationProblem(BaseModel):
    """Why an operation failed, or what stands in its way."""

    code: str
    detail: str
    remedy: str
