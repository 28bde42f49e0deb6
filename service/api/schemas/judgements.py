"""What is thought of a launch, what is left of its start, why it failed, and what is wrong with it."""

from datetime import datetime

from pydantic import BaseModel, Field

from service.clock import Instant
from service.db.tables import Finding, Launch
from service.operations.live import LiveLaunch
from service.operations.verdicts import Thought
from service.sglang.phases import Phase


class EvidencePublic(BaseModel):
    """A line that proves it: its number in the log, null where it is not from a log."""

    line: int | None
    text: str


class DiagnosisPublic(BaseModel):
    """Why a launch failed: docs/diagnoses.md explains every code."""

    code: str
    summary: str
    remedy: str
    confidence: str
    evidence: list[EvidencePublic]


class FindingPublic(BaseModel):
    """What is wrong while a server serves, or with a node's GPUs."""

    id: int
    server_id: str | None
    node_id: str
    code: str
    summary: str
    remedy: str
    count: int
    evidence: list[EvidencePublic]
    began_at: Instant
    ended_at: Instant | None = Field(description="null while it goes on.")


class LastMark(BaseModel):
    """The last sign of progress."""

    source: str
    value: str
    gain: float


class Range(BaseModel):
    """A usual range in seconds."""

    p50: float
    p90: float


class VerdictPublic(BaseModel):
    """What is thought of a launch, and on what evidence.

    While it starts: `progressing`, `slow`, `suspected_hung`. While it serves: `healthy`, `busy`, `engine_silent`,
    `draining`. The fields after `message` belong to starts, `silent_since` to serving.
    """

    verdict: str
    since_at: Instant
    message: str
    judged_at: Instant | None = None
    phase: Phase | None = None
    phase_since: Instant | None = None
    last_mark: LastMark | None = None
    last_mark_at: Instant | None = None
    still_since: dict[str, Instant] | None = Field(default=None, description="Per source: since when it is still.")
    since_last_mark: dict[str, float] | None = Field(default=None, description="CPU, bytes and lines used since then.")
    hung_at: Instant | None = Field(default=None, description="When it will be suspected hung if nothing moves.")
    deadline_s: float | None = None
    deadline_source: str | None = None
    deadline_why: str | None = Field(default=None, description="Where the deadline comes from.")
    expected_s: Range | None = Field(default=None, description="How long this phase usually takes.")
    sample_count: int | None = None
    silent_since: Instant | None = None


class PhaseEtaPublic(BaseModel):
    """What is left of one phase."""

    phase: Phase
    remaining_p50_s: float
    remaining_p90_s: float


class EtaPublic(BaseModel):
    """The seconds until ready, from earlier starts."""

    remaining_p50_s: float
    remaining_p90_s: float
    phases: list[PhaseEtaPublic]
    learned_from_starts: int
    learned_from: str
    is_overdue: bool = Field(description="The present phase takes longer than in any earlier start.")


def finding_public(finding: Finding) -> FindingPublic:
    """Return a finding as the API shows it."""
    return FindingPublic.model_validate(finding.model_dump())


def verdict_public(launch: Launch, thought: Thought | None) -> VerdictPublic | None:
    """Return what is thought of a launch: live while it is watched, else as it was last kept."""
    details = thought.details if thought else launch.verdict
    return VerdictPublic.model_validate(details) if details else None


def eta_public(watched: LiveLaunch, now: datetime) -> EtaPublic | None:
    """Return the time that is left of a start that is watched."""
    left = watched.verdicts.time_left(watched.log.reading, now) if watched.verdicts else None
    return EtaPublic.model_validate(left) if left else None
