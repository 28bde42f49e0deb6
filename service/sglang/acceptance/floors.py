"""How long an acceptance should be at least: the profile's own number, else a hint by algorithm and steps.

The hints are a judgement from numbers that were published, not a measurement (facts: drafts §6.3): below them a draft
is suspicious. They lie above 1.02 because a draft can be wrong and still be right now and then: one with a norm flag
that the engine does not know reads about 1.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.sglang.acceptance.decode_lines import DECODE_LOG_INTERVAL

_HINTS: Mapping[str, tuple[tuple[int, float], ...]] = {
    "EAGLE3": ((3, 1.7), (5, 1.8)),
    "MTP": ((1, 1.5), (3, 1.8)),
    "EAGLE": ((3, 1.5),),
    "STANDALONE": ((1, 1.1),),
}
"""By algorithm: (from so many speculative steps on, suspicious below). More steps never make an acceptance shorter."""
_MTP_NAMES = frozenset({"NEXTN", "FROZEN_KV_MTP"})
_SIMULATED = "SGLANG_SIMULATE_ACC_LEN"
"""Makes the engine invent its acceptance, for benchmarks."""


class FloorSource(StrEnum):
    """Whose number a floor is."""

    PROFILE = "profile"
    HINT = "hint"
    """Vigil's own, from published numbers: a hint, not a measurement of this model and workload."""


@dataclass(frozen=True, slots=True)
class Floor:
    """An accept length below which speculation is called poor; `why` says whose number that is."""

    accept_length: float
    source: FloorSource
    why: str


@dataclass(frozen=True, slots=True)
class Terms:
    """What a launch's speculation is judged by. `algorithm` is None where its arguments name none."""

    algorithm: str | None = None
    floor: Floor | None = None
    is_simulated: bool = False
    decode_log_interval: int = DECODE_LOG_INTERVAL
    """How many decode iterations a line of its log tells of."""


def terms_of(
    server_args: Mapping[str, object], env: Mapping[str, str], *, model_path: str, own_floor: float | None
) -> Terms:
    """Return the terms of a recipe; `own_floor` is the one of its profile."""
    named = server_args.get("speculative-algorithm")
    algorithm = str(named).upper() if named else None
    draft = server_args.get("speculative-draft-model-path")
    is_mtp = algorithm in _MTP_NAMES or (algorithm == "EAGLE" and draft in {None, model_path})
    floor = _hint("MTP" if is_mtp else algorithm, _whole(server_args, "speculative-num-steps"))
    if own_floor is not None:
        floor = Floor(own_floor, FloorSource.PROFILE, f"the profile wants at least {own_floor:.2f}")
    interval = _whole(server_args, "decode-log-interval") or DECODE_LOG_INTERVAL
    return Terms(algorithm, floor, _is_simulated(env), interval)


def _hint(kind: str | None, steps: int | None) -> Floor | None:
    """Return the hint of the most steps that are not more than these; without a number of steps that of the fewest."""
    rows = [row for row in _HINTS.get(kind or "", ()) if steps is None or row[0] <= steps]
    if not rows:
        return None
    _, length = rows[0] if steps is None else rows[-1]
    said = f"{kind} with {steps} steps" if steps is not None else str(kind)
    why = (
        f"a hint, not a measurement: {said} usually reaches {length:.2f} in published numbers; "
        "limits.min_accept_length in the profile sets your own"
    )
    return Floor(length, FloorSource.HINT, why)


def _whole(server_args: Mapping[str, object], name: str) -> int | None:
    given = server_args.get(name)
    try:
        return int(str(given)) if given is not None else None
    except ValueError:
        return None


def _is_simulated(env: Mapping[str, str]) -> bool:
    try:
        return float(env.get(_SIMULATED, "0")) > 0
    except ValueError:
        return False
