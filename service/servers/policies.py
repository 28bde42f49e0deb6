"""What follows a crash or a suspected hang, by the profile's policy and what happened lately."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from service.profiles.profile import Policy, RestartLimits


class Answer(StrEnum):
    """What is done."""

    ALERT = "alert"
    """It is recorded, and an operator decides."""
    RESTART = "restart"
    STOP = "stop"
    BRAKE = "brake"
    """It would be restarted, but that has been tried enough."""


@dataclass(frozen=True, slots=True)
class Incident:
    """An earlier end of a launch of the same server that nobody asked for, or a hang that was acted on."""

    at: datetime
    code: str | None
    """What the diagnosis said."""
    served_s: float = 0.0
    """How long it had been ready before."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done, after which pause, and why."""

    answer: Answer
    delay_s: float
    why: str


def decide_policy(
    policy: Policy, limits: RestartLimits, incidents: Sequence[Incident], restarts: Sequence[datetime], now: datetime
) -> Decision:
    """Return what follows the newest of `incidents` (newest first); `restarts` are when a policy restarted before.

    A restart waits for the pause, doubled for each restart in the window. It is braked when the window has had its
    number of restarts, or when the last starts ended with the same diagnosis so many times: a third try of the same
    misspelt flag helps nobody. Where one served for longer than the window, the try before it did help.
    """
    if policy is not Policy.RESTART:
        return Decision(Answer(policy), 0.0, f"the profile's policy is {policy}")
    recent = [at for at in restarts if now - at <= timedelta(seconds=limits.window_s)]
    if len(recent) >= limits.max_restarts:
        return Decision(Answer.BRAKE, 0.0, f"{len(recent)} restarts within {limits.window_s} s are enough")
    same = _same_in_a_row(incidents, limits.window_s)
    if same >= limits.same_diagnosis:
        return Decision(Answer.BRAKE, 0.0, f"{incidents[0].code} came {same} times in a row: another try will not help")
    delay_s = float(limits.pause_s * 2 ** len(recent))
    return Decision(Answer.RESTART, delay_s, f"restart {len(recent) + 1} of {limits.max_restarts} within the window")


def _same_in_a_row(incidents: Sequence[Incident], window_s: float) -> int:
    if not incidents or incidents[0].code is None:
        return 0
    count = 0
    for incident in incidents:
        if incident.code != incidents[0].code:
            break
        count += 1
        if incident.served_s > window_s:
            break
    return count
