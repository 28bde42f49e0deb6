"""The time that is left: none without history, refined by n of m, honest when overdue, right on average."""

import random
from dataclasses import replace

import pytest

from service.servers.progress import Eta, History, HistoryLevel, PhaseSample, eta
from service.servers.progress.samples import quantile
from service.sglang.phases import Phase
from service.sglang.startup_log import LogReading, PhaseSpan, Progress
from tests.servers.progress_streams import at, reading


def start(
    name: str, loading_s: float, capture_s: float, warm_up_s: float = 4, *, ended_ok: bool = True
) -> list[PhaseSample]:
    return [
        PhaseSample(name, Phase.SPAWNING, 10),
        PhaseSample(name, Phase.LOADING_WEIGHTS, loading_s, 64),
        PhaseSample(name, Phase.CAPTURING_GRAPHS, capture_s, 52),
        PhaseSample(name, Phase.WARMING_UP, warm_up_s, ended_ok=ended_ok),
    ]


def history(*starts: list[PhaseSample]) -> History:
    return History(profile_on_node=tuple(stay for each in starts for stay in each))


def here(*phases: Phase, since_s: float = 0, progress: Progress | None = None) -> LogReading:
    spans = [PhaseSpan(phase, at(since_s if phase is phases[-1] else 0), None, None) for phase in phases]
    if progress:
        spans[-1] = PhaseSpan(spans[-1].phase, spans[-1].started_at, None, progress)
    return reading(spans, line_count=9)


def left(log: LogReading, past: History, now_s: float) -> Eta:
    found = eta(log, past, at(now_s))
    assert found is not None
    return found


EVEN = history(*(start(f"ln_{n}", 60, 20) for n in range(6)))
LOADING = (Phase.SPAWNING, Phase.LOADING_WEIGHTS)


def test_without_an_earlier_start_there_is_no_answer() -> None:
    assert eta(here(*LOADING), History(), at(10)) is None
    failed = history(start("ln_1", 60, 20, ended_ok=False))
    assert eta(here(*LOADING), failed, at(10)) is None, "a start that never became ready tells nothing"


def test_it_adds_what_is_left_of_this_phase_to_those_to_come() -> None:
    found = left(here(*LOADING, since_s=10), EVEN, 30)
    assert found.remaining_p50_s == pytest.approx(40 + 20 + 4)
    assert [each.phase for each in found.phases] == [Phase.LOADING_WEIGHTS, Phase.CAPTURING_GRAPHS, Phase.WARMING_UP]
    assert [each.remaining_p50_s for each in found.phases] == pytest.approx([40, 20, 4])
    assert (found.start_count, found.level, found.is_overdue) == (6, HistoryLevel.PROFILE_ON_NODE, False)


def test_before_the_first_line_all_of_it_is_left() -> None:
    assert left(here(), EVEN, 0).remaining_p50_s == pytest.approx(94)


def test_n_of_m_outweighs_the_past_the_further_it_is() -> None:
    """Three times slower than ever: at 8 of 64 the past still counts, at 56 of 64 only this start does."""
    early = left(here(*LOADING, progress=Progress(8, 64, "shards")), EVEN, 3 * 7.5)
    late = left(here(*LOADING, progress=Progress(56, 64, "shards")), EVEN, 3 * 52.5)
    assert early.phases[0].remaining_p50_s == pytest.approx(0.125 * 157.5 + 0.875 * 52.5)
    assert late.phases[0].remaining_p50_s == pytest.approx(0.875 * 22.5 + 0.125 * 7.5)
    assert not late.is_overdue


def test_another_count_of_units_says_nothing() -> None:
    found = left(here(*LOADING, progress=Progress(1, 2, "shards")), EVEN, 50)
    assert found.phases[0].remaining_p50_s == pytest.approx(10)


def test_a_phase_longer_than_ever_is_overdue_and_says_so() -> None:
    found = left(here(*LOADING), EVEN, 100)
    assert found.is_overdue
    assert found.remaining_p50_s == pytest.approx(50 + 24)


