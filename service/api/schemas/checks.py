"""The checks before a launch as the API shows them, alone and with the launch that they let pass."""

from typing import Any

from pydantic import BaseModel, Field

from service.clock import Instant
from service.sglang.checks import CheckCode, Outcome


class CheckPublic(BaseModel):
    """One check: what was found, and what mends it."""

    code: CheckCode
    outcome: Outcome = Field(description="`skipped`: it could not be judged or does not apply; `found` says why.")
    found: str
    remedy: str | None
    facts: dict[str, Any] = Field(description="The numbers and names that the texts were made from.")
    took_s: float = Field(description="Seconds of the look at the node that it rests on; checks may share a look.")


class PreflightBrief(BaseModel):
    """What was checked before a launch."""

    at: Instant
    took_s: float
    outcome: Outcome = Field(description="The worst of the checks that were not skipped; `fail` refuses the launch.")
    engine_version: str | None
    overridden: list[CheckCode] = Field(description="Checks that failed and were overridden by the request.")
    checks: list[CheckPublic]
