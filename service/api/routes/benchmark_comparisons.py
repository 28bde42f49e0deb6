"""Comparisons of benchmark runs: the table, the picture, and the numbers of the picture."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import Parts, PartsNeeded
from service.api.pictures import CSV_ANSWER, SVG_ANSWER, csv_response, svg_response
from service.api.problems import problems
from service.api.schemas.benchmark_comparisons import BenchmarkComparison, comparison_public
from service.benchmarks.comparison import Policy
from service.benchmarks.judging import THRESHOLD
from service.benchmarks.metrics import DEFAULT_METRICS
from service.benchmarks.plots import ParetoX, Picture, latency_picture, pareto_picture
from service.benchmarks.results import Result
from service.db import benchmark_history, benchmarks
from service.db import profiles as profile_queries
from service.errors import InvalidInput, NotFound
from service.operations import comparing
from service.operations.telling_history import require_metric

router = APIRouter(prefix="/benchmark-comparisons", tags=["benchmarks"], route_class=GuardedRoute)


class PictureKind(StrEnum):
    """What a picture of a comparison shows."""

    PARETO = "pareto"
    """Throughput (per GPU where GPUs are known) against what it costs the user."""
    LATENCY = "latency"
    """A metric against the load, with the limits of goodput as lines."""


@dataclass(frozen=True, slots=True)
class Sides:
    """What is compared: ids of runs, each side of one or more."""

    baseline: list[str]
    candidate: list[str]


def get_sides(
    baseline: Annotated[
        list[str],
        Query(
            description="The id of a run, or a profile's name: its baseline. Several runs are one side.", max_length=50
        ),
    ],
    candidate: Annotated[list[str], Query(description="The id of a run; several are one side.", max_length=50)],
) -> Sides:
    """Return what is to be compared, each run once."""
    return Sides(list(dict.fromkeys(baseline)), list(dict.fromkeys(candidate)))


_PRIMARY = "The metric that decides; output_throughput_tps, in an open loop e2e_p50_ms."
SidesNeeded = Annotated[Sides, Depends(get_sides)]


@router.get("", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def compare_benchmark_runs(
    sides: SidesNeeded,
    parts: PartsNeeded,
    primary: Annotated[str | None, Query(description=_PRIMARY)] = None,
    metric: Annotated[list[str] | None, Query(description="Further metrics to judge.", max_length=40)] = None,
    threshold: Annotated[float, Query(gt=0, lt=1, description="A smaller change, as a share, is none.")] = THRESHOLD,
    accept: Annotated[
        list[str] | None, Query(description="Fields of the key that may differ, such as gpu_model.", max_length=30)
    ] = None,
) -> BenchmarkComparison:
    """Compare runs, point of load with point of load.

    A metric is `improved` or `regressed` when its change is larger than the threshold, than the noise between repeats
    explains, and than twice what twelve or more earlier runs of the same differ by themselves; `equivalent` when the
    whole interval lies within the threshold; else `inconclusive`, with the number of repeats that would tell. What
    differs in model, workload, load, GPUs or limits is `not_comparable` unless the field is accepted. What stands
    beside it, the accept length above all, explains and gets no verdict.
    """
    policy = Policy(
        primary=None if primary is None else require_metric(primary),
        metrics=tuple(require_metric(name) for name in (DEFAULT_METRICS if metric is None else metric)),
        threshold=threshold,
        accepted_differences=frozenset(accept or ()),
    )
    resolved, first, second = await _load(parts, sides)
    async with parts.control.database.read() as session:
        noise = await comparing.noise_of(session, resolved.baseline, resolved.candidate)
    made = await comparing.compare_results(first, second, policy, noise=noise)
    return comparison_public(made, resolved.baseline, resolved.candidate)


@router.get("/plot.svg", response_class=Response, responses={**SVG_ANSWER, **problems(NotFound, InvalidInput)})
@needs(Role.VIEWER)
async def draw_benchmark_comparison(
    sides: SidesNeeded,
    parts: PartsNeeded,
    picture: Annotated[PictureKind, Query(description="Which picture.")] = PictureKind.PARETO,
    x: Annotated[
        ParetoX, Query(description="What a Pareto picture trades throughput against.")
    ] = ParetoX.INTERACTIVITY,
    metric: Annotated[str, Query(description="What a latency picture shows.")] = "ttft_p99_ms",
) -> Response:
    """Draw both sides over all their points of load, with 95 % intervals over the repeats."""
    return svg_response((await _picture(parts, sides, picture, x, metric)).svg)


@router.get("/plot.csv", response_class=Response, responses={**CSV_ANSWER, **problems(NotFound, InvalidInput)})
@needs(Role.VIEWER)
async def tabulate_benchmark_comparison(
    sides: SidesNeeded,
    parts: PartsNeeded,
    picture: Annotated[PictureKind, Query(description="Of which picture.")] = PictureKind.PARETO,
    x: Annotated[
        ParetoX, Query(description="What a Pareto picture trades throughput against.")
    ] = ParetoX.INTERACTIVITY,
    metric: Annotated[str, Query(description="What a latency picture shows.")] = "ttft_p99_ms",
) -> Response:
    """Return the numbers behind the picture of the same parameters."""
    return csv_response((await _picture(parts, sides, picture, x, metric)).csv, "benchmark-comparison.csv")


async def _picture(parts: Parts, sides: Sides, picture: PictureKind, x: ParetoX, metric: str) -> Picture:
    require_metric(metric)
    resolved, first, second = await _load(parts, sides)
    curves = {
        f"baseline {_title(first, resolved.baseline)}": first,
        f"candidate {_title(second, resolved.candidate)}": second,
    }
    if picture is PictureKind.PARETO:
        return await asyncio.to_thread(pareto_picture, curves, x=x)
    return await asyncio.to_thread(latency_picture, curves, metric, limits=_limits([*first, *second], metric))


async def _load(parts: Parts, sides: Sides) -> tuple[Sides, list[Result], list[Result]]:
    """Return the runs of both sides with their results; a profile stands for its baseline."""
    async with parts.control.database.read() as session:
        newest = await benchmarks.get_run(session, sides.candidate[-1])
        baseline = []
        for name in sides.baseline:
            profile = await profile_queries.find_profile(session, name)
            if profile is None:
                baseline.append(name)
                continue
            pinned = await benchmark_history.find_baseline(session, profile.id, newest.benchmark)
            if pinned is None:
                raise NotFound(f"profile {profile.name} has no baseline for benchmark {newest.benchmark!r}")
            baseline.append(pinned.run_id)
        first = await comparing.results_of(session, baseline)
        second = await comparing.results_of(session, sides.candidate)
    return Sides(baseline, sides.candidate), first, second


def _title(results: Sequence[Result], runs: Sequence[str]) -> str:
    server = results[0].server
    version = f"v{server.profile_version}" if server.profile_version is not None else None
    known = [part for part in (server.profile, version, server.engine_version) if part]
    return " ".join(known) or ", ".join(runs[:3])


def _limits(results: Sequence[Result], metric: str) -> Mapping[str, float]:
    """Return the limits of goodput that concern a metric, where all results have the same."""
    name = metric.partition("_")[0]
    limits = {getattr(result.slo, f"{name}_ms", None) if result.slo else None for result in results}
    limit = limits.pop() if len(limits) == 1 else None
    return {} if limit is None else {f"{name} limit": limit}
