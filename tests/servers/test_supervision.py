"""The policy by tables and properties: which move follows from what was seen."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.servers.observation import (
    EffortFact,
    HealthFact,
    ListenerFact,
    ListenerOwner,
    Observation,
    ProcessFact,
    ProcessState,
)
from service.servers.serving import ServingJudgement, ServingVerdict
from service.servers.states import LEGAL_MOVES, Reason, State
from service.servers.supervision import Facts, decide
from service.sglang.health import HealthAnswer
from service.sglang.phases import Phase
from service.sglang.startup_log import StartupLog

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
STARTING = Facts(
    State.STARTING,
    NOW - timedelta(minutes=5),
    started_at=NOW - timedelta(minutes=5),
    is_log_quiet=False,
    start_limit_s=None,
)
READY = replace(STARTING, state=State.READY)
UNREADY = replace(STARTING, state=State.UNREADY)
READY_LOG = StartupLog().feed(b"[2026-11-29 11:59:00] The server is fired up and ready to roll!\n", NOW).reading
LOADING_LOG = StartupLog().feed(b"[2026-11-29 11:59:00] Load weight begin. avail mem=78.58 GB\n", NOW).reading


def seen(
    process: ProcessState = ProcessState.RUNNING,
    listener: ListenerOwner = ListenerOwner.OURS,
    health: HealthAnswer = HealthAnswer.OK,
    *,
    failures: int = 0,
    exit_code: int | None = None,
    is_ready: bool = True,
) -> Observation:
    return Observation(
        at=NOW,
        process=ProcessFact(process, pid=4711, exit_code=exit_code, member_count=3),
        listener=ListenerFact(listener, pid=4711),
        effort=EffortFact(),
        health=HealthFact(health, NOW, NOW, 200 if health is HealthAnswer.OK else None, failures),
        log=READY_LOG if is_ready else LOADING_LOG,
    )


def test_ready_needs_log_listener_and_health_at_once() -> None:
    move = decide(STARTING, seen(), NOW)
    assert move is not None
    assert (move.after, move.reason) == (State.READY, Reason.BECAME_READY)
    assert move.evidence["listener"] == {"owner": ListenerOwner.OURS, "pid": 4711}


@pytest.mark.parametrize(
    "observation",
    [
        seen(is_ready=False),
        seen(listener=ListenerOwner.OTHER),
        seen(listener=ListenerOwner.NONE),
        seen(health=HealthAnswer.UNAVAILABLE),
        seen(health=HealthAnswer.UNASKED),
        seen(health=HealthAnswer.TIMED_OUT, failures=100),
        seen(ProcessState.PENDING, ListenerOwner.NONE, HealthAnswer.REFUSED, is_ready=False),
    ],
)
def test_two_of_three_are_not_ready_and_not_failed_either(observation: Observation) -> None:
    assert decide(STARTING, observation, NOW) is None


def test_a_quiet_log_needs_no_ready_line_and_says_so() -> None:
    quiet = replace(STARTING, is_log_quiet=True)
    move = decide(quiet, seen(is_ready=False), NOW)
    assert move is not None
    assert move.after is State.READY
    assert "log level hides" in move.message


@pytest.mark.parametrize("facts", [STARTING, READY, UNREADY])
@pytest.mark.parametrize(
    ("process", "reason"),
    [
        (ProcessState.EXITED, Reason.PROCESS_EXITED),
        (ProcessState.LOST, Reason.PROCESS_LOST),
        (ProcessState.ABSENT, Reason.PROCESS_LOST),
        (ProcessState.REBOOTED, Reason.NODE_REBOOTED),
    ],
)
def test_the_end_of_the_process_outweighs_health(facts: Facts, process: ProcessState, reason: Reason) -> None:
    move = decide(facts, seen(process, exit_code=137), NOW)
    assert move is not None
    assert (move.after, move.reason) == (State.FAILED, reason)


def test_an_exit_names_phase_code_and_meaning() -> None:
    move = decide(STARTING, seen(ProcessState.EXITED, ListenerOwner.NONE, exit_code=2, is_ready=False), NOW)
    assert move is not None
    assert f"in phase {Phase.LOADING_WEIGHTS}" in move.message
    assert "exit code 2: its arguments were refused" in move.message


def test_no_directory_before_the_start_is_no_failure() -> None:
    waiting = replace(STARTING, started_at=None)
    assert (
        decide(waiting, seen(ProcessState.ABSENT, ListenerOwner.NONE, HealthAnswer.UNASKED, is_ready=False), NOW)
        is None
    )


def test_what_was_seen_before_the_directory_was_made_is_no_loss() -> None:
    """The service knows of the start before the observer's next look has come in."""
    absent = seen(ProcessState.ABSENT, ListenerOwner.NONE, HealthAnswer.UNASKED, is_ready=False)
    just_started = replace(STARTING, started_at=NOW - timedelta(seconds=1))
    assert decide(just_started, absent, NOW) is None
    move = decide(just_started, replace(absent, at=NOW + timedelta(seconds=5)), NOW + timedelta(seconds=5))
    assert move is not None
    assert move.reason is Reason.PROCESS_LOST


