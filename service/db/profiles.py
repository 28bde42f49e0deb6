"""Questions about profiles and their versions."""

from collections.abc import Sequence

from sqlalchemy import or_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db.columns import one_of
from service.db.paging import PageRequest, Rows, fetch_page
from service.db.tables import Profile, ProfileVersion, Server
from service.errors import NameTaken, NotFound

_ALIVE = col(Profile.deleted_at).is_(None)


async def find_profile(session: AsyncSession, name_or_id: str) -> Profile | None:
    """Return the profile with this name or id, or None."""
    named = or_(col(Profile.id) == name_or_id, col(Profile.name) == name_or_id)
    return (await session.execute(select(Profile).where(_ALIVE, named))).scalar_one_or_none()


async def get_profile(session: AsyncSession, name_or_id: str) -> Profile:
    """Return the profile with this name or id; NotFound if there is none."""
    profile = await find_profile(session, name_or_id)
    if profile is None:
        raise NotFound(f"there is no profile {name_or_id!r}")
    return profile


async def require_free_profile_name(session: AsyncSession, name: str) -> None:
    """Raise NameTaken if a profile has this name."""
    if await find_profile(session, name) is not None:
        raise NameTaken(f"a profile named {name!r} exists")


async def get_profile_version(session: AsyncSession, profile_id: str, number: int) -> ProfileVersion:
    """Return one version, of a deleted profile too; NotFound if it never existed."""
    query = select(ProfileVersion).where(
        col(ProfileVersion.profile_id) == profile_id, col(ProfileVersion.number) == number
    )
    version = (await session.execute(query)).scalar_one_or_none()
    if version is None:
        profile = await session.get_one(Profile, profile_id)
        raise NotFound(f"profile {profile.name!r} has no version {number}")
    return version


async def list_profiles(session: AsyncSession, request: PageRequest) -> Rows[Profile]:
    """Return a page of profiles, newest first."""
    return await fetch_page(session, select(Profile).where(_ALIVE), col(Profile.id), request)


async def list_profile_versions(session: AsyncSession, profile_id: str, request: PageRequest) -> Rows[ProfileVersion]:
    """Return a page of a profile's versions, newest first."""
    query = select(ProfileVersion).where(col(ProfileVersion.profile_id) == profile_id)
    return await fetch_page(session, query, col(ProfileVersion.number), request)


async def latest_versions(session: AsyncSession, profiles: Sequence[Profile]) -> dict[str, ProfileVersion]:
    """Return the newest version of each profile, by profile id."""
    ids = [profile.id for profile in profiles]
    query = (
        select(ProfileVersion)
        .join(Profile, col(Profile.id) == col(ProfileVersion.profile_id))
        .where(one_of(col(Profile.id), ids), col(ProfileVersion.number) == col(Profile.latest_version))
    )
    return {version.profile_id: version for version in (await session.execute(query)).scalars()}


async def servers_of_profile(session: AsyncSession, profile_id: str) -> Sequence[str]:
    """Return the names of the servers that use a profile."""
    query = select(col(Server.name)).where(col(Server.profile_id) == profile_id, col(Server.deleted_at).is_(None))
    return (await session.execute(query)).scalars().all()
