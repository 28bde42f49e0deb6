"""The tables. What changes over time is in columns; what is only read back as a whole is JSON."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, MetaData, String, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from service.db.columns import Json, UtcDateTime, enum_text, short_text
from service.nodes.contact import Contact
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import Desired, Reason, State
from service.sglang.phases import Phase

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
"""Every constraint has a name, or a migration in batch mode could not drop it."""


class Table(SQLModel):
    """The base of all tables."""

    metadata = MetaData(naming_convention=NAMING)


def _key() -> Any:
    return Field(sa_column=Column(short_text(), primary_key=True))


def _text(*, nullable: bool = False, index: bool = False) -> Any:
    return Field(default=None if nullable else ..., sa_column=Column(short_text(), nullable=nullable, index=index))


def _text_long() -> Any:
    return Field(sa_column=Column(String(500), nullable=False, index=True))


def _reference(target: str, *, nullable: bool = False) -> Any:
    column = Column(short_text(), ForeignKey(target), nullable=nullable, index=True)
    return Field(default=None if nullable else ..., sa_column=column)


def _instant(*, nullable: bool = False, index: bool = False) -> Any:
    return Field(default=None if nullable else ..., sa_column=Column(UtcDateTime(), nullable=nullable, index=index))


def _count() -> Any:
    return Field(sa_column=Column(BigInteger, nullable=False))


def _json(*, nullable: bool = False) -> Any:
    return Field(default=None if nullable else ..., sa_column=Column(Json(none_as_null=True), nullable=nullable))


def _live_name(table: str) -> Index:
    """Return a unique index over the names of what is not deleted."""
    alive = text("deleted_at IS NULL")
    return Index(f"uq_{table}_name_alive", "name", unique=True, sqlite_where=alive, postgresql_where=alive)


class Node(Table, table=True):
    """A GPU host reached over SSH."""

    __tablename__ = "node"
    __table_args__ = (_live_name("node"),)

    id: str = _key()
    name: str = _text()
    address: str
    port: int
    user: str
    credential: dict[str, Any] = _json()
    host_key: str | None = None
    """The pinned public key; None until somebody confirms it."""
    offered_host_key: str | None = None
    """The key the node showed when it was last asked, if it is not the pinned one."""
    jump: dict[str, Any] | None = _json(nullable=True)
    engines: list[str] = _json()
    first_port: int
    last_port: int
    is_draining: bool = False
    contact: Contact = Field(sa_column=Column(enum_text(Contact), nullable=False))
    contact_since_at: datetime = _instant()
    contact_code: str | None = None
    contact_detail: str | None = None
    inventory: dict[str, Any] | None = _json(nullable=True)
    inventory_at: datetime | None = _instant(nullable=True)
    created_at: datetime = _instant()
    deleted_at: datetime | None = _instant(nullable=True)


class Profile(Table, table=True):
    """The name of a recipe; what it says is in its versions."""

    __tablename__ = "profile"
    __table_args__ = (_live_name("profile"),)

    id: str = _key()
    name: str = _text()
    latest_version: int
    created_at: datetime = _instant()
    deleted_at: datetime | None = _instant(nullable=True)


class ProfileVersion(Table, table=True):
    """One version of a recipe; never changed."""

    __tablename__ = "profile_version"
    __table_args__ = (UniqueConstraint("profile_id", "number"),)

    id: str = _key()
    profile_id: str = _reference("profile.id")
    number: int
    recipe: dict[str, Any] = _json()
    created_at: datetime = _instant()


class Server(Table, table=True):
    """A profile version placed on a node; outlives its launches."""

    __tablename__ = "server"
    __table_args__ = (_live_name("server"),)

    id: str = _key()
    name: str = _text()
    node_id: str = _reference("node.id")
    profile_id: str = _reference("profile.id")
    profile_version: int
    port: int
    pinned_gpus: list[Any] | None = _json(nullable=True)
    """Indexes or uuids; None lets every launch choose `gpu_count` free ones."""
    gpu_count: int
    desired: Desired = Field(sa_column=Column(enum_text(Desired), nullable=False))
    state: State = Field(sa_column=Column(enum_text(State), nullable=False, index=True))
    state_since_at: datetime = _instant()
    reason: Reason | None = Field(default=None, sa_column=Column(enum_text(Reason), nullable=True))
    message: str | None = None
    launch_id: str | None = _text(nullable=True)
    """The current launch, or the last one."""
    launch_count: int = 0
    created_at: datetime = _instant()
    deleted_at: datetime | None = _instant(nullable=True)


class Launch(Table, table=True):
    """One attempt to bring a server up, from request to its end."""

    __tablename__ = "launch"
    __table_args__ = (UniqueConstraint("server_id", "number"),)

    id: str = _key()
    server_id: str = _reference("server.id")
    node_id: str = _reference("node.id")
    number: int
    profile_id: str = _reference("profile.id")
    profile_version: int
    recipe: dict[str, Any] = _json()
    """The snapshot of the profile version that was launched."""
    argv: list[str] = _json()
    environment: dict[str, str] = _json()
    engine_version: str | None = None
    port: int
    gpus: list[dict[str, Any]] = _json()
    launcher: str | None = None
    is_adopted: bool = False
    """Somebody else started it: its log may lack the ready line, and its start is no measure for others."""
    pid: int | None = None
    model_path: str = _text_long()
    gpu_name: str | None = None
    cached_share: float | None = None
    """How much of the model's files was in the page cache before the start; None where that cannot be known."""
    verdict: dict[str, Any] | None = _json(nullable=True)
    """What was last thought of it, with its evidence."""
    marks: dict[str, Any] | None = _json(nullable=True)
    """Which signs of progress it had given by then."""
    hang_evidence: dict[str, Any] | None = _json(nullable=True)
    preflight: dict[str, Any] | None = _json(nullable=True)
    """What was checked before it, and what was overridden."""
    created_at: datetime = _instant(index=True)
    started_at: datetime | None = _instant(nullable=True)
    ready_at: datetime | None = _instant(nullable=True)
    ended_at: datetime | None = _instant(nullable=True)
    exit_code: int | None = None
    phase: str | None = None
    progress: dict[str, Any] | None = _json(nullable=True)
    timeline: list[dict[str, Any]] = _json()
    diagnosis: dict[str, Any] | None = _json(nullable=True)
    """Why it failed: code, summary, remedy, confidence, evidence."""
    log_offset: int = 0
    """How many bytes of the log are folded into this row: after a restart a ready server is read from here on."""
    leftovers: dict[str, Any] | None = _json(nullable=True)
    """What was still there at the last proof; None before one was made."""


