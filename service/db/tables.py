"""The tables of the fleet. What changes over time is in columns; what is only read back as a whole is JSON."""

from datetime import datetime
from typing import Any

from sqlalchemy import Column, Index, Integer, UniqueConstraint, text
from sqlmodel import Field

from service.access.roles import Role
from service.db.columns import enum_text, short_text
from service.db.fields import (
    Table,
    count_field,
    instant_field,
    json_field,
    key_field,
    live_name,
    long_text_field,
    reference_field,
    text_field,
)
from service.nodes.contact import Contact
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import Desired, Reason, State
from service.sglang.phases import Phase


class Node(Table, table=True):
    """A GPU host reached over SSH."""

    __tablename__ = "node"
    __table_args__ = (live_name("node"),)

    id: str = key_field()
    name: str = text_field()
    address: str
    port: int
    user: str
    credential: dict[str, Any] = json_field()
    host_key: str | None = None
    """The pinned public key; None until somebody confirms it."""
    offered_host_key: str | None = None
    """The key the node showed when it was last asked, if it is not the pinned one."""
    jump: dict[str, Any] | None = json_field(nullable=True)
    engines: list[str] = json_field()
    first_port: int
    last_port: int
    is_draining: bool = False
    contact: Contact = Field(sa_column=Column(enum_text(Contact), nullable=False))
    contact_since_at: datetime = instant_field()
    contact_code: str | None = None
    contact_detail: str | None = None
    inventory: dict[str, Any] | None = json_field(nullable=True)
    inventory_at: datetime | None = instant_field(nullable=True)
    created_at: datetime = instant_field()
    deleted_at: datetime | None = instant_field(nullable=True)


class Profile(Table, table=True):
    """The name of a recipe; what it says is in its versions."""

    __tablename__ = "profile"
    __table_args__ = (live_name("profile"),)

    id: str = key_field()
    name: str = text_field()
    latest_version: int
    created_at: datetime = instant_field()
    deleted_at: datetime | None = instant_field(nullable=True)


class ProfileVersion(Table, table=True):
    """One version of a recipe; never changed."""

    __tablename__ = "profile_version"
    __table_args__ = (UniqueConstraint("profile_id", "number"),)

    id: str = key_field()
    profile_id: str = reference_field("profile.id")
    number: int
    recipe: dict[str, Any] = json_field()
    created_at: datetime = instant_field()


class Server(Table, table=True):
    """A profile version placed on a node; outlives its launches."""

    __tablename__ = "server"
    __table_args__ = (live_name("server"),)

    id: str = key_field()
    name: str = text_field()
    node_id: str = reference_field("node.id")
    profile_id: str = reference_field("profile.id")
    profile_version: int
    port: int
    pinned_gpus: list[Any] | None = json_field(nullable=True)
    """Indexes or uuids; None lets every launch choose `gpu_count` free ones."""
    gpu_count: int
    desired: Desired = Field(sa_column=Column(enum_text(Desired), nullable=False))
    state: State = Field(sa_column=Column(enum_text(State), nullable=False, index=True))
    state_since_at: datetime = instant_field()
    reason: Reason | None = Field(default=None, sa_column=Column(enum_text(Reason), nullable=True))
    message: str | None = None
    launch_id: str | None = text_field(nullable=True)
    """The current launch, or the last one."""
    launch_count: int = 0
    created_at: datetime = instant_field()
    deleted_at: datetime | None = instant_field(nullable=True)


class Launch(Table, table=True):
    """One attempt to bring a server up, from request to its end."""

    __tablename__ = "launch"
    __table_args__ = (UniqueConstraint("server_id", "number"),)

    id: str = key_field()
    server_id: str = reference_field("server.id")
    node_id: str = reference_field("node.id")
    number: int
    profile_id: str = reference_field("profile.id")
    profile_version: int
    recipe: dict[str, Any] = json_field()
    """The snapshot of the profile version that was launched."""
    argv: list[str] = json_field()
    environment: dict[str, str] = json_field()
    engine_version: str | None = None
    port: int
    gpus: list[dict[str, Any]] = json_field()
    launcher: str | None = None
    is_adopted: bool = False
    """Somebody else started it: its log may lack the ready line, and its start is no measure for others."""
    pid: int | None = None
    model_path: str = long_text_field()
    gpu_name: str | None = None
    cached_share: float | None = None
    """How much of the model's files was in the page cache before the start; None where that cannot be known."""
    verdict: dict[str, Any] | None = json_field(nullable=True)
    """What was last thought of it, with its evidence."""
    marks: dict[str, Any] | None = json_field(nullable=True)
    """Which signs of progress it had given by then."""
    hang_evidence: dict[str, Any] | None = json_field(nullable=True)
    preflight: dict[str, Any] | None = json_field(nullable=True)
    """What was checked before it, and what was overridden."""
    created_at: datetime = instant_field(index=True)
    started_at: datetime | None = instant_field(nullable=True)
    ready_at: datetime | None = instant_field(nullable=True)
    ended_at: datetime | None = instant_field(nullable=True)
    exit_code: int | None = None
    phase: str | None = None
    progress: dict[str, Any] | None = json_field(nullable=True)
    timeline: list[dict[str, Any]] = json_field()
    diagnosis: dict[str, Any] | None = json_field(nullable=True)
    """Why it failed: code, summary, remedy, confidence, evidence."""
    log_offset: int = 0
    """How many bytes of the log are folded into this row: after a restart a ready server is read from here on."""
    leftovers: dict[str, Any] | None = json_field(nullable=True)
    """What was still there at the last proof; None before one was made."""
    files_removed_at: datetime | None = instant_field(nullable=True)
    """When its directory on the node, log and all, was removed because of its age; None while it is there."""


