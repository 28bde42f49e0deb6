"""The one place that asks what time it is; everything else takes an instant as an argument."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import PlainSerializer, WithJsonSchema


def utc_now() -> datetime:
    """Return the present instant, aware and in UTC."""
    return datetime.now(UTC)


def from_epoch(seconds: float) -> datetime:
    """Return the aware UTC instant that lies `seconds` after the epoch."""
    return datetime.fromtimestamp(seconds, UTC)


def to_text(instant: datetime) -> str:
    """Return an instant as ISO 8601 in UTC with milliseconds and a Z, as the API writes it."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Instant = Annotated[
    datetime,
    PlainSerializer(to_text, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""The type of a field that is written so, such as 2026-11-29T16:04:05.123Z."""
