"""Profiles: named, versioned recipes."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, status
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import IdempotencyKey, PageNeeded, PartsNeeded, Reference, VersionNumber
from service.api.idempotency import Answer, carry_out
from service.api.problems import problems
from service.api.schemas.common import Page
from service.api.schemas.profiles import ProfileCreate, ProfilePublic, ProfileUpdate, ProfileVersionPublic
from service.api.schemas.startups import (
    PhaseDistribution,
    PhaseSeconds,
    StartComparisonPublic,
    StartPublic,
    StartupHistory,
)
from service.db import nodes as node_queries
from service.db import profiles as profile_queries
from service.db.tables import Launch, ProfileVersion
from service.db.tables import Profile as ProfileRow
from service.errors import IdempotencyKeyReused, InUse, InvalidInput, NameTaken, NotFound
from service.ids import new_id
from service.operations.startup_history import Starts, read_starts
from service.profiles.profile import Profile
from service.servers.progress.samples import seconds_by_phase

router = APIRouter(prefix="/profiles", tags=["profiles"], route_class=GuardedRoute)


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    response_model=ProfilePublic,
    responses=problems(InvalidInput, NameTaken, IdempotencyKeyReused),
)
@needs(Role.OPERATOR)
async def create_profile(
    body: ProfileCreate, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Write the first version of a recipe."""

    async def act(session: AsyncSession) -> Answer:
        await profile_queries.require_free_profile_name(session, body.name)
        at = parts.control.now()
        profile = ProfileRow(id=new_id("pr", at), name=body.name, latest_version=1, created_at=at)
        version = _version(profile.id, 1, body.recipe, at)
        session.add_all([profile, version])
        await session.flush()
        return Answer(status.HTTP_201_CREATED, _public(profile, version), f"/api/v1/profiles/{profile.name}")

    return await carry_out(parts, request, key, act)


@router.get("", responses=problems(InvalidInput))
@needs(Role.VIEWER)
async def list_profiles(parts: PartsNeeded, page: PageNeeded) -> Page[ProfilePublic]:
    """List the profiles with their newest version, newest profile first."""
    async with parts.control.database.read() as session:
        rows = await profile_queries.list_profiles(session, page)
        versions = await profile_queries.latest_versions(session, rows.items)
    return Page(items=[_public(row, versions[row.id]) for row in rows.items], next_cursor=rows.next_cursor)


@router.get("/{profile}", responses=problems(NotFound))
@needs(Role.VIEWER)
async def get_profile(profile: Reference, parts: PartsNeeded) -> ProfilePublic:
    """Show a profile with its newest version."""
    async with parts.control.database.read() as session:
        row = await profile_queries.get_profile(session, profile)
        return _public(row, await profile_queries.get_profile_version(session, row.id, row.latest_version))


