"""Healthy, busy, silent or draining: from /health and the counters, each of which misleads alone."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.servers.observation import HealthFact
from service.servers.serving import (
    HEALTH_AT_LEAST_EVERY_S,
    SILENT_AFTER_FAILURES,
    STUCK_AFTER_S,
    Flow,
    ServingVerdict,
    health_is_needed,
    judge_serving,
)
from service.sglang.health import HealthAnswer
from service.sglang.metrics import EngineCounters
from tests.servers.progress_streams import at

IDLE = EngineCounters(
    prompt_tokens=28, generation_tokens=8, work_tokens=36, running_requests=0, queued_requests=0, used_tokens=0
)


def working(tokens: float, **more: float) -> EngineCounters:
    values = {"prompt_tokens": 28, "generation_tokens": 8, "work_tokens": tokens, "running_requests": 1, **more}
    return EngineCounters(**values)


def health(answer: HealthAnswer, *, at_s: float = 0, failures: int = 0) -> HealthFact:
    status = {HealthAnswer.OK: 200, HealthAnswer.UNAVAILABLE: 503}.get(answer)
    return HealthFact(answer, at(at_s - 20), at(at_s), status, failures)


def failing(failures: int, *, at_s: float) -> HealthFact:
    return health(HealthAnswer.UNAVAILABLE, at_s=at_s, failures=failures)


def flow(*scrapes: tuple[float, EngineCounters]) -> Flow:
    found = Flow()
    for seconds, counters in scrapes:
        found = found.fold(counters, at(seconds))
    return found


def verdict(fact: HealthFact, seen: Flow, now_s: float) -> ServingVerdict | None:
    judgement = judge_serving(fact, seen, at(now_s))
    return judgement.verdict if judgement else None


def test_an_idle_server_that_answers_is_healthy() -> None:
    still = flow((0, IDLE), (900, IDLE))
    assert verdict(health(HealthAnswer.OK, at_s=900), still, 900) is ServingVerdict.HEALTHY
    assert verdict(health(HealthAnswer.OK, at_s=900), Flow(), 900) is ServingVerdict.HEALTHY


def test_one_long_prefill_is_busy_and_no_failure() -> None:
    judgement = judge_serving(failing(1, at_s=25), flow((0, working(9)), (24, working(9))), at(25))
    assert judgement is not None
    assert (judgement.verdict, judgement.is_failure) == (ServingVerdict.BUSY, False)


def test_a_server_under_load_is_busy_however_often_its_health_fails() -> None:
    seen = Flow()
    for turn in range(10):
        seen = seen.fold(working(100 + turn), at(turn * 25))
        assert verdict(failing(turn + 1, at_s=turn * 25 + 20), seen, turn * 25 + 20) is ServingVerdict.BUSY


def test_a_stopped_scheduler_is_silent_after_two_failures_and_heals() -> None:
    """As seen on a real engine: /metrics answers on with frozen numbers, /health says 503 after 20 s each time."""
    seen = flow((0, working(100)), (5, working(140)), (10, working(140)))
    assert verdict(failing(1, at_s=30), seen, 30) is ServingVerdict.BUSY
    seen = seen.fold(working(140), at(32))
    judgement = judge_serving(failing(2, at_s=52), seen, at(52))
    assert judgement is not None
    assert (judgement.verdict, judgement.is_failure) == (ServingVerdict.ENGINE_SILENT, True)
    assert judgement.silent_since == at(5)
    assert "HTTP 503" in judgement.message
    assert verdict(health(HealthAnswer.OK, at_s=60), seen, 60) is ServingVerdict.HEALTHY
    assert verdict(failing(3, at_s=75), seen.fold(working(180), at(74)), 75) is ServingVerdict.BUSY


def test_a_front_that_no_longer_answers_at_all_is_silent_too() -> None:
    seen = flow((0, IDLE), (5, IDLE))
    judgement = judge_serving(health(HealthAnswer.TIMED_OUT, at_s=60, failures=2), seen, at(60))
    assert judgement is not None
    assert judgement.verdict is ServingVerdict.ENGINE_SILENT
    assert "counters cannot be read" in judgement.message, "the last scrape is too old to say that nothing moves"


def test_without_metrics_two_failures_decide() -> None:
    assert verdict(failing(1, at_s=20), Flow(), 20) is ServingVerdict.BUSY
    assert verdict(failing(2, at_s=45), Flow(), 45) is ServingVerdict.ENGINE_SILENT


def test_a_server_that_was_asked_to_stop_is_draining() -> None:
    judgement = judge_serving(failing(9, at_s=90), Flow(), at(90), is_stopping=True)
    assert judgement is not None
    assert (judgement.verdict, judgement.is_failure) == (ServingVerdict.DRAINING, False)


def test_on_other_nodes_health_proves_nothing() -> None:
    fine = health(HealthAnswer.OK, at_s=300)
    assert judge_serving(fine, Flow(), at(300), node_rank=1) is None
    moving = judge_serving(fine, flow((290, working(1)), (295, working(9))), at(300), node_rank=1)
    assert moving is not None
    assert moving.verdict is ServingVerdict.HEALTHY
    stuck = flow((0, working(1)), (STUCK_AFTER_S, working(1)))
    judgement = judge_serving(fine, stuck, at(STUCK_AFTER_S), node_rank=1)
    assert judgement is not None
    assert judgement.verdict is ServingVerdict.ENGINE_SILENT
    assert judge_serving(fine, flow((0, IDLE), (STUCK_AFTER_S, IDLE)), at(STUCK_AFTER_S), node_rank=1) is None


def test_before_the_first_answer_nothing_is_claimed() -> None:
    assert judge_serving(HealthFact(), Flow(), at(0)) is None


@pytest.mark.parametrize(
    "second",
    [
        working(9, used_tokens=5),
        working(9, running_requests=2),
        working(9, queued_requests=1),
        working(9, generation_tokens=9),
        working(9, verify_calls=1),
        working(3),
    ],
)
def test_whatever_only_a_living_engine_changes_is_a_move(second: EngineCounters) -> None:
    assert flow((0, working(9)), (5, second)).moved_at == at(5)


def test_what_a_frozen_engine_changes_is_none() -> None:
    assert flow((0, working(9, generation_rate=5)), (5, working(9, generation_rate=0))).moved_at is None


def test_a_failed_scrape_and_an_old_one_leave_what_was_known() -> None:
    seen = flow((0, working(9)), (5, working(10)))
    assert seen.fold(None, at(9)) == seen
    assert seen.fold(working(99), at(4)) == seen


def test_health_is_not_asked_while_the_last_two_scrapes_prove_tokens() -> None:
    fine = health(HealthAnswer.OK, at_s=100)
    moving = flow((100, working(9)), (105, working(80)))
    assert not health_is_needed(fine, moving, at(106))
    assert health_is_needed(fine, moving, at(116)), "the last scrape is too old to speak for now"
    assert health_is_needed(fine, moving.fold(working(80), at(110)), at(111)), "nothing moved between the last two"
    assert health_is_needed(fine, Flow(), at(101))
    assert health_is_needed(fine, flow((100, working(9)), (105, working(9, queued_requests=4))), at(106)), "no token"


def test_health_is_asked_now_and_then_all_the_same() -> None:
    late_s = 100 + HEALTH_AT_LEAST_EVERY_S
    moving = flow((late_s - 5, working(9)), (late_s, working(80)))
    assert health_is_needed(health(HealthAnswer.OK, at_s=100), moving, at(late_s))
    assert not health_is_needed(health(HealthAnswer.OK, at_s=101), moving, at(late_s))
    assert health_is_needed(failing(1, at_s=late_s), moving, at(late_s))
    assert health_is_needed(health(HealthAnswer.OK, at_s=late_s), moving, at(late_s), is_ready=False)
    assert health_is_needed(HealthFact(), moving, at(late_s))


@given(
    st.lists(st.tuples(st.floats(1, 40), st.booleans()), min_size=2, max_size=30),
    st.sampled_from([HealthAnswer.UNAVAILABLE, HealthAnswer.TIMED_OUT]),
    st.integers(1, 9),
)
def test_a_silent_engine_is_never_one_that_moved_lately(
    scrapes: list[tuple[float, bool]], answer: HealthAnswer, failures: int
) -> None:
    seen, now, tokens = Flow(), at(0), 0.0
    moved_at: datetime | None = None
    for wait_s, moves in scrapes:
        now += timedelta(seconds=wait_s)
        tokens += moves
        moved_at = now if moves and seen.counters is not None else moved_at
        seen = seen.fold(working(tokens), now)
    judgement = judge_serving(HealthFact(answer, now, now, None, failures), seen, now)
    assert judgement is not None
    has_moved = moved_at is not None and (now - moved_at).total_seconds() <= seen.fresh_s
    assert judgement.is_failure == (failures >= SILENT_AFTER_FAILURES and not has_moved)


def test_how_long_a_move_proves_something_follows_the_patience_with_health() -> None:
    moved = Flow(fresh_s=12).fold(EngineCounters(work_tokens=1), at(0)).fold(EngineCounters(work_tokens=2), at(1))
    assert verdict(failing(2, at_s=13), moved, 13) is ServingVerdict.BUSY
    assert verdict(failing(2, at_s=14), moved, 14) is ServingVerdict.ENGINE_SILENT