def test_a_silent_engine_is_unready_and_a_busy_one_is_not() -> None:
    failing = seen(health=HealthAnswer.UNAVAILABLE, failures=2)
    busy = ServingJudgement(ServingVerdict.BUSY, "its counters move")
    assert decide(replace(READY, serving=busy), failing, NOW) is None
    assert decide(READY, failing, NOW) is None
    silent = ServingJudgement(ServingVerdict.ENGINE_SILENT, "nothing has moved for 40 s")
    move = decide(replace(READY, serving=silent), failing, NOW)
    assert move is not None
    assert (move.after, move.reason, move.message) == (State.UNREADY, Reason.HEALTH_FAILING, silent.message)


@pytest.mark.parametrize("owner", [ListenerOwner.NONE, ListenerOwner.OTHER])
def test_a_ready_server_whose_listener_is_not_its_own_is_unready(owner: ListenerOwner) -> None:
    move = decide(READY, seen(listener=owner), NOW)
    assert move is not None
    assert (move.after, move.reason) == (State.UNREADY, Reason.LISTENER_LOST)


def test_a_start_without_a_limit_is_never_timed_out() -> None:
    loading = seen(listener=ListenerOwner.NONE, health=HealthAnswer.REFUSED, is_ready=False)
    assert decide(STARTING, loading, NOW + timedelta(days=2)) is None
    limited = replace(STARTING, start_limit_s=600)
    assert decide(limited, loading, NOW) is None
    move = decide(limited, loading, NOW + timedelta(seconds=301))
    assert move is not None
    assert move.reason is Reason.START_TIMED_OUT


observations = st.builds(
    seen,
    st.sampled_from(ProcessState),
    st.sampled_from(ListenerOwner),
    st.sampled_from(HealthAnswer),
    failures=st.integers(0, 5),
    exit_code=st.sampled_from([None, 0, 1, 2, 137]),
    is_ready=st.booleans(),
)
facts_of_any_state = st.builds(
    Facts,
    st.sampled_from(State),
    st.just(NOW),
    st.sampled_from([None, NOW, NOW - timedelta(minutes=5)]),
    st.booleans(),
    st.sampled_from([None, 600]),
)


@given(facts_of_any_state, observations)
def test_every_move_is_in_the_table(facts: Facts, observation: Observation) -> None:
    move = decide(facts, observation, NOW)
    if move is not None:
        assert move.reason in LEGAL_MOVES[facts.state][move.after]


@given(observations.filter(lambda item: item.health.answer is not HealthAnswer.OK))
def test_an_unready_server_never_heals_on_a_failing_answer(observation: Observation) -> None:
    move = decide(UNREADY, observation, NOW)
    assert move is None or move.after is State.FAILED


@given(st.sampled_from([State.STOPPED, State.STOPPING, State.FAILED]), observations)
def test_only_operations_move_what_is_stopped_stopping_or_failed(state: State, observation: Observation) -> None:
    assert decide(replace(STARTING, state=state), observation, NOW) is None
