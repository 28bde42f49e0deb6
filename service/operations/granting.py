"""Makes and revokes tokens, and the first of them."""

import secrets
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.access.tokens import RANDOM_BYTES, digest_of, token_of
from service.db import tokens as token_queries
from service.db.tables import Token
from service.errors import InvalidInput
from service.ids import is_name, new_id

FIRST_NAME = "admin"
FIRST_MAKER = "vigil"


async def grant(
    session: AsyncSession, name: str, *, role: Role, expires_at: datetime | None, actor: str, at: datetime
) -> tuple[Token, str]:
    """Make a token; returns its row and, for the only time, itself.

    InvalidInput if the name is none, NameTaken if it is in use.
    """
    if not is_name(name):
        raise InvalidInput(f"{name!r} is no name: lower case letters, digits, '.', '_' and '-', at most 63")
    await token_queries.require_free_token_name(session, name)
    token = token_of(secrets.token_bytes(RANDOM_BYTES))
    return await _keep(session, token, name, role=role, expires_at=expires_at, actor=actor, at=at), token


async def grant_first(session: AsyncSession, given: str | None, *, at: datetime) -> str | None:
    """Make the first admin's token if there never was one: the given one, or a new one, which is returned.

    None in every other case: a token that was revoked does not come back, and nobody is let in by a restart.
    """
    if await token_queries.has_any(session):
        return None
    token = given or token_of(secrets.token_bytes(RANDOM_BYTES))
    await _keep(session, token, FIRST_NAME, role=Role.ADMIN, expires_at=None, actor=FIRST_MAKER, at=at)
    return None if given else token


async def revoke(session: AsyncSession, name_or_id: str, *, at: datetime) -> Token:
    """Revoke a token for good; NotFound if there is none of this name or id."""
    row = await token_queries.get_token(session, name_or_id)
    row.deleted_at = at
    return row


async def _keep(  # noqa: PLR0913  # what a token is
    session: AsyncSession,
    token: str,
    name: str,
    *,
    role: Role,
    expires_at: datetime | None,
    actor: str,
    at: datetime,
) -> Token:
    row = Token(
        id=new_id("tk", at),
        name=name,
        role=role,
        digest=digest_of(token),
        created_by=actor,
        created_at=at,
        expires_at=expires_at,
    )
    session.add(row)
    await session.flush()
    return row