def test_starts_that_were_further_by_now_no_longer_count() -> None:
    past = history(start("ln_1", 60, 20), start("ln_2", 60, 20), start("ln_3", 300, 20))
    found = left(here(*LOADING), past, 100)
    assert found.remaining_p50_s == pytest.approx(200 + 24)
    assert not found.is_overdue


def test_phases_that_repeat_and_phases_that_are_new_are_matched_in_order() -> None:
    name = "ln_1"
    drafted = [
        PhaseSample(name, Phase.LOADING_WEIGHTS, 60),
        PhaseSample(name, Phase.CAPTURING_GRAPHS, 20),
        PhaseSample(name, Phase.LOADING_DRAFT_WEIGHTS, 5),
        PhaseSample(name, Phase.CAPTURING_GRAPHS, 8),
    ]
    first = here(Phase.LOADING_WEIGHTS, Phase.CAPTURING_GRAPHS)
    second = here(Phase.LOADING_WEIGHTS, Phase.CAPTURING_GRAPHS, Phase.LOADING_DRAFT_WEIGHTS, Phase.CAPTURING_GRAPHS)
    compiling = here(Phase.LOADING_WEIGHTS, Phase.COMPILING_KERNELS)
    assert left(first, history(drafted), 0).remaining_p50_s == pytest.approx(33)
    assert left(second, history(drafted), 0).remaining_p50_s == pytest.approx(8)
    assert left(compiling, history(drafted), 0).remaining_p50_s == pytest.approx(33)


def test_a_few_starts_have_not_shown_their_spread() -> None:
    one = left(here(*LOADING), history(start("ln_1", 60, 20)), 0)
    assert one.remaining_p90_s == pytest.approx(one.remaining_p50_s * 1.25)


def test_the_same_model_elsewhere_is_better_than_nothing() -> None:
    far = History(model_on_gpu_type=EVEN.profile_on_node)
    assert left(here(*LOADING), far, 0).level is HistoryLevel.MODEL_ON_GPU_TYPE


def test_a_start_that_is_over_has_nothing_left() -> None:
    assert eta(replace(here(Phase.SERVING), is_ready=True), EVEN, at(0)) is None
    assert eta(replace(here(*LOADING), has_failed=True), EVEN, at(0)) is None


def test_nine_of_ten_starts_end_within_p90_and_half_within_p50() -> None:
    """Starts whose phases vary together, as on a disk that is slow on some days; asked after a random time."""
    rng = random.Random(7)  # noqa: S311
    within_p50 = within_p90 = asked = 0
    while asked < 400:
        pasts = [_random_start(rng, f"ln_{n}") for n in range(15)]
        mine, elapsed_s = _random_start(rng, "ln_now"), rng.uniform(0, 90)
        if elapsed_s > mine[1].duration_s:
            continue
        asked += 1
        found = left(here(*LOADING), history(*pasts), elapsed_s)
        truly_left_s = sum(stay.duration_s for stay in mine[1:]) - elapsed_s
        within_p50 += truly_left_s <= found.remaining_p50_s
        within_p90 += truly_left_s <= found.remaining_p90_s
    assert 0.42 <= within_p50 / asked <= 0.58
    assert 0.8 <= within_p90 / asked <= 0.95


def _random_start(rng: random.Random, name: str) -> list[PhaseSample]:
    day = rng.lognormvariate(0, 0.4)
    return start(name, 60 * day * rng.uniform(0.9, 1.1), 20 * day * rng.uniform(0.9, 1.1), rng.uniform(2, 6))


@pytest.mark.parametrize(
    ("values", "share", "expected"), [([5], 0.9, 5), ([1, 2, 3, 4], 0.5, 2.5), ([9, 1], 0, 1), ([9, 1], 1, 9)]
)
def test_quantiles_interpolate(values: list[float], share: float, expected: float) -> None:
    assert quantile(values, share) == pytest.approx(expected)
