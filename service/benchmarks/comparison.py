"""Is a candidate better or worse than a baseline: one verdict a metric, which neither cries wolf nor sleeps.

The unit is one whole run; requests within a run say nothing of the noise between runs (facts: benchmarks §6).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from service.benchmarks.comparability import FieldDifference, key_differences, setup_differences, unknown_key_fields
from service.benchmarks.finite import divided
from service.benchmarks.judging import SIGNIFICANCE, THRESHOLD, MetricComparison, Verdict, judge, measure
from service.benchmarks.metrics import CONTEXT_METRICS, DEFAULT_METRICS, OPEN_LOOP_METRICS, PRIMARY_METRIC, metric
from service.benchmarks.noise import KnownNoise, holm
from service.benchmarks.results import LoadMode, Result, ResultStatus

OUTPUT_LENGTH_TOLERANCE = 0.01
"""Answers that differ more in length are other work."""
_OPEN = frozenset({LoadMode.OPEN_POISSON, LoadMode.OPEN_GAMMA, LoadMode.CONSTANT, LoadMode.TRACE})


@dataclass(frozen=True, slots=True)
class ContextValue:
    """A number that explains a comparison and is not judged, as the mean over the runs that have it."""

    metric: str
    unit: str
    baseline: float | None
    candidate: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A candidate against a baseline; the verdict is that of the primary metric."""

    verdict: Verdict
    primary: str
    reasons: tuple[str, ...]
    """Why there is no verdict, or what the verdict rests on."""
    metrics: tuple[MetricComparison, ...]
    context: tuple[ContextValue, ...]
    key_differences: tuple[FieldDifference, ...]
    """Why the two may not be compared."""
    setup_differences: tuple[FieldDifference, ...]
    """What was changed between them."""
    cautions: tuple[str, ...] = ()
    more_repeats: int | None = None

    @property
    def regressions(self) -> tuple[MetricComparison, ...]:
        """Return the metrics that got worse, the primary one first."""
        return tuple(item for item in self.metrics if item.verdict is Verdict.REGRESSED)


@dataclass(frozen=True, slots=True)
class Policy:
    """How a comparison judges."""

    primary: str | None = None
    """The metric that decides; None takes the one that fits the load (`primary_metric`)."""
    metrics: Sequence[str] = DEFAULT_METRICS
    threshold: float = THRESHOLD
    noise: Mapping[str, KnownNoise] = field(default_factory=dict)
    """By metric, from earlier runs of the same: it widens the threshold, and judges where the repeats are too few."""
    accepted_differences: frozenset[str] = frozenset()
    """Fields of the key that somebody has seen to differ and accepts: they become cautions, others still block."""

    def threshold_of(self, name: str) -> float:
        """Return the smallest change of a metric that counts: twice its known spread when that is more."""
        known = self.noise.get(name)
        return self.threshold if known is None else max(self.threshold, 2 * known.between_runs)


def compare(baseline: Sequence[Result], candidate: Sequence[Result], *, policy: Policy | None = None) -> Comparison:
    """Compare the repeats of a candidate with those of a baseline, all of one point of load a side.

    Raises ValueError when a side has no result, or mixes keys within itself.
    """
    policy = policy or Policy()
    for side in (baseline, candidate):
        _require_one_point(side)
    differences = key_differences(baseline[0], candidate[0])
    blocking = [item for item in differences if item.field not in policy.accepted_differences]
    reasons = tuple(_blocks(baseline, candidate, blocking))
    deciding = policy.primary or primary_metric((*baseline, *candidate))
    names = dict.fromkeys((deciding, *policy.metrics))
    judged = _judged([_measured(name, baseline, candidate, policy) for name in names], deciding)
    if reasons:
        judged = [replace(item, verdict=Verdict.NOT_COMPARABLE, more_repeats=None, reason=None) for item in judged]
    judged = [item for item in judged if item.metric == deciding or _has_values(item)]
    primary = judged[0]
    return Comparison(
        verdict=primary.verdict,
        primary=deciding,
        reasons=reasons or ((primary.reason,) if primary.reason else ()),
        metrics=tuple(judged),
        context=tuple(_context(baseline, candidate)),
        key_differences=differences,
        setup_differences=setup_differences(baseline[0], candidate[0]),
        cautions=(*_accepted(differences, policy), *_widened(judged, policy), *_cautions(baseline, candidate, judged)),
        more_repeats=primary.more_repeats,
    )


def primary_metric(results: Sequence[Result]) -> str:
    """Return what decides where nothing is named: the throughput, but in an open loop the latency of a request.

    The throughput of an open loop is that of its arrivals until the server falls behind them, so that it hides what
    became slower. Where a tool did not measure the whole request, the time to the first token stands for it.
    """
    if all(result.load.mode in _OPEN for result in results):
        for name in OPEN_LOOP_METRICS:
            if all(metric(name).read(result) is not None for result in results):
                return name
    return PRIMARY_METRIC


def interleaved(repeats: int) -> str:
    """Return the order in which two servers take turns: ABBAAB…, so that a drift of the machine hits both alike."""
    return "".join("AB" if turn % 2 == 0 else "BA" for turn in range(repeats))


def _require_one_point(side: Sequence[Result]) -> None:
    if not side:
        raise ValueError("a side of a comparison has no result")
    for other in side[1:]:
        differences = key_differences(side[0], other)
        if differences:
            fields = ", ".join(item.field for item in differences)
            raise ValueError(f"the results of one side differ in {fields}: compare one point of load at a time")


