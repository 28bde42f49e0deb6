"""Nodes as the API shows them."""

from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, StrictBool, StringConstraints, model_validator

from service.api.schemas.common import Name, Request, shown
from service.clock import Instant
from service.db.tables import Node
from service.nodes.contact import Contact
from service.operations.enrolling import host_key_of, offered_key
from service.operations.live import LiveNode
from service.remote.messages import GpuHoldersFact

LABEL_LENGTH = 63


def _with_fit_labels(address: str) -> str:
    """Refuse what no name server can be asked for, and what would fail only when it is."""
    labels = address.removesuffix(".").split(".")
    if not all(0 < len(label) <= LABEL_LENGTH for label in labels):
        raise ValueError(f"between its dots an address has 1 to {LABEL_LENGTH} characters")
    return address


Address = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}$"),
    AfterValidator(_with_fit_labels),
    Field(examples=["gpu1.example.net"]),
]
UserName = Annotated[str, StringConstraints(pattern=r"^[a-z_A-Z][a-zA-Z0-9_.-]{0,63}$"), Field(examples=["ops"])]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[^\x00\r\n]{0,4095}$")]
PortNumber = Annotated[int, Field(strict=True, ge=1, le=65535)]


class KeyFileCredential(Request):
    """A private key file on the machine of the Vigil service, mode 600, without a passphrase."""

    kind: Literal["key_file"]
    path: Annotated[str, StringConstraints(pattern=r"^[/~][^\x00\r\n]{0,4095}$")]


class AgentCredential(Request):
    """The SSH agent that SSH_AUTH_SOCK of the Vigil service names."""

    kind: Literal["agent"]


Credential = Annotated[KeyFileCredential | AgentCredential, Field(discriminator="kind")]


class JumpHost(Request):
    """An SSH server on the way to the node."""

    address: Address
    port: PortNumber = 22
    user: UserName
    credential: Credential


class NodeCreate(Request):
    """A GPU host that Vigil shall look after."""

    model_config = shown(
        {
            "name": "atlas",
            "address": "gpu1.example.net",
            "user": "ops",
            "credential": {"kind": "key_file", "path": "~/.ssh/id_ed25519"},
            "engines": ["/opt/sglang/bin/python"],
        },
        {
            "name": "borealis",
            "address": "10.0.0.7",
            "user": "ops",
            "credential": {"kind": "agent"},
            "jump": {"address": "gate.example.net", "user": "ops", "credential": {"kind": "agent"}},
        },
    )

    name: Name
    address: Address
    port: PortNumber = 22
    user: UserName
    credential: Credential
    jump: JumpHost | None = None
    trust_on_first_use: StrictBool = Field(
        default=False, description="Pin the host key that is offered now, without comparing its fingerprint."
    )
    engines: list[AbsolutePath] = Field(
        default_factory=list,
        max_length=32,
        description="Pythons on the node that may have SGLang; their versions are shown with the node.",
    )
    first_port: PortNumber = Field(default=30000, description="The first of the ports that servers are given.")
    last_port: PortNumber = 30999

    @model_validator(mode="after")
    def _ports_in_order(self) -> Self:
        if self.first_port > self.last_port:
            raise ValueError("first_port lies above last_port")
        return self


class NodeUpdate(Request):
    """What of a node may be changed; what is left out stays."""

    model_config = shown({"address": "gpu1.example.net", "port": 2222})

    address: Address | None = None
    port: PortNumber | None = None
    user: UserName | None = None
    credential: Credential | None = None
    engines: list[AbsolutePath] | None = Field(default=None, max_length=32)


class TrustRequest(Request):
    """The fingerprint that was compared with the node's own."""

    model_config = shown({"fingerprint": "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"})

    fingerprint: Annotated[str, StringConstraints(pattern=r"^SHA256:[A-Za-z0-9+/]{43}$")]


class HostKeyPublic(BaseModel):
    """A host key by what people compare."""

    algorithm: str
    fingerprint: str = Field(examples=["SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"])


class ContactPublic(BaseModel):
    """Whether Vigil hears the node: a fact about the way to it, not about its servers."""

    state: Contact
    since_at: Instant
    heard_at: Instant | None = Field(description="When the node was last heard since the service started.")
    code: str | None = Field(description="Why contact is lost: the code of the error.")
    detail: str | None


class HolderPublic(BaseModel):
    """A process that holds memory of a GPU."""

    pid: int
    memory_mib: int | None
    command: str
    user: str | None
    launch_id: str | None


class GpuPublic(BaseModel):
    """One device of a node."""

    index: int
    uuid: str
    name: str
    memory_total_mib: int | None
    memory_used_mib: int | None
    holders: list[HolderPublic]
    errors: list[str]
    warnings: list[str] = Field(description="What it goes on working with, such as counted ECC errors.")
    claimed_by: str | None = Field(description="The server that has a right to it.")


