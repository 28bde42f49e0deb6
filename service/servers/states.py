"""The states of a server, the moves that are legal, and what a move leaves behind."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from service.errors import IllegalMove


class State(StrEnum):
    """What a server is, derived from facts at the last look."""

    STOPPED = "stopped"
    """No process, no listener, no GPU memory held, nothing left in /dev/shm: proven."""
    STARTING = "starting"
    READY = "ready"
    """This launch's process owns the listener, its log says so, and /health answered 200."""
    UNREADY = "unready"
    """It was ready, its process lives, and it does not answer."""
    STOPPING = "stopping"
    FAILED = "failed"
    """The launch ended without being asked to, or could not be ended; the reason says which."""


class Desired(StrEnum):
    """What the operator last asked for."""

    RUNNING = "running"
    STOPPED = "stopped"


class Reason(StrEnum):
    """Why a server or a node changed; the set is closed."""

    LAUNCH_REQUESTED = "launch_requested"
    ADOPTED = "adopted"
    """An engine that somebody else started was taken over."""
    START_FAILED = "start_failed"
    START_TIMED_OUT = "start_timed_out"
    BECAME_READY = "became_ready"
    HEALTH_FAILING = "health_failing"
    LISTENER_LOST = "listener_lost"
    HEALTH_RECOVERED = "health_recovered"
    PROCESS_EXITED = "process_exited"
    PROCESS_LOST = "process_lost"
    NODE_REBOOTED = "node_rebooted"
    STOP_REQUESTED = "stop_requested"
    STOP_VERIFIED = "stop_verified"
    STOP_INCOMPLETE = "stop_incomplete"
    SUSPECTED_HUNG = "suspected_hung"
    """A policy acts on a start without progress."""
    VERDICT_CHANGED = "verdict_changed"
    """The state stays; what is thought of it has changed."""
    RESTART_BRAKED = "restart_braked"
    """A policy would restart, but that has been tried enough."""
    CONTACT_MADE = "contact_made"
    CONTACT_LOST = "contact_lost"


LEGAL_MOVES: Mapping[State, Mapping[State, frozenset[Reason]]] = {
    State.STOPPED: {State.STARTING: frozenset({Reason.LAUNCH_REQUESTED, Reason.ADOPTED})},
    State.STARTING: {
        State.READY: frozenset({Reason.BECAME_READY}),
        State.STOPPING: frozenset({Reason.STOP_REQUESTED}),
        State.FAILED: frozenset(
            {
                Reason.START_FAILED,
                Reason.START_TIMED_OUT,
                Reason.PROCESS_EXITED,
                Reason.PROCESS_LOST,
                Reason.NODE_REBOOTED,
            }
        ),
    },
    State.READY: {
        State.UNREADY: frozenset({Reason.HEALTH_FAILING, Reason.LISTENER_LOST}),
        State.STOPPING: frozenset({Reason.STOP_REQUESTED}),
        State.FAILED: frozenset({Reason.PROCESS_EXITED, Reason.PROCESS_LOST, Reason.NODE_REBOOTED}),
    },
    State.UNREADY: {
        State.READY: frozenset({Reason.HEALTH_RECOVERED}),
        State.STOPPING: frozenset({Reason.STOP_REQUESTED}),
        State.FAILED: frozenset({Reason.PROCESS_EXITED, Reason.PROCESS_LOST, Reason.NODE_REBOOTED}),
    },
    State.STOPPING: {
        State.STOPPED: frozenset({Reason.STOP_VERIFIED}),
        State.FAILED: frozenset({Reason.STOP_INCOMPLETE}),
    },
    State.FAILED: {
        State.STARTING: frozenset({Reason.LAUNCH_REQUESTED}),
        State.STOPPING: frozenset({Reason.STOP_REQUESTED}),
    },
}
"""Before → after → the reasons that may say why. Everything else is refused."""

RUNNING_STATES = frozenset({State.STARTING, State.READY, State.UNREADY, State.STOPPING})
"""States in which a process of the current launch may be alive and is watched."""

SERVING_STATES = frozenset({State.READY, State.UNREADY})
"""States of a server that has been ready: what it complains of then are findings."""


@dataclass(frozen=True, slots=True)
class Move:
    """A change that somebody wants: to which state, why, and on what evidence."""

    after: State
    reason: Reason
    message: str
    evidence: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """A legal move from a known state at an instant: what a transition row records."""

    before: State
    after: State
    reason: Reason
    message: str
    evidence: Mapping[str, object]
    at: datetime


def apply(state: State, move: Move, now: datetime) -> Change:
    """Return the change that `move` makes of `state`; IllegalMove if the table has no such move."""
    if move.reason not in LEGAL_MOVES[state].get(move.after, frozenset()):
        raise IllegalMove(f"a server that is {state} cannot become {move.after} because of {move.reason}")
    return Change(state, move.after, move.reason, move.message, move.evidence, now)
