"""From the log and /metrics to samples: one a minute at most, none while idle, each token counted once."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.sglang.acceptance import AcceptanceLedger, AcceptanceWatch, Judgement, Sample, Source, Terms
from service.sglang.acceptance.samples import SAMPLE_EVERY_S, merged
from service.sglang.metrics import EngineCounters
from tests.sglang.acceptance.told import at, decode_line, feed, scrape


def loaded(ledger: AcceptanceLedger, watch: AcceptanceWatch, seconds: range, length: float = 2.0) -> list[Sample]:
    """Give a ledger one decode line a second, and return the samples that became due."""
    samples = []
    for second in seconds:
        feed(watch, decode_line(length, rate=0.25))
        ledger.fold_log(watch, at(second))
        sample = ledger.take_sample(at(second))
        samples += [sample] if sample else []
    return samples


def test_an_idle_server_has_no_samples() -> None:
    ledger = AcceptanceLedger(Terms())
    for second in range(200):
        ledger.fold_log(AcceptanceWatch(), at(second))
        ledger.fold_counters(scrape(50.0, 0.0), at(second))
        assert ledger.take_sample(at(second)) is None
    assert (ledger.proven, ledger.source) == (None, None)


def test_the_first_sample_comes_with_enough_steps_and_the_next_a_minute_later() -> None:
    ledger, watch = AcceptanceLedger(Terms()), AcceptanceWatch()
    ledger.fold_log(watch, at(-1))
    first, second = loaded(ledger, watch, range(80))
    assert (first.at, first.window_s, first.source) == (at(4), 5, Source.LOG)
    assert (first.decoding.verify_steps, first.decoding.tokens, first.decoding.accept_rate) == (200, 400, 0.25)
    assert (second.at, second.window_s, second.decoding.tokens) == (at(64), 60, 60 * 80)


def test_a_little_load_is_sampled_after_a_minute_and_an_idle_hour_belongs_to_no_sample() -> None:
    ledger, watch = AcceptanceLedger(Terms()), AcceptanceWatch()
    for second in range(3_600):
        ledger.fold_log(watch, at(second))
    assert loaded(ledger, watch, range(3_600, 3_602)) == []
    assert ledger.take_sample(at(3_658)) is None
    sample = ledger.take_sample(at(3_660))
    assert sample is not None
    assert (sample.window_s, sample.decoding.reports) == (61, 2)
    assert ledger.take_sample(at(9_000)) is None


def test_a_quiet_log_leaves_the_metrics() -> None:
    ledger = AcceptanceLedger(Terms())
    ledger.fold_counters(scrape(None), at(0))
    for second in range(1, 8):
        ledger.fold_counters(scrape(100.0 * second, 1.0, rate=0.2), at(5 * second))
    assert ledger.standing(at(36)).judgement is Judgement.INEFFECTIVE
    proven = ledger.proven
    assert proven is not None
    assert proven.last.text == "sglang:spec_accept_length 1.00, sglang:spec_accept_rate 0.20"
    sample = ledger.take_sample(at(36))
    assert sample is not None
    assert (sample.source, sample.decoding.tokens, sample.decoding.verify_steps) == (Source.METRICS, 600, 600)
    assert (sample.running_requests, sample.window_s) == (2, 31)


def test_tokens_wait_for_the_first_interval_that_tells_of_them() -> None:
    ledger = AcceptanceLedger(Terms())
    for second, (tokens, length) in enumerate([(10.0, 0.0), (90.0, 0.0), (250.0, 2.0), (250.0, 2.0)]):
        ledger.fold_counters(scrape(tokens, length), at(second))
    sample = ledger.take_sample(at(90))
    assert sample is not None
    assert (sample.decoding.tokens, sample.decoding.verify_steps) == (240, 120)


def test_a_failed_scrape_and_counters_that_began_anew_add_nothing() -> None:
    ledger = AcceptanceLedger(Terms())
    ledger.fold_counters(scrape(900.0, 2.0), at(0))
    ledger.fold_counters(None, at(1))
    ledger.fold_counters(scrape(10.0, 2.0), at(2))
    assert ledger.source is None
    ledger.fold_counters(scrape(50.0, 2.0), at(3))
    sample = ledger.take_sample(at(90))
    assert sample is not None
    assert sample.decoding.tokens == 40


def test_a_version_that_counts_finished_requests_only_is_read_by_those() -> None:
    ledger = AcceptanceLedger(Terms())
    for second, tokens in enumerate((500.0, 500.0, 700.0)):
        ledger.fold_counters(EngineCounters(generation_tokens=tokens, accept_length=2.0), at(second))
    sample = ledger.take_sample(at(90))
    assert sample is not None
    assert sample.decoding.tokens == 200


def test_what_the_log_tells_is_not_counted_again_from_the_metrics() -> None:
    ledger, watch = AcceptanceLedger(Terms()), AcceptanceWatch()
    ledger.fold_log(watch, at(-1))
    ledger.fold_counters(scrape(0.0), at(-1))
    ledger.fold_counters(scrape(80.0, 2.0), at(0))
    (sample,) = loaded(ledger, watch, range(5))
    ledger.fold_counters(scrape(900.0, 2.0), at(6))
    assert (sample.source, sample.decoding.tokens) == (Source.LOG, 400)
    assert ledger.take_sample(at(70)) is None


def test_a_log_that_is_read_anew_is_counted_from_its_beginning() -> None:
    ledger, watch = AcceptanceLedger(Terms()), AcceptanceWatch()
    loaded(ledger, watch, range(5))
    (later,) = loaded(ledger, AcceptanceWatch(), range(64, 65))
    assert later.decoding.reports == 1


def test_a_simulated_acceptance_is_kept_but_no_complaint() -> None:
    ledger = AcceptanceLedger(Terms(is_simulated=True))
    (sample,) = loaded(ledger, AcceptanceWatch(), range(5), length=1.0)
    assert sample.decoding.accept_length == 1.0
    assert ledger.proven is None


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(1.0, 5.0)), min_size=1, max_size=60))
def test_samples_are_a_minute_apart_and_every_token_is_in_one(load: list[tuple[int, float]]) -> None:
    ledger, watch = AcceptanceLedger(Terms()), AcceptanceWatch()
    second, samples = 0, []
    for pause, length in load:
        second += pause
        feed(watch, decode_line(length))
        ledger.fold_log(watch, at(second))
        samples += [sample] if (sample := ledger.take_sample(at(second))) else []
    samples += [sample] if (sample := ledger.take_sample(at(second + 120))) else []
    gaps = [later.at - earlier.at for earlier, later in pairwise(samples)]
    assert all(gap >= timedelta(seconds=SAMPLE_EVERY_S) for gap in gaps)
    assert sum(sample.decoding.tokens for sample in samples) == pytest.approx(watch.total.tokens)


def test_merged_samples_keep_what_was_decoded() -> None:
    ledger, watch = AcceptanceLedger(Terms()), AcceptanceWatch()
    ledger.fold_log(watch, at(-1))
    first, second = loaded(ledger, watch, range(65), length=2.0)
    both = merged(first, second)
    assert (both.at, both.window_s, both.decoding) == (second.at, 65, first.decoding + second.decoding)
