"""What each kind of event says: small, stable, without a secret; programs rely on it."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from service.clock import Instant
from service.nodes.contact import Contact
from service.servers.event import EventKind
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import Reason, State
from service.sglang.phases import Phase


class Document(BaseModel):
    """The base of all: what is read back is what was written."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerMoved(Document):
    """A server went from one state to another; the evidence is in its transition."""

    before: State
    after: State
    reason: Reason
    message: str
    diagnosis: str | None = Field(description="The code of the cause, when a failure has one.")
    actor: str
    operation_id: str | None


class ContactChanged(Document):
    """A node was reached or lost, or why it is lost has changed."""

    before: Contact
    after: Contact
    code: str | None = Field(description="Why it is lost.")
    message: str


class VerdictChanged(Document):
    """What is thought of a launch has changed; the state of its server stays."""

    before: str
    after: str
    message: str


class PolicyDecided(Document):
    """What a policy answers, with the state of the server as it is."""

    state: State
    reason: Reason
    message: str


class PhaseChanged(Document):
    """A start entered a phase."""

    before: Phase | None
    after: Phase
    position: int = Field(description="Which stay of the launch it is, from 0: phases can repeat.")
    started_at: Instant | None = Field(description="As the log tells it; null when it tells no time.")


class FindingTold(Document):
    """What is or was wrong with a serving engine or with the GPUs of a node."""

    code: str
    summary: str
    remedy: str
    count: int
    began_at: Instant
    ended_at: Instant | None


class OperationTold(Document):
    """How far an operation has come."""

    operation_id: str
    operation: OperationKind
    state: OperationState
    step: OperationStep
    actor: str
    code: str | None = Field(description="Why it failed or was canceled.")
    detail: str | None


class AcceptLengths(Document):
    """Tokens per verify step of both sides, where speculation is on: the usual cause."""

    baseline: float | None
    candidate: float | None


class RegressedPoint(Document):
    """One point of load at which a run is worse."""

    load: str
    metric: str
    unit: str
    baseline: float | None
    candidate: float | None
    ratio: float | None = Field(description="Candidate over baseline.")
    accept_length: AcceptLengths | None


class BenchmarkRegressed(Document):
    """A run is worse than the baseline of its profile; the whole is in GET /benchmark-comparisons."""

    run_id: str
    baseline_run_id: str
    profile_id: str | None
    benchmark: str | None
    points: list[RegressedPoint]


DOCUMENTS: Mapping[EventKind, type[Document]] = {
    EventKind.SERVER_MOVED: ServerMoved,
    EventKind.CONTACT_CHANGED: ContactChanged,
    EventKind.VERDICT_CHANGED: VerdictChanged,
    EventKind.POLICY_DECIDED: PolicyDecided,
    EventKind.PHASE_CHANGED: PhaseChanged,
    EventKind.FINDING_BEGAN: FindingTold,
    EventKind.FINDING_ENDED: FindingTold,
    EventKind.OPERATION_BEGAN: OperationTold,
    EventKind.OPERATION_ADVANCED: OperationTold,
    EventKind.OPERATION_ENDED: OperationTold,
    EventKind.BENCHMARK_REGRESSED: BenchmarkRegressed,
}
"""Every kind has a document."""
