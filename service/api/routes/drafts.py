"""Drafts: written anew on their node under names that an engine loads."""

from fastapi import APIRouter, Request, status
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import IdempotencyKey, PartsNeeded, Reference
from service.api.idempotency import Answer, carry_out, find_replay
from service.api.problems import problems
from service.api.routes.nodes import LOGIN_ERRORS
from service.api.schemas.drafts import DraftRenameCreate, DraftRenamePublic, draft_rename_public
from service.db import nodes as node_queries
from service.db import profiles as profile_queries
from service.errors import (
    CheckpointUnsound,
    DestinationExists,
    IdempotencyKeyReused,
    InvalidInput,
    NoRoom,
    NotFound,
    NothingToRename,
    RenamingUnknown,
)
from service.operations import draft_renaming
from service.profiles.profile import Profile

router = APIRouter(prefix="/nodes", tags=["nodes"], route_class=GuardedRoute)
RENAME_ERRORS = (NothingToRename, RenamingUnknown, CheckpointUnsound, DestinationExists, NoRoom)


@router.post(
    "/{node}/draft-renames",
    response_model=DraftRenamePublic,
    responses=problems(NotFound, InvalidInput, IdempotencyKeyReused, *RENAME_ERRORS, *LOGIN_ERRORS),
)
@needs(Role.OPERATOR)
async def rename_draft(
    node: Reference, body: DraftRenameCreate, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Write a draft to a new directory of its node, its tensors renamed as an engine wants them.

    Without `renames` the draft is read and the names are found that the check `draft_weight_keys` tells. The new
    directory appears whole or not at all, never in the place of anything; the source is not touched.

    The answer comes when the copy is complete: seconds for a small draft, 15 minutes at most.
    """
    replay = await find_replay(parts, request, key)
    if replay is not None:
        return replay
    profile = None
    async with parts.control.database.read() as session:
        row = await node_queries.get_node(session, node)
        if body.profile is not None:
            named = await profile_queries.get_profile(session, body.profile)
            version = await profile_queries.get_profile_version(session, named.id, named.latest_version)
            profile = Profile.model_validate(version.recipe)
    wish = body.wish(profile)
    try:
        plan = await draft_renaming.plan(parts.control, row, wish)
        renamed = None if body.dry_run else await draft_renaming.carry_out(parts.control, row, wish, plan)
    except DestinationExists:
        replay = await find_replay(parts, request, key)  # the same request may have written it meanwhile
        if replay is not None:
            return replay
        raise
    public = draft_rename_public(row.name, wish, plan, renamed)

    async def act(_session: AsyncSession) -> Answer:
        return Answer(status.HTTP_200_OK, public)

    return await carry_out(parts, request, key, act)
