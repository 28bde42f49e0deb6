"""What a fleet file says; deploy/fleet.example.yaml shows all of it. What it leaves open stays as it is."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator

from service.api.schemas.common import Name, Request
from service.api.schemas.nodes import AbsolutePath, Address, Credential, JumpHost, PortNumber, UserName
from service.api.schemas.servers import GpuSelector, Override
from service.benchmarks.workload import Workload
from service.cli.files import FileWrong, Parsed
from service.nodes.placement import NAMED_TWICE
from service.profiles.profile import Profile

Fingerprint = Annotated[
    str,
    StringConstraints(pattern=r"^SHA256:[A-Za-z0-9+/]{43}$"),
    Field(description="Of a host key, as `ssh-keygen -lf` prints it. The key is trusted when it is this one."),
]


class Wanted(StrEnum):
    """What a server of the file shall be."""

    READY = "ready"
    STOPPED = "stopped"


class JumpEntry(JumpHost):
    """An SSH server on the way to a node."""

    host_key: Fingerprint | None = None


class NodeEntry(Request):
    """A GPU host, under its name."""

    address: Address
    port: PortNumber = 22
    user: UserName
    credential: Credential
    jump: JumpEntry | None = None
    host_key: Fingerprint | None = None
    trust_on_first_use: bool = Field(default=False, description="Pin whatever key is offered when it is taken in.")
    engines: list[AbsolutePath] = Field(default_factory=list, max_length=32)
    first_port: PortNumber = 30000
    last_port: PortNumber = 30999
    is_draining: bool = False


class ServerEntry(Request):
    """A profile placed on a node, under the server's name."""

    profile: Name
    version: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="The newest by default: a server of an older one differs from the file."
    )
    node: Name
    gpus: Annotated[list[GpuSelector], Field(min_length=1, max_length=64)] | None = None
    gpu_count: Annotated[int, Field(ge=0, le=64)] | None = None
    port: PortNumber | None = None
    state: Wanted | None = Field(default=None, description="Without one the server is placed and left at rest.")
    override: Override = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_wish_for_gpus(self) -> Self:
        if self.gpus is not None and self.gpu_count is not None:
            raise ValueError("give gpus or gpu_count, not both")
        if self.gpus is not None and len(set(self.gpus)) < len(self.gpus):
            raise ValueError(NAMED_TWICE)
        return self


class FleetFile(Request):
    """A whole file. A kind that is left out is left alone; of one that is there, `--prune` removes what has no name."""

    nodes: dict[Name, NodeEntry] | None = None
    profiles: dict[Name, Profile] | None = None
    benchmarks: dict[Name, Workload] | None = None
    servers: dict[Name, ServerEntry] | None = None


def fleet_of(parsed: Parsed) -> FleetFile:
    """Return what a file says; FileWrong names the line and the field of everything that is wrong with it."""
    try:
        return FleetFile.model_validate(parsed.value)
    except ValidationError as error:
        raise FileWrong(
            [parsed.message(item["loc"], item["msg"].removeprefix("Value error, ")) for item in error.errors()]
        ) from error
