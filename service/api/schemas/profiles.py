"""Profiles as the API shows them."""

from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from service.api.schemas.common import Name, Request, shown
from service.clock import Instant
from service.profiles.profile import Profile

RECIPE: JsonDict = {
    "python": "/opt/sglang/bin/python",
    "model_path": "/models/llama-3.1-8b",
    "gpu_count": 2,
    "server_args": {"tp-size": 2, "mem-fraction-static": 0.85},
    "secret_env": {"HF_TOKEN": {"env": "HF_TOKEN"}},
}


class ProfileCreate(Request):
    """A new recipe."""

    model_config = shown({"name": "llama", "recipe": RECIPE})

    name: Name
    recipe: Profile


class ProfileUpdate(Request):
    """The next version of a recipe; it replaces the whole, and older versions stay readable."""

    model_config = shown({"recipe": {**RECIPE, "on_crash": "restart"}})

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
