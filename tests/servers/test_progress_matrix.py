"""What is said of a start in each phase when it is slow, frozen, dead, out of sight or watched by a new service."""

import pytest

from service.servers.progress import History, Verdict, expected_from
from service.servers.progress.judge import CARRIES, SETTLE_S
from service.servers.progress.marks import REJOIN_S, Grade
from service.servers.states import State
from service.sglang.phases import Phase
from tests.servers.progress_matrix import Mishap, Said, deadline_of, step_of, story, sweep
from tests.servers.progress_streams import warm_history

EXPECTED = {
    "shipped": expected_from(History()),
    "warm": expected_from(warm_history(1)),
    "short": expected_from(History(), hang_after_s=60),
}
LONGEST_LOOK_S = 15.0


def told(phase: Phase, mishap: Mishap, by: str) -> tuple[list[str], list[Said], float]:
    """Return the words of a story, the story, and the deadline."""
    said = story(phase, mishap, EXPECTED[by])
    return [item.what for item in said], said, deadline_of(phase, EXPECTED[by])


@pytest.mark.parametrize("by", EXPECTED)
@pytest.mark.parametrize("phase", Phase)
class TestMatrix:
    def test_slow_is_never_hung(self, phase: Phase, by: str) -> None:
        words, _, _ = told(phase, Mishap.SLOW, by)
        assert words in ([Verdict.PROGRESSING], [Verdict.PROGRESSING, Verdict.SLOW])
        assert Verdict.SLOW in words or by == "short", "five deadlines are longer than the phase usually takes"

    def test_frozen_is_hung_at_its_deadline(self, phase: Phase, by: str) -> None:
        words, said, deadline_s = told(phase, Mishap.FROZEN, by)
        assert words == [Verdict.PROGRESSING, Verdict.SLOW, Verdict.SUSPECTED_HUNG]
        assert said[1].at_s <= deadline_s / 2 + step_of(deadline_s)
        assert deadline_s <= said[2].at_s < deadline_s + step_of(deadline_s)

    def test_crashed_is_failed_at_once_whatever_the_verdict(self, phase: Phase, by: str) -> None:
        words, said, deadline_s = told(phase, Mishap.CRASHED, by)
        assert words[-1] == State.FAILED
        assert Verdict.SUSPECTED_HUNG not in words
        assert said[-1].at_s < deadline_s / 3 + step_of(deadline_s)

    def test_out_of_sight_and_moving_is_never_hung(self, phase: Phase, by: str) -> None:
        words, said, deadline_s = told(phase, Mishap.CONTACT_LOST, by)
        assert Verdict.SUSPECTED_HUNG not in words
        apart = [item.what for item in said if deadline_s / 4 < item.at_s < deadline_s * 3.25]
        assert apart == [], "nothing new is said on stale facts"

    def test_out_of_sight_and_frozen_is_hung_once_it_was_looked_at_again(self, phase: Phase, by: str) -> None:
        words, said, deadline_s = told(phase, Mishap.CONTACT_LOST_FROZEN, by)
        assert words[-1] == Verdict.SUSPECTED_HUNG
        back_s, settle_s = deadline_s * 3.25, min(deadline_s, SETTLE_S) + REJOIN_S
        assert back_s + settle_s - step_of(deadline_s) <= said[-1].at_s < back_s + settle_s + 2 * step_of(deadline_s)

    def test_a_new_service_says_what_the_old_one_would_have(self, phase: Phase, by: str) -> None:
        words, said, deadline_s = told(phase, Mishap.RESTARTED, by)
        assert words == [Verdict.PROGRESSING, Verdict.SLOW, Verdict.SUSPECTED_HUNG]
        settled_s = deadline_s / 2 + min(deadline_s, SETTLE_S) + REJOIN_S
        assert said[2].at_s < max(deadline_s, settled_s) + 2 * step_of(deadline_s)

    def test_a_new_service_without_a_record_gives_it_one_more_deadline(self, phase: Phase, by: str) -> None:
        words, said, deadline_s = told(phase, Mishap.RESTARTED_BARE, by)
        assert words[-1] == Verdict.SUSPECTED_HUNG
        assert deadline_s * 1.5 <= said[-1].at_s < deadline_s * 1.5 + 2 * step_of(deadline_s)


def test_random_starts_are_judged_rightly_and_in_time() -> None:
    """The same as bench/verdict_matrix.py does for thousands."""
    result = sweep(40, first_seed=5_000)
    assert result.looks > 10_000
    assert (result.false, result.missed) == ((), ())
    for found in result.detections:
        factor = CARRIES[Grade.TALK] if found.is_talking else 1.0
        assert 0 <= found.late_s <= LONGEST_LOOK_S
        assert found.after_s <= factor * found.deadline_s + 2 * LONGEST_LOOK_S
