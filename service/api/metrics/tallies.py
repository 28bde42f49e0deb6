"""What is counted since the start of the service, by following the events: nothing that counts is left to callers."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import events as event_queries
from service.db import overview
from service.db.event_tables import Event
from service.nodes.contact import Contact
from service.servers.event import EventKind
from service.servers.operation import OperationKind, OperationState
from service.servers.states import LEGAL_MOVES, Reason, State

READ_AT_ONCE = 2000
READS_PER_SCRAPE = 5
"""So much is counted in one scrape; what is more waits for the next one."""
PROFILES_TOLD = 100
OTHER = "other"
"""The label of profiles beyond the first PROFILES_TOLD that started anything: histograms are a dozen series each."""
BUCKETS_S = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0)
_LIMITS = (*(str(end) for end in BUCKETS_S), "+Inf")
_NODE_REASONS = (Reason.CONTACT_MADE, Reason.CONTACT_LOST)
_POLICY_REASONS = (Reason.SUSPECTED_HUNG, Reason.RESTART_BRAKED)
_SERVER_REASONS = {reason for moves in LEGAL_MOVES.values() for reasons in moves.values() for reason in reasons}
_TRANSITIONS = (
    *(("server", reason) for reason in sorted(_SERVER_REASONS)),
    *(("node", reason) for reason in _NODE_REASONS),
    *(("policy", reason) for reason in _POLICY_REASONS),
    ("verdict", Reason.VERDICT_CHANGED),
)
"""Told from the start on as 0: Prometheus sees no increase in a series that begins with 1."""
_ENDS = tuple((kind, state) for kind in OperationKind for state in OperationState if state != OperationState.RUNNING)


@dataclass(slots=True)
class Histogram:
    """Durations in seconds, by bucket."""

    total_s: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.total_s += seconds
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1

    def cumulative(self) -> list[tuple[str, int]]:
        """Return how many took no longer than the end of each bucket."""
        return list(zip(_LIMITS, accumulate(self.counts), strict=True))


@dataclass(slots=True)
class Tallies:
    """The counts, and the last event that is in them. They begin at zero with the service, as Prometheus expects."""

    event_id: int
    events: Counter[EventKind] = field(default_factory=lambda: Counter(dict.fromkeys(EventKind, 0)))
    transitions: Counter[tuple[str, str]] = field(default_factory=lambda: Counter(dict.fromkeys(_TRANSITIONS, 0)))
    operations: Counter[tuple[str, str]] = field(default_factory=lambda: Counter(dict.fromkeys(_ENDS, 0)))
    phases: dict[tuple[str, str], Histogram] = field(default_factory=dict)
    starts: dict[tuple[str], Histogram] = field(default_factory=dict)
    _profiles: set[str] = field(default_factory=set)

    @classmethod
    async def begin(cls, session: AsyncSession) -> "Tallies":
        """Return tallies that begin after the newest event."""
        _, newest = await event_queries.id_range(session)
        return cls(newest)

    async def catch_up(self, session: AsyncSession) -> None:
        """Count what was told since the last time."""
        for _ in range(READS_PER_SCRAPE):
            rows = await event_queries.events_after(session, self.event_id, limit=READ_AT_ONCE)
            started = [row.launch_id for row in rows if row.launch_id is not None and _ends_start(row)]
            times = await overview.start_times(session, started) if started else []
            self._count(rows)
            for one in times:
                self._count_start(one)
            if len(rows) < READ_AT_ONCE:
                return

    def _count(self, rows: Sequence[Event]) -> None:
        for row in rows:
            self.event_id = row.id or self.event_id
            self.events[row.kind] += 1
            moved = _transition_of(row)
            if moved is not None:
                self.transitions[moved] += 1
            if row.kind is EventKind.OPERATION_ENDED:
                self.operations[row.document["operation"], row.document["state"]] += 1

    def _count_start(self, one: overview.StartTimes) -> None:
        if len(self._profiles) < PROFILES_TOLD:
            self._profiles.add(one.profile)
        profile = one.profile if one.profile in self._profiles else OTHER
        if one.total_s is not None:
            self.starts.setdefault((profile,), Histogram()).add(one.total_s)
        for phase, seconds in one.phases:
            self.phases.setdefault((profile, phase), Histogram()).add(seconds)


def _transition_of(row: Event) -> tuple[str, str] | None:
    """Return subject and reason of a transition, None for an event that tells another change."""
    match row.kind:
        case EventKind.SERVER_MOVED:
            return "server", row.document["reason"]
        case EventKind.POLICY_DECIDED:
            return "policy", row.document["reason"]
        case EventKind.VERDICT_CHANGED:
            return "verdict", Reason.VERDICT_CHANGED
        case EventKind.CONTACT_CHANGED:
            is_made = row.document["after"] == Contact.OK
            return "node", Reason.CONTACT_MADE if is_made else Reason.CONTACT_LOST
        case _:
            return None


def _ends_start(row: Event) -> bool:
    """Tell whether an event is the end of a start: only then the times of its phases are kept."""
    if row.kind is not EventKind.SERVER_MOVED or row.document["before"] != State.STARTING:
        return False
    return row.document["after"] in {State.READY, State.FAILED}
