"""The history of a profile's benchmarks: the series, the picture, and the numbers of the picture."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import Parts, PartsNeeded
from service.api.pictures import CSV_ANSWER, SVG_ANSWER, csv_response, svg_response
from service.api.problems import problems
from service.api.schemas.benchmark_comparisons import BenchmarkHistory, points_public, series_public
from service.benchmarks.metrics import METRICS, PRIMARY_METRIC
from service.benchmarks.plots import Picture, history_picture
from service.db import profiles as profile_queries
from service.errors import InvalidInput, NotFound
from service.operations import telling_history
from service.operations.telling_history import DEFAULT_POINTS, MAX_POINTS, HistoryWish, ToldHistory

router = APIRouter(prefix="/benchmark-history", tags=["benchmarks"], route_class=GuardedRoute)
ProfileNeeded = Annotated[str, Query(description="The profile, by its name or id.")]


def get_wish(
    metric: Annotated[str, Query(description="The metric, such as ttft_p99_ms.")] = PRIMARY_METRIC,
    key: Annotated[
        str | None, Query(pattern=r"^[0-9a-f]{32}$", description="Which series; by default that of the newest run.")
    ] = None,
    benchmark: Annotated[str | None, Query(description="Only runs of the benchmark of this name.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_POINTS, description="How many of the newest points.")] = DEFAULT_POINTS,
) -> HistoryWish:
    """Return which history is wanted."""
    return HistoryWish(metric=metric, key=key, benchmark=benchmark, limit=limit)


WishNeeded = Annotated[HistoryWish, Depends(get_wish)]


@router.get("", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def get_benchmark_history(profile: ProfileNeeded, wish: WishNeeded, parts: PartsNeeded) -> BenchmarkHistory:
    """Show a metric over the runs of a profile, oldest first, and where it changed for good.

    One history is of one comparability key: the same model, workload, load, GPUs and limits. Changes are told from
    eight runs on.
    """
    name, told = await _tell(parts, profile, wish)
    points, changes = points_public(told.history)
    return BenchmarkHistory(
        profile=name,
        metric=wish.metric,
        unit=METRICS[wish.metric].unit,
        direction=METRICS[wish.metric].direction,
        series=series_public(told.series),
        points=points,
        changes=changes,
        reason=told.history.reason,
        other_series=[series_public(series) for series in told.others],
    )


@router.get("/plot.svg", response_class=Response, responses={**SVG_ANSWER, **problems(NotFound, InvalidInput)})
@needs(Role.VIEWER)
async def draw_benchmark_history(profile: ProfileNeeded, wish: WishNeeded, parts: PartsNeeded) -> Response:
    """Draw a history: one dot a run, versions where they change, and change points."""
    return svg_response((await _picture(parts, profile, wish)).svg)


@router.get("/plot.csv", response_class=Response, responses={**CSV_ANSWER, **problems(NotFound, InvalidInput)})
@needs(Role.VIEWER)
async def tabulate_benchmark_history(profile: ProfileNeeded, wish: WishNeeded, parts: PartsNeeded) -> Response:
    """Return the numbers behind the picture of the same parameters."""
    return csv_response((await _picture(parts, profile, wish)).csv, "benchmark-history.csv")


async def _tell(parts: Parts, profile: str, wish: HistoryWish) -> tuple[str, ToldHistory]:
    async with parts.control.database.read() as session:
        row = await profile_queries.get_profile(session, profile)
        return row.name, await telling_history.tell(session, row.id, wish)


async def _picture(parts: Parts, profile: str, wish: HistoryWish) -> Picture:
    name, told = await _tell(parts, profile, wish)
    title = ", ".join(filter(None, [name, told.series.benchmark, told.series.load]))
    return await asyncio.to_thread(history_picture, told.history, title=title)
