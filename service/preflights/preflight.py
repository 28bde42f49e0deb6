"""A preflight: its checks with the time each took, what it refuses, and how it is kept."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from service.sglang.checks import Check, CheckCode, Outcome, worst


@dataclass(frozen=True, slots=True)
class TimedCheck:
    """A check, and how long the look at the node took that it rests on; checks of one look share its time."""

    check: Check
    took_s: float


@dataclass(frozen=True, slots=True)
class Preflight:
    """Everything that was checked for one launch that is wished for."""

    at: datetime
    took_s: float
    """From first to last; the looks run side by side."""
    engine_version: str | None
    port: int
    gpu_uuids: tuple[str, ...]
    """The GPUs that the launch would get; empty when it wants none or cannot have them."""
    checks: tuple[TimedCheck, ...]

    @property
    def outcome(self) -> Outcome:
        """Return the worst outcome of the checks that were made; what was skipped says so for itself."""
        return worst(timed.check for timed in self.checks if timed.check.outcome is not Outcome.SKIPPED)

    def refusing(self, overridden: Collection[CheckCode] = ()) -> Sequence[Check]:
        """Return the checks that refuse the launch: those that failed and are not overridden."""
        failed = [timed.check for timed in self.checks if timed.check.outcome is Outcome.FAIL]
        return [check for check in failed if check.code not in overridden]

    def document(self, overridden: Collection[CheckCode] = ()) -> dict[str, Any]:
        """Return what is kept with a launch; `overridden` are the failed checks that its request named."""
        failed = {check.code for check in self.refusing()}
        return {
            "at": self.at.isoformat(),
            "took_s": self.took_s,
            "outcome": self.outcome.value,
            "engine_version": self.engine_version,
            "overridden": sorted(failed.intersection(overridden)),
            "checks": [_plain(timed) for timed in self.checks],
        }


def _plain(timed: TimedCheck) -> dict[str, Any]:
    check = timed.check
    return {
        "code": check.code.value,
        "outcome": check.outcome.value,
        "found": check.found,
        "remedy": check.remedy,
        "facts": dict(check.facts),
        "took_s": timed.took_s,
    }
