"""How long the starts of a profile took, phase by phase, and how the last one compares."""

from typing import Annotated

from pydantic import BaseModel, Field

from service.clock import Instant
from service.sglang.phases import Phase

Seconds = Annotated[float, Field(ge=0)]


class PhaseSeconds(BaseModel):
    """How long one start was in a phase, all stays together."""

    phase: Phase
    duration_s: Seconds


class StartPublic(BaseModel):
    """One start that became ready."""

    launch_id: str
    node: str
    server: str
    profile_version: int
    engine_version: str | None
    cached_share: float | None = Field(description="Of the model's files in the page cache before; null where unknown.")
    created_at: Instant
    ready_after_s: Seconds = Field(description="From the request to ready.")
    phases: list[PhaseSeconds]


class PhaseDistribution(BaseModel):
    """One phase over the starts that are listed."""

    phase: Phase
    start_count: int
    p50_s: Seconds
    p90_s: Seconds
    least_s: Seconds
    most_s: Seconds


class PhaseRatioPublic(BaseModel):
    """One phase of the last start against its median."""

    phase: Phase
    duration_s: Seconds
    median_s: Seconds
    ratio: float | None
    verdict: str


class StartComparisonPublic(BaseModel):
    """The last start against the earlier ones on its node."""

    verdict: str = Field(description="usual, slower or faster.")
    duration_s: Seconds
    median_s: Seconds
    start_count: int
    phases: list[PhaseRatioPublic]
    why: list[str]


class StartupHistory(BaseModel):
    """The starts of a profile that became ready, newest first."""

    profile: str
    starts: list[StartPublic]
    phases: list[PhaseDistribution]
    last: StartComparisonPublic | None = Field(description="null with fewer than three earlier starts on its node.")
