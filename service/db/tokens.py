"""Questions about tokens."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import or_, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db.paging import PageRequest, Rows, fetch_page
from service.db.tables import Token
from service.errors import NameTaken, NotFound

_ALIVE = col(Token.deleted_at).is_(None)


async def find_token(session: AsyncSession, name_or_id: str) -> Token | None:
    """Return the token with this name or id that is not revoked, or None."""
    named = or_(col(Token.id) == name_or_id, col(Token.name) == name_or_id)
    return (await session.execute(select(Token).where(_ALIVE, named))).scalar_one_or_none()


async def get_token(session: AsyncSession, name_or_id: str) -> Token:
    """Return the token with this name or id; NotFound if there is none, or it is revoked."""
    token = await find_token(session, name_or_id)
    if token is None:
        raise NotFound(f"there is no token {name_or_id!r}")
    return token


async def find_token_of_digest(session: AsyncSession, digest: str) -> Token | None:
    """Return the token that has this digest, revoked or not, or None."""
    return (await session.execute(select(Token).where(col(Token.digest) == digest))).scalar_one_or_none()


async def require_free_token_name(session: AsyncSession, name: str) -> None:
    """Raise NameTaken if a token that is not revoked has this name."""
    if await find_token(session, name) is not None:
        raise NameTaken(f"a token named {name!r} exists")


async def has_any(session: AsyncSession) -> bool:
    """Tell whether there ever was a token, revoked ones included."""
    return (await session.execute(select(col(Token.id)).limit(1))).first() is not None


async def living_tokens(session: AsyncSession) -> Sequence[Token]:
    """Return every token that is not revoked, expired ones included."""
    return (await session.execute(select(Token).where(_ALIVE))).scalars().all()


async def list_tokens(session: AsyncSession, request: PageRequest) -> Rows[Token]:
    """Return a page of the tokens that are not revoked, newest first."""
    return await fetch_page(session, select(Token).where(_ALIVE), col(Token.id), request)


async def note_uses(session: AsyncSession, used_at: Mapping[str, datetime]) -> None:
    """Write when each token, by id, was last used."""
    for token_id, at in used_at.items():
        await session.execute(update(Token).where(col(Token.id) == token_id).values(last_used_at=at))
