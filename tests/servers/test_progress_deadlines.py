"""Deadlines: learned, bounded, and with a reason that can be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.servers.progress import DeadlineSource, Expected, History, PhaseSample, expected_from
from service.sglang.phase_defaults import PHASE_DEFAULTS
from service.sglang.phases import Phase

CAPTURE = PHASE_DEFAULTS[Phase.CAPTURING_GRAPHS]


def stays(*seconds: float, phase: Phase = Phase.CAPTURING_GRAPHS) -> tuple[PhaseSample, ...]:
    return tuple(PhaseSample(f"ln_{index}", phase, duration_s) for index, duration_s in enumerate(seconds))


def capture(expected: Expected) -> tuple[float, DeadlineSource]:
    expectation = expected.of(Phase.CAPTURING_GRAPHS)
    return expectation.deadline_s, expectation.deadline_source


def test_the_table_covers_every_phase_and_is_in_order() -> None:
    assert set(PHASE_DEFAULTS) == set(Phase)
    for row in PHASE_DEFAULTS.values():
        assert row.p50_s <= row.p90_s <= row.cap_s
        assert row.floor_s <= row.hang_s <= (row.first_unit_hang_s or row.hang_s) <= row.cap_s
        assert row.why


def test_without_history_the_table_tells() -> None:
    expected = expected_from(History())
    assert capture(expected) == (CAPTURE.hang_s, DeadlineSource.SHIPPED)
    expectation = expected.of(Phase.CAPTURING_GRAPHS)
    assert (expectation.p50_s, expectation.p90_s, expectation.sample_count) == (CAPTURE.p50_s, CAPTURE.p90_s, 0)
    assert "no earlier start" in expectation.deadline_why
    assert expected.of(None) == expected.of(Phase.PARSING_ARGUMENTS)


def test_the_nearest_history_counts_first() -> None:
    near, far = stays(120, 130, 140), stays(400, 400, 400)
    assert capture(expected_from(History(near, far))) == (280, DeadlineSource.PROFILE_ON_NODE)
    assert capture(expected_from(History((), far))) == (800, DeadlineSource.MODEL_ON_GPU_TYPE)
    assert capture(expected_from(History(stays(400), stays(120, 130, 140)))) == (280, DeadlineSource.MODEL_ON_GPU_TYPE)


def test_the_reason_says_what_it_was_learned_from() -> None:
    why = expected_from(History(stays(120, 130, 140))).of(Phase.CAPTURING_GRAPHS).deadline_why
    assert why == "2 times the longest (140 s) of the last 3 stays in capturing_graphs of this profile on this node"


def test_few_stays_lengthen_but_do_not_shorten() -> None:
    assert capture(expected_from(History(stays(20, 20)))) == (CAPTURE.hang_s, DeadlineSource.SHIPPED)
    assert capture(expected_from(History(stays(350)))) == (700, DeadlineSource.PROFILE_ON_NODE)


def test_floor_and_cap_bound_what_is_learned() -> None:
    warm = expected_from(History(stays(*[4.0] * 12))).of(Phase.CAPTURING_GRAPHS)
    assert (warm.deadline_s, warm.slow_after_s) == (CAPTURE.floor_s, 4 * 1.5 + 15)
    assert "at least 180 s" in warm.deadline_why
    strange = expected_from(History(stays(9, 9, 9, 30_000))).of(Phase.CAPTURING_GRAPHS)
    assert strange.deadline_s == CAPTURE.cap_s
    assert "at most 900 s" in strange.deadline_why


def test_only_the_newest_twenty_stays_that_ended_well_count() -> None:
    old = stays(*[150.0] * 20, 400)
    assert capture(expected_from(History(old))) == (300, DeadlineSource.PROFILE_ON_NODE)
    failed = (*stays(150, 150, 150), PhaseSample("ln_9", Phase.CAPTURING_GRAPHS, 400, ended_ok=False))
    assert capture(expected_from(History(failed))) == (300, DeadlineSource.PROFILE_ON_NODE)


def test_the_first_graph_pays_for_all_and_gets_more_time() -> None:
    expectation = expected_from(History(stays(20, 20, 20))).of(Phase.CAPTURING_GRAPHS)
    assert expectation.first_unit_deadline_s == CAPTURE.first_unit_hang_s
    assert expectation.deadline_s == CAPTURE.floor_s


def test_the_profile_may_set_one_deadline_for_all() -> None:
    expected = expected_from(History(stays(400, 400, 400)), hang_after_s=7)
    for phase in Phase:
        expectation = expected.of(phase)
        assert (expectation.deadline_s, expectation.first_unit_deadline_s) == (7, 7)
        assert expectation.deadline_source is DeadlineSource.PROFILE_LIMIT
        assert "hang_after_s" in expectation.deadline_why
    assert expected.of(Phase.CAPTURING_GRAPHS).p50_s == 400


def test_a_longer_warm_up_of_the_engine_is_waited_for() -> None:
    expected = expected_from(History(), warm_up_limit_s=1_800)
    assert expected.of(Phase.WARMING_UP).deadline_s == 1_860
    assert expected_from(History(), warm_up_limit_s=1_800, hang_after_s=9).of(Phase.WARMING_UP).deadline_s == 9
    assert capture(expected) == (CAPTURE.hang_s, DeadlineSource.SHIPPED)


@given(
    st.lists(st.floats(0, 1e6), max_size=30),
    st.lists(st.floats(0, 1e6), max_size=30),
    st.sampled_from(Phase),
)
def test_no_history_leads_out_of_the_bounds(near: list[float], far: list[float], phase: Phase) -> None:
    expectation = expected_from(History(stays(*near, phase=phase), stays(*far, phase=phase))).of(phase)
    row = PHASE_DEFAULTS[phase]
    assert row.floor_s <= expectation.deadline_s <= expectation.first_unit_deadline_s <= row.cap_s
    assert expectation.p50_s <= expectation.p90_s <= expectation.slow_after_s


@pytest.mark.parametrize("phase", list(Phase))
def test_a_longer_past_never_shortens_the_deadline(phase: Phase) -> None:
    deadlines = [
        expected_from(History(stays(*[seconds] * 5, phase=phase))).of(phase).deadline_s
        for seconds in (1, 10, 100, 1_000, 10_000)
    ]
    assert deadlines == sorted(deadlines)
