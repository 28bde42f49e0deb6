"""Preflights as the API shows them."""

from typing import Annotated

from pydantic import Field, model_validator

from service.api.schemas.checks import PreflightBrief
from service.api.schemas.common import MOST, Name, Request, shown
from service.api.schemas.nodes import PortNumber
from service.api.schemas.servers import GpuSelector
from service.operations.candidates import Candidate
from service.preflights.preflight import Preflight


class PreflightCreate(Request):
    """What would be launched: the next launch of a server, or a profile on a node."""

    model_config = shown({"server": "llama"}, {"profile": "llama", "node": "atlas", "gpus": [0, 1]})

    server: Name | None = Field(
        default=None, description="A server that exists: its next launch, as if the present one were gone."
    )
    profile: Name | None = None
    version: Annotated[int, Field(strict=True, ge=1, le=MOST)] | None = Field(
        default=None, description="The newest by default; of a server its own."
    )
    node: Name | None = None
    gpus: Annotated[list[GpuSelector], Field(min_length=1, max_length=64)] | None = None
    gpu_count: Annotated[int, Field(strict=True, ge=0, le=64)] | None = Field(
        default=None, description="The profile's count by default."
    )
    port: PortNumber | None = Field(default=None, description="By default the first of the node's not given away.")

    @model_validator(mode="after")
    def _server_or_profile(self) -> "PreflightCreate":
        others = (self.profile, self.node, self.gpus, self.gpu_count, self.port)
        if self.server is not None and any(value is not None for value in others):
            raise ValueError("give `server` alone, or with `version`: it says profile, node, GPUs and port")
        if self.server is None and (self.profile is None or self.node is None):
            raise ValueError("give `server`, or `profile` and `node`")
        return self


class PreflightPublic(PreflightBrief):
    """What was checked for a launch that was not made."""

    node: str
    port: int
    gpus: list[str] = Field(description="The uuids of the GPUs that the launch would get.")


def preflight_public(preflight: Preflight, candidate: Candidate) -> PreflightPublic:
    """Return a preflight as the API shows it."""
    return PreflightPublic.model_validate(
        {
            **preflight.document(),
            "node": candidate.node.name,
            "port": preflight.port,
            "gpus": list(preflight.gpu_uuids),
        }
    )
