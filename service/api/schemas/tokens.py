"""Tokens as the API shows them."""

from datetime import datetime

from pydantic import BaseModel, Field

from service.access.roles import Role
from service.api.schemas.common import GivenAwareInstant, Name, Request, shown
from service.clock import Instant
from service.db.tables import Token


class TokenCreate(Request):
    """Who shall be let in, as what, and until when."""

    model_config = shown({"name": "ci", "role": "operator", "expires_at": "2035-01-01T00:00:00Z"})

    name: Name = Field(description="Stands as `token:<name>` with everything that is done with the token.")
    role: Role
    expires_at: GivenAwareInstant | None = Field(
        default=None, description="From then on it is refused; null: it is valid until it is revoked."
    )


class TokenPublic(BaseModel):
    """What is known of a token; not the token."""

    id: str
    name: str
    role: Role
    created_by: str = Field(description="The actor who made it.")
    created_at: Instant
    expires_at: Instant | None
    is_expired: bool
    last_used_at: Instant | None = Field(description="Written at most once a minute.")


class TokenCreated(TokenPublic):
    """A new token, with itself."""

    token: str | None = Field(
        description="Send it as `Authorization: Bearer …`. It is shown this once and not kept: a repetition of the "
        "request with the same Idempotency-Key has null here.",
        examples=["vgl_OwFNgHqN6NpRClhTmF7A0DgrGWc9Wl0Yh0bUzOqRbPw"],
    )


def token_public(row: Token, now: datetime) -> TokenPublic:
    """Return a token as the API shows it."""
    return TokenPublic(
        id=row.id,
        name=row.name,
        role=row.role,
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
        is_expired=row.expires_at is not None and row.expires_at <= now,
        last_used_at=row.last_used_at,
    )


def token_created(row: Token, now: datetime, token: str | None) -> TokenCreated:
    """Return a new token with itself, or without."""
    return TokenCreated(**token_public(row, now).model_dump(), token=token)
