"""Comparisons and histories of benchmarks as the API shows them."""

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from service.benchmarks.history import ChangeKind, History
from service.benchmarks.judging import Verdict
from service.benchmarks.metrics import Direction
from service.benchmarks.run_comparison import RunComparison
from service.clock import Instant
from service.db.benchmark_history import Series


class MetricCompared(BaseModel):
    """One metric of both sides."""

    metric: str
    unit: str
    direction: Direction = Field(description="Which direction is better.")
    verdict: Verdict
    baseline_values: list[float] = Field(description="One a run of the client.")
    candidate_values: list[float]
    baseline_mean: float | None
    candidate_mean: float | None
    ratio: float | None = Field(description="Candidate over baseline, of the geometric means.")
    ratio_low: float | None = Field(description="Lower end of the 95 % interval of the ratio.")
    ratio_high: float | None
    change_percent: float | None
    threshold: float = Field(description="A smaller change, as a share, does not count.")
    p: float | None = Field(description="Welch's test on the logarithms; corrected for the number of tests.")
    rank_p: float | None = Field(description="The exact rank test, as a check.")
    more_repeats: int | None = Field(description="How many more repeats a side would tell, when it is inconclusive.")
    reason: str | None


class ContextCompared(BaseModel):
    """A number that explains and gets no verdict, such as the accept length."""

    metric: str
    unit: str
    baseline: float | None
    candidate: float | None


class Difference(BaseModel):
    """A field in which the two sides differ."""

    field: str
    baseline: str | int | float | bool | None
    candidate: str | int | float | bool | None


class PointCompared(BaseModel):
    """One point of load of both sides; the verdict is that of the primary metric."""

    load: str
    verdict: Verdict
    primary: str
    reasons: list[str]
    more_repeats: int | None
    metrics: list[MetricCompared]
    context: list[ContextCompared]
    key_differences: list[Difference] = Field(description="Why the two may not be compared.")
    setup_differences: list[Difference] = Field(description="What was changed between them.")
    cautions: list[str]


class BenchmarkComparison(BaseModel):
    """A candidate against a baseline, point of load by point of load."""

    verdict: Verdict = Field(description="Over all points: `regressed` when one is, else `improved` when one is.")
    baseline_runs: list[str]
    candidate_runs: list[str]
    points: list[PointCompared]
    only_baseline: list[str] = Field(description="Loads that only the baseline was measured at.")
    only_candidate: list[str]


class HistoryPointPublic(BaseModel):
    """One run in a history."""

    run: str
    at: Instant
    value: float = Field(description="The mean over the run's repeats.")
    version: str = Field(description="What ran: engine and profile version.")


class ChangePublic(BaseModel):
    """From this run on the metric is another."""

    run: str
    at: Instant
    kind: ChangeKind
    before: float
    after: float
    ratio: float
    p: float
    version_before: str
    version_after: str


class SeriesPublic(BaseModel):
    """Points that may be compared with each other: each comparability key has a history of its own."""

    key: str
    load: str
    benchmark: str | None
    model: str | None
    points: int
    newest_at: Instant


class BenchmarkHistory(BaseModel):
    """A metric of a profile over time, oldest first, with the points at which it changed for good."""

    profile: str
    metric: str
    unit: str
    direction: Direction
    series: SeriesPublic
    points: list[HistoryPointPublic]
    changes: list[ChangePublic]
    reason: str | None = Field(description="Why no changes are told.")
    other_series: list[SeriesPublic] = Field(description="Ask for one of them by its `key`; at most 49.")


def comparison_public(made: RunComparison, baseline: list[str], candidate: list[str]) -> BenchmarkComparison:
    """Return a comparison as the API shows it."""
    return BenchmarkComparison(
        verdict=made.verdict,
        baseline_runs=baseline,
        candidate_runs=candidate,
        points=[
            PointCompared.model_validate(
                {
                    "load": point.load,
                    **asdict(point.comparison),
                    "metrics": [
                        {**asdict(item), "change_percent": item.change_percent} for item in point.comparison.metrics
                    ],
                }
            )
            for point in made.points
        ],
        only_baseline=list(made.only_baseline),
        only_candidate=list(made.only_candidate),
    )


def series_public(series: Series) -> SeriesPublic:
    """Return a series as the API shows it."""
    return SeriesPublic(
        key=series.key,
        load=series.load,
        benchmark=series.benchmark,
        model=series.model,
        points=series.point_count,
        newest_at=series.newest_at,
    )


def points_public(told: History) -> tuple[list[HistoryPointPublic], list[ChangePublic]]:
    """Return the points and changes of a history as the API shows them."""
    points = [HistoryPointPublic(run=p.run_id, at=p.at, value=p.value, version=p.version) for p in told.points]
    changes = [
        ChangePublic(run=change.run_id, **_without(asdict(change), "index", "run_id")) for change in told.changes
    ]
    return points, changes


def _without(fields: dict[str, object], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}
