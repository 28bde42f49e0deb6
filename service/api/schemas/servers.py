"""Servers and launches as the API shows them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, StrictBool, StrictStr, model_validator

from service.api.schemas.acceptance import AcceptancePublic, acceptance_public
from service.api.schemas.checks import PreflightBrief
from service.api.schemas.common import MOST, Name, Request, shown
from service.api.schemas.history import OperationPublic
from service.api.schemas.judgements import (
    DiagnosisPublic,
    EtaPublic,
    FindingPublic,
    VerdictPublic,
    eta_public,
    finding_public,
    verdict_public,
)
from service.api.schemas.nodes import PortNumber
from service.clock import Instant
from service.db.servers import ServerRow
from service.db.tables import Launch
from service.nodes.contact import Contact
from service.operations.live import Live
from service.operations.recording import progress_json
from service.operations.verdicts import Thought
from service.profiles.profile import Profile
from service.servers.operation import OperationKind, OperationStep
from service.servers.states import Desired, Reason, State
from service.sglang.checks import CheckCode
from service.sglang.phases import Phase

GpuSelector = Annotated[
    Annotated[int, Field(strict=True, le=MOST)] | StrictStr,
    Field(description="The index of a GPU on its node, or its uuid.", examples=[0, "GPU-4f2c…"]),
]


Override = Annotated[
    list[CheckCode],
    Field(
        max_length=64,
        description="Codes of checks that may fail: for an operator who knows better. It is kept with the launch.",
        examples=[["node_disk"]],
    ),
]


class ServerCreate(Request):
    """A profile placed on a node."""

    model_config = shown({"name": "llama", "profile": "llama", "node": "atlas", "launch": True})

    name: Name
    profile: Name
    version: Annotated[int, Field(strict=True, ge=1, le=MOST)] | None = Field(
        default=None, description="The newest by default."
    )
    node: Name
    gpus: Annotated[list[GpuSelector], Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="These GPUs and no others."
    )
    gpu_count: Annotated[int, Field(strict=True, ge=0, le=64)] | None = Field(
        default=None, description="So many free GPUs, chosen at each launch; the profile's count by default."
    )
    port: PortNumber | None = Field(
        default=None, description="By default the first of the node's ports not given away."
    )
    launch: StrictBool = Field(default=False, description="Launch it at once, if the checks of a preflight pass.")
    override: Override = Field(default_factory=list)


class LaunchWish(Request):
    """How a launch is wished for; the body may be left out."""

    model_config = shown({"version": 2}, {"override": ["node_disk"]})

    version: Annotated[int, Field(strict=True, ge=1, le=MOST)] | None = Field(
        default=None, description="The profile's version from now on; by default it stays as it was."
    )
    override: Override = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _null_is_no_wish(cls, value: object) -> object:
        return {} if value is None else value


class ServerAdopt(Request):
    """An engine that runs on a node and that Vigil did not launch."""

    model_config = shown({"name": "old", "node": "atlas", "pid": 4711})

    name: Name = Field(description="The name of the new server, and of the profile that its command line makes.")
    node: Name
    pid: Annotated[int, Field(strict=True, ge=2, le=MOST)] = Field(
        description="Of its main process, as the node's inventory lists it."
    )


class ProgressPublic(BaseModel):
    """n of m within a phase."""

    done: int
    total: int
    unit: str


class PhasePublic(BaseModel):
    """One phase of a start, as the log tells it."""

    phase: Phase
    started_at: Instant | None
    ended_at: Instant | None
    progress: ProgressPublic | None


class GpuRef(BaseModel):
    """A GPU that a launch was given."""

    index: int
    uuid: str
    name: str


class OperationBrief(BaseModel):
    """The operation that is under way on a server."""

    id: str
    kind: OperationKind
    step: OperationStep
    not_before_at: Instant | None


class LaunchBrief(BaseModel):
    """Where the current launch of a server is."""

    id: str
    number: int
    phase: Phase | None
    progress: ProgressPublic | None
    phase_started_at: Instant | None
    gpus: list[GpuRef]
    pid: int | None
    exit_code: int | None
    diagnosis: DiagnosisPublic | None
    created_at: Instant
    ready_at: Instant | None
    ended_at: Instant | None


class ContactBrief(BaseModel):
    """Whether the server's node is heard; without contact the state is the last that was known."""

    state: Contact
    since_at: Instant
    detail: str | None


class ServerRecorded(BaseModel):
    """What the database says of a server; of its launch what is live while that starts."""

    id: str
    name: str
    state: State
    state_since_at: Instant
    reason: Reason | None
    message: str | None
    desired: Desired
    node: str
    contact: ContactBrief
    profile: str
    profile_version: int
    port: int
    pinned_gpus: list[int | str] | None
    gpu_count: int
    launch: LaunchBrief | None
    operation: OperationBrief | None = Field(description="What is under way.")
    findings: list[FindingPublic] = Field(description="What is wrong with it now.")
    created_at: Instant


class ServerSeen(BaseModel):
    """What is seen and thought of a server now."""

    verdict: VerdictPublic | None = Field(description="What is thought of the current launch; null at rest.")
    eta: EtaPublic | None = Field(description="null without an earlier start to tell.")
    acceptance: AcceptancePublic | None = Field(description="What its speculation does; null without one.")
    observed_at: Instant | None = Field(description="When the youngest fact about its launch was read on the node.")


class ServerPublic(ServerSeen, ServerRecorded):
    """A server, with its state, the reason for it, and how old the facts are."""