class LaunchPhase(Table, table=True):
    """One stay in a phase of a start that is over: what later starts are measured by."""

    __tablename__ = "launch_phase"
    __table_args__ = (UniqueConstraint("launch_id", "position"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    launch_id: str = reference_field("launch.id")
    position: int
    phase: Phase = Field(sa_column=Column(enum_text(Phase), nullable=False))
    duration_s: float
    total: int | None = None
    has_ended_well: bool


class AcceptanceSample(Table, table=True):
    """What speculation did for one launch during a while in which it decoded; none is kept for idle times."""

    __tablename__ = "acceptance_sample"

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    launch_id: str = reference_field("launch.id")
    at: datetime = instant_field()
    """When the while ended."""
    window_s: float
    source: str = text_field()
    """`log`: the decode lines; `metrics`: the engine's /metrics."""
    accept_length: float
    """Tokens per verify step, the bonus token included: 1.00 means that no draft token was accepted."""
    accept_rate: float | None = None
    """As the engine's version defines it; None where the version does not say it."""
    verify_steps: int = count_field()
    generated_tokens: int = count_field()
    running_requests: int
    """The most that were seen running at once."""


class GpuClaim(Table, table=True):
    """The right of one server to one GPU; the constraint is the guard against a double launch."""

    __tablename__ = "gpu_claim"
    __table_args__ = (UniqueConstraint("node_id", "gpu_uuid"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    node_id: str = reference_field("node.id")
    gpu_uuid: str = text_field()
    server_id: str = reference_field("server.id")


class PortClaim(Table, table=True):
    """The right of one server to one port of a node."""

    __tablename__ = "port_claim"
    __table_args__ = (UniqueConstraint("node_id", "port"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    node_id: str = reference_field("node.id")
    port: int
    server_id: str = reference_field("server.id")


class Transition(Table, table=True):
    """An immutable row: what changed from what to what, why, when, by whom, on what evidence."""

    __tablename__ = "transition"

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    subject: str = text_field()
    """`server` or `node`."""
    server_id: str | None = text_field(nullable=True, index=True)
    node_id: str = text_field(index=True)
    launch_id: str | None = text_field(nullable=True, index=True)
    operation_id: str | None = text_field(nullable=True)
    before: str = text_field()
    after: str = text_field()
    reason: Reason = Field(sa_column=Column(enum_text(Reason), nullable=False))
    message: str
    evidence: dict[str, Any] = json_field()
    actor: str = text_field()
    at: datetime = instant_field(index=True)


class Finding(Table, table=True):
    """What is wrong while it serves, or with a node's GPUs: with a beginning and, once it is over, an end."""

    __tablename__ = "finding"
    __table_args__ = (
        Index(
            "uq_finding_subject_code_open",
            "subject_id",
            "code",
            unique=True,
            sqlite_where=text("ended_at IS NULL"),
            postgresql_where=text("ended_at IS NULL"),
        ),
    )

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    subject_id: str = text_field(index=True)
    """The launch, or the node."""
    node_id: str = text_field(index=True)
    server_id: str | None = text_field(nullable=True, index=True)
    code: str
    summary: str
    remedy: str
    count: int
    evidence: list[dict[str, Any]] = json_field()
    began_at: datetime = instant_field()
    ended_at: datetime | None = instant_field(nullable=True)


class Operation(Table, table=True):
    """An accepted request that takes time; unfinished ones are resumed after a restart of the service."""

    __tablename__ = "operation"
    __table_args__ = (
        Index(
            "uq_operation_server_id_running",
            "server_id",
            unique=True,
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
    )

    id: str = key_field()
    kind: OperationKind = Field(sa_column=Column(enum_text(OperationKind), nullable=False))
    server_id: str = reference_field("server.id")
    launch_id: str | None = text_field(nullable=True)
    state: OperationState = Field(sa_column=Column(enum_text(OperationState), nullable=False, index=True))
    step: OperationStep = Field(sa_column=Column(enum_text(OperationStep), nullable=False))
    actor: str = text_field()
    problem: dict[str, Any] | None = json_field(nullable=True)
    """Why it failed, as code, detail and remedy."""
    not_before_at: datetime | None = instant_field(nullable=True)
    """When a pausing operation goes on."""
    preflight: dict[str, Any] | None = json_field(nullable=True)
    """What was checked before it was accepted; its launch takes it over."""
    created_at: datetime = instant_field()
    ended_at: datetime | None = instant_field(nullable=True)


class IdempotencyRecord(Table, table=True):
    """The answer that a mutating request got, kept under the caller's key."""

    __tablename__ = "idempotency_record"
    __table_args__ = (UniqueConstraint("scope", "key"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    scope: str
    key: str
    body_hash: str
    status: int
    body: dict[str, Any] | None = json_field(nullable=True)
    headers: dict[str, str] = json_field()
    created_at: datetime = instant_field(index=True)


class Token(Table, table=True):
    """The right of somebody to call the API. The token itself is shown once and never kept, only its SHA-256."""

    __tablename__ = "token"
    __table_args__ = (live_name("token"),)

    id: str = key_field()
    name: str = text_field()
    role: Role = Field(sa_column=Column(enum_text(Role), nullable=False))
    digest: str = Field(sa_column=Column(short_text(), nullable=False, unique=True))
    created_by: str = text_field()
    created_at: datetime = instant_field()
    expires_at: datetime | None = instant_field(nullable=True)
    last_used_at: datetime | None = instant_field(nullable=True)
    """Written at most once a minute."""
    deleted_at: datetime | None = instant_field(nullable=True)
    """When it was revoked; the row stays, or the same token could be given again."""
