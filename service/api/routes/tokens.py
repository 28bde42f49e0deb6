"""Tokens: let somebody in, see who is, and let him in no more."""

from fastapi import APIRouter, Request, status
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import ActorNeeded, IdempotencyKey, PageNeeded, PartsNeeded, Reference
from service.api.idempotency import Answer, carry_out
from service.api.problems import problems
from service.api.schemas.common import Page
from service.api.schemas.tokens import TokenCreate, TokenCreated, TokenPublic, token_created, token_public
from service.db import tokens as token_queries
from service.errors import IdempotencyKeyReused, InvalidInput, NameTaken, NotFound
from service.operations import granting

router = APIRouter(prefix="/tokens", tags=["access"], route_class=GuardedRoute)


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    response_model=TokenCreated,
    responses=problems(InvalidInput, NameTaken, IdempotencyKeyReused),
)
@needs(Role.ADMIN)
async def create_token(
    body: TokenCreate, parts: PartsNeeded, actor: ActorNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Make a token. This answer alone holds it: only its hash is kept."""

    async def act(session: AsyncSession) -> Answer:
        at = parts.control.now()
        if body.expires_at is not None and body.expires_at <= at:
            raise InvalidInput("expires_at is over already")
        row, token = await granting.grant(
            session, body.name, role=body.role, expires_at=body.expires_at, actor=actor, at=at
        )
        public, kept = token_created(row, at, token), token_created(row, at, None)
        return Answer(status.HTTP_201_CREATED, public, f"/api/v1/tokens/{row.name}", kept=kept)

    return await carry_out(parts, request, key, act)


@router.get("", responses=problems(InvalidInput))
@needs(Role.ADMIN)
async def list_tokens(parts: PartsNeeded, page: PageNeeded) -> Page[TokenPublic]:
    """List the tokens that are not revoked, newest first."""
    async with parts.control.database.read() as session:
        rows = await token_queries.list_tokens(session, page)
    now = parts.control.now()
    return Page(items=[token_public(row, now) for row in rows.items], next_cursor=rows.next_cursor)


@router.get("/{token}", responses=problems(NotFound))
@needs(Role.ADMIN)
async def get_token(token: Reference, parts: PartsNeeded) -> TokenPublic:
    """Show a token by its name or id: its role, who made it, and when it was last used."""
    async with parts.control.database.read() as session:
        row = await token_queries.get_token(session, token)
    return token_public(row, parts.control.now())


@router.delete("/{token}", status_code=status.HTTP_204_NO_CONTENT, responses=problems(NotFound, IdempotencyKeyReused))
@needs(Role.ADMIN)
async def revoke_token(
    token: Reference, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Revoke a token by its name or id, at once and for good: what it waits for or follows ends, too.

    When the last admin's token is revoked, `vigil token create` on the machine of the service makes another.
    """
    revoked: list[str] = []

    async def act(session: AsyncSession) -> Answer:
        row = await granting.revoke(session, token, at=parts.control.now())
        revoked.append(row.id)
        return Answer(status.HTTP_204_NO_CONTENT)

    answer = await carry_out(parts, request, key, act)
    for token_id in revoked:
        parts.gate.forget(token_id)
    return answer