def _blocks(
    baseline: Sequence[Result], candidate: Sequence[Result], differences: Sequence[FieldDifference]
) -> Iterator[str]:
    """Yield why no verdict can be given at all."""
    yield from map(_difference, differences)
    for name, side in (("baseline", baseline), ("candidate", candidate)):
        bad = [result for result in side if result.status is not ResultStatus.OK]
        if bad:
            failed = sum(result.totals.requests_failed or 0 for result in bad)
            yield f"{len(bad)} of {len(side)} runs of the {name} are degraded or failed ({failed} requests failed)"
    lengths = [_mean_of(side, "output_tokens_mean") for side in (baseline, candidate)]
    ratio = divided(lengths[1], lengths[0])
    if ratio is not None and abs(ratio - 1) > OUTPUT_LENGTH_TOLERANCE:
        yield f"the answers have other lengths: {lengths[0]:.1f} against {lengths[1]:.1f} tokens"


def _accepted(differences: Sequence[FieldDifference], policy: Policy) -> list[str]:
    accepted = [item for item in differences if item.field in policy.accepted_differences]
    return [f"{_difference(item)}: accepted by who asked" for item in accepted]


def _widened(items: Sequence[MetricComparison], policy: Policy) -> Iterator[str]:
    for item in items:
        known = policy.noise.get(item.metric)
        if known is not None and item.threshold > policy.threshold:
            what = f"{known.runs} earlier runs of the same differ by themselves"
            yield f"{item.metric}: {what}, so only a change above {item.threshold:.1%} counts"


def _difference(item: FieldDifference) -> str:
    return f"{item.field} differs: {_shown(item.baseline)} against {_shown(item.candidate)}"


def _shown(value: object) -> str:
    return "unknown" if value is None else str(value)


def _mean_of(side: Sequence[Result], name: str) -> float | None:
    values = [value for result in side if (value := metric(name).read(result)) is not None]
    return sum(values) / len(values) if values else None


def _measured(name: str, baseline: Sequence[Result], candidate: Sequence[Result], policy: Policy) -> MetricComparison:
    threshold, known = policy.threshold_of(name), policy.noise.get(name)
    noise = known.one_repeat if known else None
    return measure(metric(name), baseline, candidate, threshold=threshold, noise=noise)


def _judged(items: Sequence[MetricComparison], primary: str) -> list[MetricComparison]:
    """Return the items with verdicts: the primary metric by its own p, the others after Holm's correction."""
    adjusted = holm({item.metric: item.p for item in items if item.p is not None and item.metric != primary})
    return [judge(replace(item, p=adjusted.get(item.metric, item.p))) for item in items]


def _has_values(item: MetricComparison) -> bool:
    return bool(item.baseline_values or item.candidate_values)


def _context(baseline: Sequence[Result], candidate: Sequence[Result]) -> Iterator[ContextValue]:
    for name in CONTEXT_METRICS:
        values = [_mean_of(side, name) for side in (baseline, candidate)]
        if values[0] is not None or values[1] is not None:
            yield ContextValue(name, metric(name).unit, values[0], values[1])


def _cautions(
    baseline: Sequence[Result], candidate: Sequence[Result], items: Sequence[MetricComparison]
) -> Iterator[str]:
    """Yield what a reader should know before he believes the verdict."""
    sides = (("baseline", baseline), ("candidate", candidate))
    unknown_there = unknown_key_fields(candidate[0])
    unknown = [name for name in unknown_key_fields(baseline[0]) if name in unknown_there]
    if unknown:
        yield f"not known, so taken to be equal: {', '.join(unknown)}"
    if {result.client.tool for result in baseline} != {result.client.tool for result in candidate}:
        yield "other tools measured the two sides: TTFT and ITL are not measured alike"
    for name, side in sides:
        yield from _cautions_of_side(name, side)
    if "throughput" in items[0].metric and any(result.load.mode in _OPEN for result in (*baseline, *candidate)):
        yield "the throughput of an open loop is set by the arrivals, not by the server: judge a latency, or goodput"
    if items[0].is_by_start:
        yield "both sides have several starts of the server: the means of the starts are compared"
    for item in items:
        if item.verdict in {Verdict.IMPROVED, Verdict.REGRESSED} and _disagrees(item):
            yield f"{item.metric}: the rank test does not see the change (p {item.rank_p:.3f}): look for an outlier"


def _cautions_of_side(name: str, side: Sequence[Result]) -> Iterator[str]:
    starts = {result.server.server_instance_id for result in side}
    if len(side) > 1 and len(starts) == 1 and None not in starts:
        yield f"all runs of the {name} are of one start of the server: the noise between starts is not counted"
    if any(result.host.other_gpu_processes for result in side):
        yield f"other processes used the GPUs during runs of the {name}"
    if any(result.load.mode is LoadMode.CLOSED_CAPPED for result in side):
        yield f"the rate of the {name} was capped by its concurrency: queueing is hidden"


def _disagrees(item: MetricComparison) -> bool:
    """Tell whether the rank test speaks against the verdict; below four runs a side it cannot speak."""
    smallest = min(len(item.baseline_values), len(item.candidate_values))
    return smallest >= 4 and item.rank_p is not None and item.rank_p > SIGNIFICANCE  # noqa: PLR2004