class LaunchPublic(BaseModel):
    """One attempt to bring a server up."""

    id: str
    server: str
    node: str
    number: int
    profile_version: int
    recipe: Profile
    argv: list[str] = Field(description="What was executed; secrets are in a file on the node, not here.")
    environment: dict[str, str] = Field(description="What Vigil added to the environment, without secrets.")
    engine_version: str | None
    launcher: str | None
    is_adopted: bool
    pid: int | None
    port: int
    gpus: list[GpuRef]
    phase: Phase | None
    progress: ProgressPublic | None
    timeline: list[PhasePublic]
    created_at: Instant
    started_at: Instant | None
    ready_at: Instant | None
    ended_at: Instant | None
    exit_code: int | None
    diagnosis: DiagnosisPublic | None = Field(description="Why it failed; null if it did not, or nobody could tell.")
    verdict: VerdictPublic | None = Field(description="What was last thought of it.")
    preflight: PreflightBrief | None = Field(description="What was checked before it; null for an adopted one.")
    cached_share: float | None = Field(
        description="How much of the model's files was in the page cache before the start; null where unknown."
    )
    hang_evidence: dict[str, Any] | None = Field(description="Stacks, nvidia-smi and log of a suspected hang.")
    leftovers: dict[str, Any] | None = Field(description="What the last proof of its end found; null before one.")
    files_removed_at: Instant | None = Field(
        description="Since when its log is gone from the node, because of its age."
    )


class ServerCreated(BaseModel):
    """A new server, and the operation that launches it if that was asked for."""

    server: ServerPublic
    operation: OperationPublic | None


_JUDGED = frozenset({State.STARTING, State.READY, State.UNREADY})


def server_public(row: ServerRow, live: Live, now: datetime) -> ServerPublic:
    """Return a server as the API shows it: what is recorded, with the live picture of its launch over it."""
    return ServerPublic(**dict(server_recorded(row, live)), **dict(server_seen(row, look_at(row, live, now))))


def server_recorded(row: ServerRow, live: Live) -> ServerRecorded:
    """Return what is recorded of a server. It depends on `live` only while its launch `has_live_phase`."""
    server, node = row.server, row.node
    return ServerRecorded(
        id=server.id,
        name=server.name,
        state=server.state,
        state_since_at=server.state_since_at,
        reason=server.reason,
        message=server.message,
        desired=server.desired,
        node=node.name,
        contact=ContactBrief(state=node.contact, since_at=node.contact_since_at, detail=node.contact_detail),
        profile=row.profile.name,
        profile_version=server.profile_version,
        port=server.port,
        pinned_gpus=server.pinned_gpus,
        gpu_count=server.gpu_count,
        launch=_launch_brief(row.launch, live) if row.launch else None,
        operation=OperationBrief.model_validate(row.operation.model_dump()) if row.operation else None,
        findings=[finding_public(finding) for finding in row.findings],
        created_at=server.created_at,
    )


class Look(NamedTuple):
    """What is known of a server now that is not in its row; looks that are equal show the same."""

    thought: Thought | None
    eta: EtaPublic | None
    acceptance: AcceptancePublic | None
    observed_at: datetime | None


def look_at(row: ServerRow, live: Live, now: datetime) -> Look:
    """Look at the live picture of a server's launch."""
    launch = row.launch
    watched = live.launches.get(launch.id) if launch else None
    if launch is None or watched is None:
        acceptance = acceptance_public(launch, row.acceptance, None, now) if launch else None
        return Look(None, None, acceptance, None)
    verdicts = watched.verdicts
    return Look(
        thought=watched.thought,
        eta=eta_public(watched, now) if row.server.state is State.STARTING else None,
        acceptance=acceptance_public(launch, row.acceptance, verdicts, now),
        observed_at=watched.observed_at,
    )


def server_seen(row: ServerRow, look: Look) -> ServerSeen:
    """Return what is seen and thought of a server."""
    verdict = verdict_public(row.launch, look.thought) if row.launch and row.server.state in _JUDGED else None
    return ServerSeen(verdict=verdict, eta=look.eta, acceptance=look.acceptance, observed_at=look.observed_at)


def has_live_phase(launch: Launch | None, live: Live) -> bool:
    """Tell whether the phase of a launch is known live, before it is recorded."""
    return launch is not None and launch.ready_at is None and launch.id in live.launches


def launch_public(launch: Launch, live: Live, *, server: str, node: str) -> LaunchPublic:
    """Return a launch as the API shows it."""
    phase, progress, timeline = _phases(launch, live)
    return LaunchPublic.model_validate(
        {
            **launch.model_dump(),
            "server": server,
            "node": node,
            "phase": phase,
            "progress": progress,
            "timeline": timeline,
            "verdict": verdict_public(launch, live.thought_of(launch.id)),
        }
    )


def _launch_brief(launch: Launch, live: Live) -> LaunchBrief:
    phase, progress, timeline = _phases(launch, live)
    return LaunchBrief.model_validate(
        {
            **launch.model_dump(include=set(LaunchBrief.model_fields)),
            "phase": phase,
            "progress": progress,
            "phase_started_at": timeline[-1]["started_at"] if timeline else None,
        }
    )


def _phases(launch: Launch, live: Live) -> tuple[str | None, Any, Sequence[Any]]:
    """Return phase, progress and timeline: live while the launch is watched and its log was read, else as recorded."""
    reading = live.launches[launch.id].log.reading if has_live_phase(launch, live) else None
    if reading is None or reading.phase is None:
        return launch.phase, launch.progress, launch.timeline
    timeline = [
        {
            "phase": span.phase,
            "started_at": span.started_at,
            "ended_at": span.ended_at,
            "progress": progress_json(span.progress),
        }
        for span in reading.phases
    ]
    return reading.phase, progress_json(reading.progress), timeline