class LaunchPhase(Table, table=True):
    """One stay in a phase of a start that is over: what later starts are measured by."""

    __tablename__ = "launch_phase"
    __table_args__ = (UniqueConstraint("launch_id", "position"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    launch_id: str = _reference("launch.id")
    position: int
    phase: Phase = Field(sa_column=Column(enum_text(Phase), nullable=False))
    duration_s: float
    total: int | None = None
    has_ended_well: bool


class AcceptanceSample(Table, table=True):
    """What speculation did for one launch during a while in which it decoded; none is kept for idle times."""

    __tablename__ = "acceptance_sample"

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    launch_id: str = _reference("launch.id")
    at: datetime = _instant()
    """When the while ended."""
    window_s: float
    source: str = _text()
    """`log`: the decode lines; `metrics`: the engine's /metrics."""
    accept_length: float
    """Tokens per verify step, the bonus token included: 1.00 means that no draft token was accepted."""
    accept_rate: float | None = None
    """As the engine's version defines it; None where the version does not say it."""
    verify_steps: int = _count()
    generated_tokens: int = _count()
    running_requests: int
    """The most that were seen running at once."""


class GpuClaim(Table, table=True):
    """The right of one server to one GPU; the constraint is the guard against a double launch."""

    __tablename__ = "gpu_claim"
    __table_args__ = (UniqueConstraint("node_id", "gpu_uuid"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    node_id: str = _reference("node.id")
    gpu_uuid: str = _text()
    server_id: str = _reference("server.id")


class PortClaim(Table, table=True):
    """The right of one server to one port of a node."""

    __tablename__ = "port_claim"
    __table_args__ = (UniqueConstraint("node_id", "port"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    node_id: str = _reference("node.id")
    port: int
    server_id: str = _reference("server.id")


class Transition(Table, table=True):
    """An immutable row: what changed from what to what, why, when, by whom, on what evidence."""

    __tablename__ = "transition"

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    subject: str = _text()
    """`server` or `node`."""
    server_id: str | None = _text(nullable=True, index=True)
    node_id: str = _text(index=True)
    launch_id: str | None = _text(nullable=True, index=True)
    operation_id: str | None = _text(nullable=True)
    before: str = _text()
    after: str = _text()
    reason: Reason = Field(sa_column=Column(enum_text(Reason), nullable=False))
    message: str
    evidence: dict[str, Any] = _json()
    actor: str = _text()
    at: datetime = _instant(index=True)


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
    subject_id: str = _text(index=True)
    """The launch, or the node."""
    node_id: str = _text(index=True)
    server_id: str | None = _text(nullable=True, index=True)
    code: str
    summary: str
    remedy: str
    count: int
    evidence: list[dict[str, Any]] = _json()
    began_at: datetime = _instant()
    ended_at: datetime | None = _instant(nullable=True)


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

    id: str = _key()
    kind: OperationKind = Field(sa_column=Column(enum_text(OperationKind), nullable=False))
    server_id: str = _reference("server.id")
    launch_id: str | None = _text(nullable=True)
    state: OperationState = Field(sa_column=Column(enum_text(OperationState), nullable=False, index=True))
    step: OperationStep = Field(sa_column=Column(enum_text(OperationStep), nullable=False))
    actor: str = _text()
    problem: dict[str, Any] | None = _json(nullable=True)
    """Why it failed, as code, detail and remedy."""
    not_before_at: datetime | None = _instant(nullable=True)
    """When a pausing operation goes on."""
    preflight: dict[str, Any] | None = _json(nullable=True)
    """What was checked before it was accepted; its launch takes it over."""
    created_at: datetime = _instant()
    ended_at: datetime | None = _instant(nullable=True)


class IdempotencyRecord(Table, table=True):
    """The answer that a mutating request got, kept under the caller's key."""

    __tablename__ = "idempotency_record"
    __table_args__ = (UniqueConstraint("scope", "key"),)

    id: int | None = Field(default=None, sa_column=Column(Integer, primary_key=True))
    scope: str
    key: str
    body_hash: str
    status: int
    body: dict[str, Any] | None = _json(nullable=True)
    headers: dict[str, str] = _json()
    created_at: datetime = _instant(index=True)
