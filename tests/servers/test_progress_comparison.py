"""Whether the last start was usual, and what made the difference when it was not."""

import pytest

from service.servers.progress import History, PhaseSample, StartComparison, StartVerdict, compare_start
from service.sglang.phases import Phase


def start(name: str, loading_s: float, capture_s: float, *, ended_ok: bool = True) -> list[PhaseSample]:
    return [
        PhaseSample(name, Phase.LOADING_WEIGHTS, loading_s, 64),
        PhaseSample(name, Phase.CAPTURING_GRAPHS, capture_s, 52),
        PhaseSample(name, Phase.SERVING, 90_000, ended_ok=ended_ok),
    ]


USUAL = History(profile_on_node=tuple(stay for n in range(6) for stay in start(f"ln_{n}", 60 + n % 3, 20 + n % 2)))


def compared(loading_s: float, capture_s: float, past: History = USUAL, **cached: object) -> StartComparison:
    found = compare_start(start("ln_now", loading_s, capture_s), past, **cached)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_three_earlier_starts_are_needed() -> None:
    two = History(profile_on_node=(*start("ln_1", 60, 20), *start("ln_2", 60, 20)))
    assert compare_start(start("ln_now", 60, 20), two) is None
    failed = History(profile_on_node=(*two.profile_on_node, *start("ln_3", 60, 20, ended_ok=False)))
    assert compare_start(start("ln_now", 60, 20), failed) is None
    itself = History(profile_on_node=(*two.profile_on_node, *start("ln_now", 60, 20)))
    assert compare_start(start("ln_now", 60, 20), itself) is None, "a start is not its own past"


@pytest.mark.parametrize(
    ("loading_s", "capture_s", "verdict"),
    [
        (61, 20, StartVerdict.USUAL),
        (70, 24, StartVerdict.USUAL),
        (55, 18, StartVerdict.USUAL),
        (512, 20, StartVerdict.SLOWER),
        (61, 90, StartVerdict.SLOWER),
        (6, 20, StartVerdict.FASTER),
    ],
)
def test_the_verdict_is_of_the_whole_start(loading_s: float, capture_s: float, verdict: StartVerdict) -> None:
    assert compared(loading_s, capture_s).verdict is verdict


def test_a_slow_start_names_the_phase_and_the_ratio() -> None:
    found = compared(512, 20)
    assert found.why == ("loading_weights took 512 s, usually 61 s",)
    loading = found.phases[0]
    assert (loading.phase, loading.verdict) == (Phase.LOADING_WEIGHTS, StartVerdict.SLOWER)
    assert loading.ratio == pytest.approx(512 / 61)
    assert (found.start_count, found.duration_s) == (6, 532)


def test_the_page_cache_explains_a_slow_and_a_fast_load() -> None:
    slow = compared(512, 20, cached_share=0.02, earlier_cached_shares=[1.0, 0.97, None, 0.96])
    assert slow.why[-1] == "2% of the model's files were in the page cache before it, usually 97%"
    fast = compared(6, 20, cached_share=1.0)
    assert fast.why[-1] == "100% of the model's files were in the page cache before it, unknown for the earlier ones"


def test_the_page_cache_is_not_blamed_for_what_it_cannot_do() -> None:
    assert len(compared(512, 20, cached_share=0.98, earlier_cached_shares=[0.97] * 4).why) == 1
    assert len(compared(61, 90, cached_share=0.0, earlier_cached_shares=[0.97] * 4).why) == 1, "graphs are not files"
    assert compared(61, 20, cached_share=0.0, earlier_cached_shares=[0.97] * 4).why == ()


def test_one_strange_start_changes_nothing() -> None:
    strange = History(profile_on_node=(*start("ln_x", 9_000, 2_000), *USUAL.profile_on_node))
    assert compared(512, 20, strange).verdict is StartVerdict.SLOWER
    assert compared(61, 20, strange).verdict is StartVerdict.USUAL


def test_noisy_starts_need_a_larger_difference() -> None:
    noisy = History(
        profile_on_node=tuple(
            stay for n, seconds in enumerate((30, 60, 90, 120, 150)) for stay in start(f"ln_{n}", seconds, 20)
        )
    )
    assert compared(180, 20, noisy).verdict is StartVerdict.USUAL
    assert compared(180, 20).verdict is StartVerdict.SLOWER


def test_a_phase_that_is_new_or_missing_is_shown() -> None:
    extra = [*start("ln_now", 61, 20), PhaseSample("ln_now", Phase.COMPILING_KERNELS, 600)]
    found = compare_start(extra, USUAL)
    assert found is not None
    compiling = found.phases[-1]
    assert (compiling.phase, compiling.median_s, compiling.ratio) == (Phase.COMPILING_KERNELS, 0, None)
    assert found.why == ("compiling_kernels took 600 s, usually 0 s",)
    gone = compare_start([PhaseSample("ln_now", Phase.LOADING_WEIGHTS, 61)], USUAL)
    assert gone is not None
    assert [each.duration_s for each in gone.phases] == [61, 0]
