"""How long the phases of a start usually take, and how long one may be still, when no earlier start tells.

Measured: the time stamps and progress bars of 70 public logs of starts and of our own of three versions (tiny models to
142 shards, one GPU to sixteen ranks). They give `p50_s` and `p90_s`, rounded up, and the longest pauses of bars: 40 s
between shards, 149 s before the first; 50 s between graphs, 142 s before the first. Where the engine has a limit of its
own, a shorter one would only accuse starts that the engine still lets go on (facts: SGLang §3.5, §4, §9).

Judged by these numbers with nothing but the log as evidence, two of 82 public logs are called hung, and both were: a
rendezvous that failed after 1,811 s, a read from storage that failed after 2,283 s.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from service.sglang.phases import Phase

WARM_UP_MARGIN_S = 60.0
"""Added to the engine's own limit on its warm-up request: it ends the process itself, and takes a while for it."""


@dataclass(frozen=True, slots=True)
class PhaseDefault:
    """One phase: its usual duration, and the deadline for a sign of progress with its floor and hard cap.

    `first_unit_hang_s` counts until the first shard, graph or kernel is done: it pays for what all of them share.
    """

    p50_s: float
    p90_s: float
    hang_s: float
    floor_s: float
    cap_s: float
    why: str
    first_unit_hang_s: float | None = None


PHASE_DEFAULTS: Mapping[Phase, PhaseDefault] = {
    Phase.PARSING_ARGUMENTS: PhaseDefault(10, 60, 600, 300, 1_800, "Python imports, perhaps from a cold network disk"),
    Phase.RESOLVING_CONFIG: PhaseDefault(
        2, 15, 600, 300, 1_800, "measured 1 to 12 s; a hub that is away takes minutes"
    ),
    Phase.SPAWNING: PhaseDefault(12, 40, 600, 300, 1_800, "measured 10 to 35 s; every rank imports everything anew"),
    Phase.DISTRIBUTED_INIT: PhaseDefault(
        2, 30, 660, 300, 1_860, "measured 1 to 15 s; ranks give up on each other after 600 or 1,800 s by themselves"
    ),
    Phase.LOADING_WEIGHTS: PhaseDefault(
        60, 600, 900, 600, 3_600, "measured 4 to 887 s; ranks wait 480 s for the last one by themselves"
    ),
    Phase.LOADING_DRAFT_WEIGHTS: PhaseDefault(5, 180, 900, 600, 3_600, "measured 2 to 183 s; as for the target"),
    Phase.ALLOCATING_KV_CACHE: PhaseDefault(
        1, 60, 600, 300, 1_800, "measured 0 to 115 s; kernels may be compiled after its last line"
    ),
    Phase.COMPILING_KERNELS: PhaseDefault(
        120, 1_200, 1_800, 900, 3_600, "the engine announces 10 to 20 minutes", first_unit_hang_s=1_800
    ),
    Phase.CAPTURING_GRAPHS: PhaseDefault(
        10, 240, 300, 180, 900, "measured 8 to 385 s; at most 50 s a graph after the first", first_unit_hang_s=900
    ),
    Phase.BINDING_HTTP: PhaseDefault(1, 10, 300, 120, 600, "measured below 1 s"),
    Phase.WARMING_UP: PhaseDefault(
        3, 60, 660, 660, 1_860, "measured 2 to 147 s; the engine ends its warm-up itself after 600 s"
    ),
    Phase.SERVING: PhaseDefault(1, 5, 120, 60, 300, "the ready line comes a second before /health answers 200"),
}
"""One row a phase. `why` names the measurement, or the engine's own limit, that the numbers rest on."""

OPEN_ENDED_PHASES = frozenset(
    {
        Phase.PARSING_ARGUMENTS,
        Phase.RESOLVING_CONFIG,
        Phase.SPAWNING,
        Phase.LOADING_WEIGHTS,
        Phase.LOADING_DRAFT_WEIGHTS,
    }
)
"""Phases in which a model of unknown size may be fetched from a hub, of which only log lines and memory tell."""

AFTER_BIND_PHASES = frozenset({Phase.BINDING_HTTP, Phase.WARMING_UP, Phase.SERVING})
"""Phases in which the HTTP front logs a line for each request, ours for /health included."""
