"""Profiles as the API shows them."""

from pydantic import BaseModel, Field

from service.api.schemas.common import Instant, Name, Request
from service.profiles.profile import Profile


class ProfileCreate(Request):
    """A new recipe."""

    name: Name
    recipe: Profile


class ProfileUpdate(Request):
    """The next version of a recipe; it replaces the whole, and older versions stay readable."""

    recipe: Profile


class ProfilePublic(BaseModel):
    """A profile with its newest version."""

    id: str
    name: str
    version: int
    recipe: Profile
    created_at: Instant = Field(description="When the profile was made.")
    version_created_at: Instant


class ProfileVersionPublic(BaseModel):
    """One version of a recipe."""

    profile: str
    version: int
    recipe: Profile
    created_at: Instant