@router.put(
    "/{profile}", response_model=ProfilePublic, responses=problems(NotFound, InvalidInput, IdempotencyKeyReused)
)
@needs(Role.OPERATOR)
async def update_profile(
    profile: Reference, body: ProfileUpdate, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Write the next version. Servers stay at the version they were placed with; the same recipe makes no version."""

    async def act(session: AsyncSession) -> Answer:
        row = await profile_queries.get_profile(session, profile)
        latest = await profile_queries.get_profile_version(session, row.id, row.latest_version)
        if latest.recipe != _document(body.recipe):
            latest = _version(row.id, row.latest_version + 1, body.recipe, parts.control.now())
            row.latest_version = latest.number
            session.add(latest)
            await session.flush()
        return Answer(status.HTTP_200_OK, _public(row, latest))

    return await carry_out(parts, request, key, act)


@router.get("/{profile}/versions", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def list_profile_versions(profile: Reference, parts: PartsNeeded, page: PageNeeded) -> Page[ProfileVersionPublic]:
    """List the versions of a profile, newest first."""
    async with parts.control.database.read() as session:
        row = await profile_queries.get_profile(session, profile)
        rows = await profile_queries.list_profile_versions(session, row.id, page)
    return Page(items=[_version_public(row, version) for version in rows.items], next_cursor=rows.next_cursor)


@router.get("/{profile}/versions/{number}", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def get_profile_version(profile: Reference, number: VersionNumber, parts: PartsNeeded) -> ProfileVersionPublic:
    """Show one version of a profile."""
    async with parts.control.database.read() as session:
        row = await profile_queries.get_profile(session, profile)
        return _version_public(row, await profile_queries.get_profile_version(session, row.id, number))


@router.get("/{profile}/startup-history", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def get_startup_history(
    profile: Reference,
    parts: PartsNeeded,
    node: Annotated[str | None, Query(description="Only starts on this node.")] = None,
) -> StartupHistory:
    """Show how long the starts of a profile took, phase by phase, and how the last one compares."""
    async with parts.control.database.read() as session:
        row = await profile_queries.get_profile(session, profile)
        node_id = (await node_queries.get_node(session, node)).id if node is not None else None
        found = await read_starts(session, row.id, node_id=node_id)
        nodes = {item.id: item.name for item in await node_queries.all_nodes(session)}
    return StartupHistory(
        profile=row.name,
        starts=[_start_public(launch, found, nodes) for launch in found.launches],
        phases=[PhaseDistribution(**asdict(spread)) for spread in found.spreads],
        last=StartComparisonPublic.model_validate(asdict(found.comparison)) if found.comparison else None,
    )


@router.delete(
    "/{profile}", status_code=status.HTTP_204_NO_CONTENT, responses=problems(NotFound, InUse, IdempotencyKeyReused)
)
@needs(Role.ADMIN)
async def delete_profile(
    profile: Reference, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Remove a profile. Refused while servers use it; launches keep their snapshot of it."""

    async def act(session: AsyncSession) -> Answer:
        row = await profile_queries.get_profile(session, profile)
        used_by = await profile_queries.servers_of_profile(session, row.id)
        if used_by:
            raise InUse(f"profile {row.name} is used by {', '.join(used_by)}", servers=list(used_by))
        row.deleted_at = parts.control.now()
        return Answer(status.HTTP_204_NO_CONTENT)

    return await carry_out(parts, request, key, act)


def _start_public(launch: Launch, found: Starts, nodes: dict[str, str]) -> StartPublic:
    ready_at = launch.ready_at or launch.created_at
    return StartPublic(
        launch_id=launch.id,
        node=nodes.get(launch.node_id, launch.node_id),
        server=found.server_names[launch.server_id],
        profile_version=launch.profile_version,
        engine_version=launch.engine_version,
        cached_share=launch.cached_share,
        created_at=launch.created_at,
        ready_after_s=(ready_at - launch.created_at).total_seconds(),
        phases=[
            PhaseSeconds(phase=phase, duration_s=duration_s)
            for phase, duration_s in seconds_by_phase(found.stays[launch.id]).items()
        ],
    )


def _document(recipe: Profile) -> dict[str, object]:
    return recipe.model_dump(mode="json")


def _version(profile_id: str, number: int, recipe: Profile, at: datetime) -> ProfileVersion:
    return ProfileVersion(
        id=f"{profile_id}_{number}", profile_id=profile_id, number=number, recipe=_document(recipe), created_at=at
    )


def _public(profile: ProfileRow, version: ProfileVersion) -> ProfilePublic:
    return ProfilePublic(
        id=profile.id,
        name=profile.name,
        version=version.number,
        recipe=Profile.model_validate(version.recipe),
        created_at=profile.created_at,
        version_created_at=version.created_at,
    )


def _version_public(profile: ProfileRow, version: ProfileVersion) -> ProfileVersionPublic:
    return ProfileVersionPublic(
        profile=profile.name,
        version=version.number,
        recipe=Profile.model_validate(version.recipe),
        created_at=version.created_at,
    )
