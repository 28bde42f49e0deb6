"""What is said of an acceptance: only under load, only after enough verify steps, and until it is better."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.sglang.acceptance import Floor, FloorSource, Judgement, Terms
from service.sglang.acceptance.judging import IDLE_AFTER_S, AcceptanceJudge
from tests.sglang.acceptance.told import at, report

FLOOR = Floor(1.7, FloorSource.HINT, "a hint")


def judged(*lengths: float, floor: Floor | None = FLOOR, steps: float = 40.0) -> AcceptanceJudge:
    judge = AcceptanceJudge(Terms("EAGLE3", floor))
    for second, length in enumerate(lengths):
        judge.fold(report(length, steps=steps), at(second))
    return judge


def thought(judge: AcceptanceJudge, second: float = 0) -> Judgement:
    return judge.standing(at(second)).judgement


def test_idle_is_unknown() -> None:
    assert thought(AcceptanceJudge(Terms())) is Judgement.UNKNOWN
    assert "idle" in AcceptanceJudge(Terms()).standing(at(0)).message


def test_nothing_is_said_before_200_verify_steps_and_five_reports() -> None:
    assert judged(*[1.0] * 4).stretch is None
    assert judged(*[1.0] * 4, steps=5_000).stretch is None
    assert judged(*[1.0] * 100, steps=1.9).stretch is None
    assert "fewer than 200" in judged(1.0).standing(at(0)).message


@pytest.mark.parametrize(
    ("length", "judgement"),
    [
        (1.0, Judgement.INEFFECTIVE),
        (1.02, Judgement.INEFFECTIVE),
        (1.03, Judgement.BELOW_FLOOR),
        (1.69, Judgement.BELOW_FLOOR),
        (1.7, Judgement.EFFECTIVE),
        (3.9, Judgement.EFFECTIVE),
    ],
)
def test_a_block_is_judged_by_its_mean(length: float, judgement: Judgement) -> None:
    assert thought(judged(*[length] * 5)) is judgement


def test_without_a_floor_only_accepting_nothing_is_wrong() -> None:
    assert thought(judged(*[1.1] * 5, floor=None)) is Judgement.EFFECTIVE
    assert thought(judged(*[1.0] * 5, floor=None)) is Judgement.INEFFECTIVE


def test_it_says_since_when_and_over_how_many_tokens() -> None:
    stretch = judged(*[2.5] * 5, *[1.0] * 12).stretch
    assert stretch is not None
    assert (stretch.judgement, stretch.began_at) == (Judgement.INEFFECTIVE, at(5))
    assert (stretch.decoding.tokens, stretch.decoding.verify_steps) == (400, 400)
    assert stretch.measured == (
        "accept length 1.00 over about 400 tokens (400 verify steps) since 2026-03-01T10:00:05.000Z"
    )


def test_it_ends_with_a_block_that_is_better_and_not_with_one_report() -> None:
    assert thought(judged(*[1.0] * 5, 2.5)) is Judgement.INEFFECTIVE
    assert thought(judged(*[1.0] * 5, *[2.5] * 5)) is Judgement.EFFECTIVE
    assert thought(judged(*[1.0] * 5, *[1.3] * 5)) is Judgement.BELOW_FLOOR


def test_what_is_idle_now_keeps_what_was_proven_and_says_that_it_is_past() -> None:
    judge = judged(*[1.0] * 5)
    assert thought(judge, 4 + IDLE_AFTER_S) is Judgement.INEFFECTIVE
    standing = judge.standing(at(5 + IDLE_AFTER_S))
    assert standing.judgement is Judgement.UNKNOWN
    assert standing.message.startswith("idle since 2026-03-01T10:00:04.000Z; before that: accept length 1.00")
    assert judge.stretch is not None


def test_an_acceptance_that_the_engine_makes_up_is_not_judged() -> None:
    judge = AcceptanceJudge(Terms("EAGLE3", FLOOR, is_simulated=True))
    for second in range(9):
        judge.fold(report(1.0), at(second))
    assert thought(judge) is Judgement.UNKNOWN


@given(st.lists(st.floats(1.0, 6.0), max_size=60), st.floats(1.71, 6.0))
def test_a_good_load_always_ends_what_was_wrong(before: list[float], good: float) -> None:
    judge = judged(*before, *[good] * 10)
    assert thought(judge, 70) is Judgement.EFFECTIVE
