"""The policy: which move follows from what one look at a launch saw."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from service.clock import to_text
from service.servers.observation import ListenerOwner, Observation, ProcessState
from service.servers.serving import ServingJudgement
from service.servers.states import Move, Reason, State
from service.sglang.exits import exit_meaning
from service.sglang.health import HealthAnswer

ABSENT_AFTER_S = 5
"""A launch directory is missed only in facts so much younger than the start: what the observer saw before it was made
may still be on its way."""
LOOK_S = 45
"""What became ready while nobody watched is seen within so long: its log is read anew, and its health asked for."""
_WATCHED_STATES = frozenset({State.STARTING, State.READY, State.UNREADY})


@dataclass(frozen=True, slots=True)
class Facts:
    """What is recorded of a server and its current launch."""

    state: State
    created_at: datetime
    """When the launch was asked for."""
    started_at: datetime | None
    """When the supervisor was known to have been started on the node."""
    is_log_quiet: bool
    """The log level hides the ready line, so it cannot be asked for."""
    start_limit_s: int | None
    serving: ServingJudgement | None = None
    """What is thought of a server that was ready; None when nothing proves anything."""
    watched_from: datetime | None = None
    """When the present watch began; None: it never lapsed."""


def decide(facts: Facts, observation: Observation, now: datetime) -> Move | None:
    """Return the move that follows, or None: leave it be. The first rule that answers wins.

    A server that is stopped, stopping or failed is moved by operations only.
    """
    if facts.state not in _WATCHED_STATES:
        return None
    for rule in RULES:
        move = rule(facts, observation, now)
        if move is not None:
            return move
    return None


def _rebooted(_facts: Facts, observation: Observation, _now: datetime) -> Move | None:
    if observation.process.state is not ProcessState.REBOOTED:
        return None
    return _failed(Reason.NODE_REBOOTED, "the node was rebooted", observation)


def _exited(facts: Facts, observation: Observation, _now: datetime) -> Move | None:
    process = observation.process
    if process.state is not ProcessState.EXITED:
        return None
    phase = observation.log.phase
    where = f" in phase {phase}" if facts.state is State.STARTING and phase else ""
    return _failed(
        Reason.PROCESS_EXITED,
        f"the process ended{where} with exit code {process.exit_code}: {exit_meaning(process.exit_code)}",
        observation,
    )


def _lost(facts: Facts, observation: Observation, _now: datetime) -> Move | None:
    state = observation.process.state
    if state is ProcessState.LOST:
        return _failed(Reason.PROCESS_LOST, "the process is gone and left no exit code", observation)
    if state is ProcessState.ABSENT and _is_seen_after_start(facts, observation):
        return _failed(Reason.PROCESS_LOST, "the launch directory is gone from the node", observation)
    return None


def _ready(facts: Facts, observation: Observation, _now: datetime) -> Move | None:
    """Three things at once: the log says so, this launch's process listens, and /health answered 200."""
    if facts.state is not State.STARTING or not _answers(observation):
        return None
    if not observation.log.is_ready and not facts.is_log_quiet:
        return None
    message = "the log says so, this launch's process listens, and /health answered 200"
    if facts.is_log_quiet and not observation.log.is_ready:
        message = "this launch's process listens and /health answered 200; its log level hides the ready line"
    return Move(State.READY, Reason.BECAME_READY, message, _evidence(observation))


def _start_timed_out(facts: Facts, observation: Observation, now: datetime) -> Move | None:
    """End a start by its limit; after a gap in the watch only when a good look has not found it ready."""
    if facts.state is not State.STARTING or facts.start_limit_s is None:
        return None
    ends_at = facts.created_at + timedelta(seconds=facts.start_limit_s)
    if facts.watched_from is not None:
        ends_at = max(ends_at, facts.watched_from + timedelta(seconds=min(LOOK_S, facts.start_limit_s)))
    if now < ends_at:
        return None
    return _failed(
        Reason.START_TIMED_OUT, f"not ready within the profile's limit of {facts.start_limit_s} s", observation
    )


def _listener_lost(facts: Facts, observation: Observation, _now: datetime) -> Move | None:
    if facts.state is not State.READY or observation.listener.owner is ListenerOwner.OURS:
        return None
    if observation.listener.owner is ListenerOwner.OTHER:
        who = f"process {observation.listener.pid}" if observation.listener.pid else "another process"
        return Move(
            State.UNREADY, Reason.LISTENER_LOST, f"{who} listens on the port, not this launch", _evidence(observation)
        )
    return Move(
        State.UNREADY, Reason.LISTENER_LOST, "the process lives but nothing listens on its port", _evidence(observation)
    )


def _engine_silent(facts: Facts, observation: Observation, _now: datetime) -> Move | None:
    """Judge by more than /health: one long prefill gives a false 503 while the counters move."""
    if facts.state is not State.READY or facts.serving is None or not facts.serving.is_failure:
        return None
    return Move(State.UNREADY, Reason.HEALTH_FAILING, facts.serving.message, _evidence(observation))


def _recovered(facts: Facts, observation: Observation, _now: datetime) -> Move | None:
    if facts.state is not State.UNREADY or not _answers(observation):
        return None
    return Move(State.READY, Reason.HEALTH_RECOVERED, "/health answers 200 again", _evidence(observation))


RULES: tuple[Callable[[Facts, Observation, datetime], Move | None], ...] = (
    _rebooted,
    _exited,
    _lost,
    _ready,
    _start_timed_out,
    _listener_lost,
    _engine_silent,
    _recovered,
)
"""The order is the specification: the end of a process outweighs whatever it said before."""


def _is_seen_after_start(facts: Facts, observation: Observation) -> bool:
    return facts.started_at is not None and observation.at - facts.started_at >= timedelta(seconds=ABSENT_AFTER_S)


def _answers(observation: Observation) -> bool:
    return observation.listener.owner is ListenerOwner.OURS and observation.health.answer is HealthAnswer.OK


def _failed(reason: Reason, message: str, observation: Observation) -> Move:
    return Move(State.FAILED, reason, message, _evidence(observation))


def _evidence(observation: Observation) -> dict[str, object]:
    """Return the facts that a transition keeps, as plain JSON values."""
    process, listener, health, log = observation.process, observation.listener, observation.health, observation.log
    return {
        "observed_at": to_text(observation.at),
        "process": {"state": process.state, "pid": process.pid, "exit_code": process.exit_code},
        "listener": {"owner": listener.owner, "pid": listener.pid},
        "health": {
            "answer": health.answer,
            "status_code": health.status_code,
            "answered_at": to_text(health.answered_at) if health.answered_at else None,
        },
        "log": {"phase": log.phase, "is_ready": log.is_ready, "lines": log.line_count},
    }
