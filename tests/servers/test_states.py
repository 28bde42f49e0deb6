"""The table of legal moves, and that nothing leaves it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import IllegalMove
from service.servers.states import LEGAL_MOVES, Move, Reason, State, apply

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def test_a_launch_goes_from_stopped_to_ready_and_back() -> None:
    state = State.STOPPED
    for after, reason in (
        (State.STARTING, Reason.LAUNCH_REQUESTED),
        (State.READY, Reason.BECAME_READY),
        (State.UNREADY, Reason.HEALTH_FAILING),
        (State.READY, Reason.HEALTH_RECOVERED),
        (State.STOPPING, Reason.STOP_REQUESTED),
        (State.STOPPED, Reason.STOP_VERIFIED),
    ):
        change = apply(state, Move(after, reason, "because"), NOW)
        assert (change.before, change.after, change.at) == (state, after, NOW)
        state = change.after
    assert state is State.STOPPED


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (State.STOPPED, State.READY, Reason.BECAME_READY),
        (State.STOPPED, State.STOPPING, Reason.STOP_REQUESTED),
        (State.STARTING, State.STOPPED, Reason.STOP_VERIFIED),
        (State.FAILED, State.READY, Reason.HEALTH_RECOVERED),
        (State.STOPPING, State.STARTING, Reason.LAUNCH_REQUESTED),
        (State.READY, State.FAILED, Reason.HEALTH_FAILING),
    ],
)
def test_an_illegal_move_is_refused(before: State, after: State, reason: Reason) -> None:
    with pytest.raises(IllegalMove):
        apply(before, Move(after, reason, "because"), NOW)


@given(st.sampled_from(State), st.lists(st.tuples(st.sampled_from(State), st.sampled_from(Reason)), max_size=40))
def test_no_sequence_of_moves_leaves_the_table(state: State, wanted: list[tuple[State, Reason]]) -> None:
    for after, reason in wanted:
        try:
            change = apply(state, Move(after, reason, "because"), NOW)
        except IllegalMove:
            assert reason not in LEGAL_MOVES[state].get(after, frozenset())
        else:
            assert reason in LEGAL_MOVES[state][after]
            state = change.after


def test_only_proof_leads_to_stopped() -> None:
    ways = {(before, reason) for before, moves in LEGAL_MOVES.items() for reason in moves.get(State.STOPPED, ())}
    assert ways == {(State.STOPPING, Reason.STOP_VERIFIED)}
