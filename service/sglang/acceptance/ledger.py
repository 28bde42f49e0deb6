"""Keeps the books of one launch's speculation: from the log and /metrics to samples and a judgement.

The decode lines count as soon as there are any: each of them is read, while a scrape sees only the last of some. A
server whose log is quiet, or that somebody else started without one, is known by its metrics.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from service.sglang.acceptance.decode_lines import AcceptanceWatch
from service.sglang.acceptance.floors import Terms
from service.sglang.acceptance.judging import AcceptanceJudge, Standing, Stretch
from service.sglang.acceptance.reports import Decoding, Quote, Report, Source
from service.sglang.acceptance.samples import ENOUGH_STEPS, SAMPLE_EVERY_S, Sample
from service.sglang.metrics import EngineCounters


@dataclass(frozen=True, slots=True)
class _Window:
    """What will be the next sample: it begins with the look before the first report."""

    began_at: datetime
    decoding: Decoding
    running_requests: int


class AcceptanceLedger:
    """Folds what is told; `source` is where that was read, None before anything was told."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.source: Source | None = None
        self._judge = AcceptanceJudge(terms)
        self._read = Decoding()
        self._read_at: datetime | None = None
        self._scraped = EngineCounters()
        self._scraped_at: datetime | None = None
        self._window: _Window | None = None
        self._sampled_at: datetime | None = None

    @property
    def proven(self) -> Stretch | None:
        """Return what was judged last, idle or not; None while nothing is proven or the engine makes it up."""
        return None if self.terms.is_simulated else self._judge.stretch

    def standing(self, now: datetime) -> Standing:
        """Return what is thought now; idle is unknown."""
        return self._judge.standing(now)

    def fold_log(self, watch: AcceptanceWatch, at: datetime) -> None:
        """Fold in what the decode lines told since the last time; a log that begins anew is read anew."""
        total = watch.total
        if total.reports < self._read.reports:
            self._read = Decoding()
        said, self._read = total - self._read, total
        if said.reports:
            if self.source is Source.METRICS:
                self._judge.drop_open_block()
                self._window = None
            self.source = Source.LOG
            self._fold(Report(said, watch.running_requests, watch.latest), self._read_at or at, at)
        self._read_at = at

    def fold_counters(self, counters: EngineCounters | None, at: datetime) -> None:
        """Fold in one scrape, None for one that failed, unless the log tells more."""
        if counters is None or self.source is Source.LOG:
            return
        decoded, since = _decoded_between(self._scraped, counters), self._scraped_at or at
        length, rate = counters.accept_length or 0.0, counters.accept_rate
        if decoded > 0 and length < 1:
            return  # an unset gauge is 0: the tokens wait for the first interval that tells of them
        self._scraped, self._scraped_at = counters, at
        if decoded > 0:
            self.source = Source.METRICS
            said = Decoding.told(accept_length=length, accept_rate=rate, verify_steps=decoded / length)
            self._fold(Report(said, int(counters.running_requests or 0), _quote(length, rate)), since, at)

    def take_sample(self, now: datetime) -> Sample | None:
        """Return the sample that is due, once."""
        window = self._window
        if window is None or self.source is None:
            return None
        every = timedelta(seconds=SAMPLE_EVERY_S)
        if self._sampled_at is not None and now - self._sampled_at < every:
            return None
        if window.decoding.verify_steps < ENOUGH_STEPS and now - window.began_at < every:
            return None
        self._window, self._sampled_at = None, now
        window_s = (now - window.began_at).total_seconds()
        return Sample(now, window_s, self.source, window.decoding, window.running_requests)

    def _fold(self, report: Report, since: datetime, at: datetime) -> None:
        self._judge.fold(report, at)
        window = self._window or _Window(since, Decoding(), 0)
        self._window = replace(
            window,
            decoding=window.decoding + report.decoding,
            running_requests=max(window.running_requests, report.running_requests),
        )


def _decoded_between(before: EngineCounters, after: EngineCounters) -> float:
    """Return the tokens decoded between two scrapes; 0 when they do not count the same.

    A version without a counter of decoding, before 0.5.6, counts those of finished requests.
    """
    counts = before.decode_tokens, after.decode_tokens
    if counts == (None, None):
        counts = before.generation_tokens, after.generation_tokens
    return counts[1] - counts[0] if counts[0] is not None and counts[1] is not None else 0.0


def _quote(length: float, rate: float | None) -> Quote:
    told = f"sglang:spec_accept_length {length:.2f}"
    return Quote(None, told if rate is None else f"{told}, sglang:spec_accept_rate {rate:.2f}")