class EnginePublic(BaseModel):
    """An engine environment of a node."""

    python: str
    sglang_version: str | None
    error: str | None


class FoundEnginePublic(BaseModel):
    """An SGLang server that runs on a node and is no launch that Vigil knows; POST /servers/adopt takes it over."""

    pid: int
    user: str | None
    command: list[str] = Field(description="Secrets are masked.")
    model_path: str | None
    port: int | None
    gpu_uuids: list[str]
    launch_id: str | None = Field(
        default=None, description="Its launch, where a Vigil started it: another one, or this one before a restore."
    )
    started_at: Instant


class DiskPublic(BaseModel):
    """A file system of a node."""

    path: str
    total_mib: int
    free_mib: int


class LiveHolderPublic(HolderPublic):
    """A process that holds memory of a GPU now."""

    gpu_uuid: str


class GpuHoldersPublic(BaseModel):
    """Who holds the GPUs, as the watching last heard: younger than the inventory while a server runs on the node."""

    at: Instant = Field(description="By the node's clock. Asked every 15 s while a launch is watched there.")
    error: str | None = Field(description="Why the driver gave no answer: then nothing is known of holders.")
    holders: list[LiveHolderPublic]


class InventoryPublic(BaseModel):
    """What the last look at a node found."""

    at: Instant
    hostname: str
    kernel: str
    boot_id: str
    cpu_count: int
    memory_total_mib: int
    memory_available_mib: int
    disks: list[DiskPublic]
    shm_total_mib: int
    shm_free_mib: int
    driver_version: str | None
    gpus: list[GpuPublic]
    gpu_error: str | None = Field(description="The driver or a GPU is in trouble: nothing is launched here.")
    engines: list[EnginePublic]
    found_engines: list[FoundEnginePublic] = Field(default_factory=list)
    launcher: str = Field(description="How launches are started: a systemd unit, or setsid.")


class NodePublic(BaseModel):
    """A GPU host, with what Vigil knows of it and since when."""

    id: str
    name: str
    address: str
    port: int
    user: str
    credential: Credential
    jump: JumpHost | None
    host_key: HostKeyPublic | None = Field(description="The pinned key.")
    offered_host_key: HostKeyPublic | None = Field(
        description="A key that waits for POST /nodes/{node}/trust; of the jump host first."
    )
    contact: ContactPublic
    is_draining: bool
    engines: list[str] = Field(description="Pythons that may have SGLang, as they were given; the inventory has more.")
    first_port: int
    last_port: int
    inventory: InventoryPublic | None
    gpu_holders: GpuHoldersPublic | None = Field(description="Null before the watching has asked.")
    created_at: Instant


def node_public(node: Node, live: LiveNode, claims: dict[str, str]) -> NodePublic:
    """Return a node as the API shows it."""
    offered = offered_key(node)
    pinned = host_key_of(node.host_key) if node.host_key else None
    jump = node.jump
    return NodePublic(
        id=node.id,
        name=node.name,
        address=node.address,
        port=node.port,
        user=node.user,
        credential=node.credential,  # type: ignore[arg-type]
        jump=JumpHost(**{name: jump[name] for name in JumpHost.model_fields}) if jump else None,
        host_key=_key(pinned.algorithm, pinned.fingerprint) if pinned else None,
        offered_host_key=_key(offered.algorithm, offered.fingerprint) if offered else None,
        contact=ContactPublic(
            state=node.contact,
            since_at=node.contact_since_at,
            heard_at=live.heard_at,
            code=node.contact_code,
            detail=node.contact_detail,
        ),
        is_draining=node.is_draining,
        engines=node.engines,
        first_port=node.first_port,
        last_port=node.last_port,
        inventory=_inventory(node.inventory, claims) if node.inventory else None,
        gpu_holders=_gpu_holders(live.gpu_holders) if live.gpu_holders else None,
        created_at=node.created_at,
    )


def _key(algorithm: str, fingerprint: str) -> HostKeyPublic:
    return HostKeyPublic(algorithm=algorithm, fingerprint=fingerprint)


def _gpu_holders(fact: GpuHoldersFact) -> GpuHoldersPublic:
    holders = [LiveHolderPublic(gpu_uuid=uuid, **asdict(holder)) for uuid, holder in fact.holders]
    return GpuHoldersPublic(at=fact.at, error=fact.error, holders=holders)


def _inventory(stored: dict[str, Any], claims: dict[str, str]) -> InventoryPublic:
    gpus = [{"warnings": [], **gpu, "claimed_by": claims.get(gpu["uuid"])} for gpu in stored["gpus"]]
    return InventoryPublic.model_validate({**stored, "gpus": gpus})
