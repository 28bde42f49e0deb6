"""The verdict on a server that has been ready: from /health, and from whether the engine's counters move.

The engine answers /health with 503 when no token came out for 20 s, which one long prefill can do to a server in the
best of health; and with its scheduler stopped /metrics goes on answering 200 with frozen numbers (seen on a real
0.5.23; facts: SGLang §3.4). So neither proves anything alone: a server is silent when its health fails again and again
*and* nothing moves that only a living scheduler can move.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from service.servers.observation import HealthFact
from service.sglang.health import HealthAnswer
from service.sglang.metrics import EngineCounters

SILENT_AFTER_FAILURES = 2
"""Each failure is at least 20 s without a token: one is a long prefill, two without any counter moving are not."""
HEALTH_DEADLINE_S = 25.0
"""How long an answer of /health is waited for, if nothing else is said: longer than the engine's own 20 s."""
FLOW_MARGIN_S = 10.0
"""A move of the counters this much longer ago than an answer of /health takes still proves that the engine works: two
failures in a row with nothing moving take longer."""
LAST_SCRAPE_S = 10.0
"""How old the last scrape may be to speak for the present."""
STUCK_AFTER_S = 120.0
"""Without /health to ask, requests that run while nothing moves for so long are stuck: the gauges of the slowest engine
move every 40 tokens."""
HEALTH_AT_LEAST_EVERY_S = 60.0
"""/health is asked this often though tokens move: only it proves that answers also leave the engine."""


class ServingVerdict(StrEnum):
    """What a server that has been ready is doing."""

    HEALTHY = "healthy"
    BUSY = "busy"
    """It gives /health no answer in time, but tokens move, or may: one failure is not enough to say."""
    ENGINE_SILENT = "engine_silent"
    """Its HTTP front may answer, but nothing moves behind it."""
    DRAINING = "draining"
    """Somebody asked it to stop; it finishes what it has, and says 503."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What two scrapes and more say: `moved_at` is when work was last seen to have been done between two of them.

    `tokens_moved_at`: the same for counted tokens alone. `known_since`: the first scrape of an unbroken row.
    `logged_at`: when the log last told of a batch, for servers without numbers. `fresh_s`: for how long a move proves
    something.
    """

    counters: EngineCounters | None = None
    at: datetime | None = None
    known_since: datetime | None = None
    moved_at: datetime | None = None
    tokens_moved_at: datetime | None = None
    logged_at: datetime | None = None
    fresh_s: float = HEALTH_DEADLINE_S + FLOW_MARGIN_S

    def fold(self, counters: EngineCounters | None, at: datetime) -> "Flow":
        """Fold one scrape in; None is a scrape that failed, which leaves what was known, older."""
        if counters is None or (self.at is not None and at < self.at):
            return self
        if self.counters is None:
            return replace(self, counters=counters, at=at, known_since=at)
        has_moved = counters.activity != self.counters.activity
        has_tokens = counters.tokens != self.counters.tokens
        return replace(
            self,
            counters=counters,
            at=at,
            moved_at=at if has_moved else self.moved_at,
            tokens_moved_at=at if has_tokens else self.tokens_moved_at,
        )

    def still_s(self, now: datetime) -> float | None:
        """Return for how long the counters have stood still; None when the last scrape is too old to say."""
        since = self.moved_at or self.known_since
        if since is None or self.at is None or not self._is_fresh(self.at, now):
            return None
        return (self.at - since).total_seconds()

    def has_moved_lately(self, now: datetime) -> bool:
        """Return whether a move was seen that still proves that the engine works."""
        return self._is_fresh(self.moved_at, now)

    def has_logged_lately(self, now: datetime) -> bool:
        """Return whether the log told of a batch that still proves that the engine works."""
        return self._is_fresh(self.logged_at, now)

    def _is_fresh(self, at: datetime | None, now: datetime) -> bool:
        return at is not None and (now - at).total_seconds() <= self.fresh_s


@dataclass(frozen=True, slots=True)
class ServingJudgement:
    """A verdict with its reason. `is_failure`: the server should count as unready; only a silent engine does."""

    verdict: ServingVerdict
    message: str
    silent_since: datetime | None = None
    """Since when nothing is known to have moved, for a silent engine."""

    @property
    def is_failure(self) -> bool:
        """Return whether it is unready."""
        return self.verdict is ServingVerdict.ENGINE_SILENT


def judge_serving(
    health: HealthFact, flow: Flow, now: datetime, *, is_stopping: bool = False, node_rank: int = 0
) -> ServingJudgement | None:
    """Return the verdict; None when nothing proves anything.

    `is_stopping`: the log says that it was asked to stop. On node ranks above 0 /health is a dummy that always answers
    200, so only counters count there.
    """
    if is_stopping:
        return ServingJudgement(ServingVerdict.DRAINING, "it was asked to stop and finishes what it has")
    if node_rank > 0:
        return _by_counters(flow, now)
    if health.answer is HealthAnswer.UNASKED:
        return _by_counters(flow, now)
    if health.answer is HealthAnswer.OK:
        return ServingJudgement(ServingVerdict.HEALTHY, "/health answers 200")
    return _failing(health, flow, now)


def health_is_needed(health: HealthFact, flow: Flow, now: datetime, *, is_ready: bool = True) -> bool:
    """Return whether /health must be asked now: not while the last two scrapes prove that tokens move.

    It is asked all the same when its last answer was not 200, when it was not asked for HEALTH_AT_LEAST_EVERY_S, and
    always while the server is not ready.
    """
    if not is_ready or health.answer is not HealthAnswer.OK or health.answered_at is None:
        return True
    if (now - health.answered_at).total_seconds() >= HEALTH_AT_LEAST_EVERY_S:
        return True
    if flow.at is None or (now - flow.at).total_seconds() > LAST_SCRAPE_S:
        return True
    return flow.tokens_moved_at != flow.at


def _failing(health: HealthFact, flow: Flow, now: datetime) -> ServingJudgement:
    said = f"HTTP {health.status_code}" if health.status_code is not None else str(health.answer)
    failed = f"/health failed {health.failures_in_a_row} times in a row, last {said}"
    if flow.has_moved_lately(now):
        return ServingJudgement(ServingVerdict.BUSY, f"{failed}, but the engine's counters move: it works")
    if flow.has_logged_lately(now):
        return ServingJudgement(ServingVerdict.BUSY, f"{failed}, but the engine logs its batches: it works")
    if health.failures_in_a_row < SILENT_AFTER_FAILURES:
        return ServingJudgement(ServingVerdict.BUSY, f"{failed}: one long prefill can do that")
    still_s = flow.still_s(now)
    if still_s is None:
        return ServingJudgement(ServingVerdict.ENGINE_SILENT, f"{failed}; its counters cannot be read")
    since = flow.moved_at or flow.known_since
    return ServingJudgement(
        ServingVerdict.ENGINE_SILENT, f"{failed}, and its counters have not moved for {still_s:.0f} s", since
    )


def _by_counters(flow: Flow, now: datetime) -> ServingJudgement | None:
    """Return what the counters prove without /health: that it works, or that requests run and nothing moves."""
    if flow.has_moved_lately(now):
        return ServingJudgement(ServingVerdict.HEALTHY, "the engine's counters move")
    running, still_s = flow.counters.running_requests if flow.counters else None, flow.still_s(now)
    if not running or still_s is None or still_s < STUCK_AFTER_S:
        return None
    return ServingJudgement(
        ServingVerdict.ENGINE_SILENT,
        f"{running:.0f} requests run and the engine's counters have not moved for {still_s:.0f} s",
        flow.moved_at or flow.known_since,
    )
