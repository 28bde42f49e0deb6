"""The history of a profile's benchmarks: one metric of one comparability key over time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from service.benchmarks.history import History, HistoryPoint, history
from service.benchmarks.metrics import METRICS, PRIMARY_METRIC
from service.db import benchmark_history as queries
from service.db.benchmark_history import Series
from service.errors import InvalidInput, NotFound

DEFAULT_POINTS = 200
MAX_POINTS = 1000


@dataclass(frozen=True, slots=True)
class HistoryWish:
    """Which history is wanted."""

    metric: str = PRIMARY_METRIC
    key: str | None = None
    """The comparability key; by default that of the newest run."""
    benchmark: str | None = None
    limit: int = DEFAULT_POINTS


@dataclass(frozen=True, slots=True)
class ToldHistory:
    """A history, and what else the profile has histories of."""

    series: Series
    others: Sequence[Series]
    history: History


async def tell(session: AsyncSession, profile_id: str, wish: HistoryWish) -> ToldHistory:
    """Return the newest points of one series, with their change points.

    NotFound when the profile has no such history. Values of zero, of which no ratio can be told, are left out.
    """
    require_metric(wish.metric)
    every = await queries.list_series(session, profile_id, benchmark=wish.benchmark)
    chosen = [series for series in every if wish.key in {None, series.key}]
    if not chosen and wish.key is not None:  # it may be older than the newest ones, which are all that is listed
        chosen = await queries.list_series(session, profile_id, benchmark=wish.benchmark, key=wish.key)
    if not chosen:
        raise NotFound("there is no ended run of this profile with this benchmark and key")
    series = chosen[0]
    rows = await queries.newest_points(
        session, profile_id, series.key, wish.metric, benchmark=wish.benchmark, limit=wish.limit
    )
    points = [HistoryPoint(row.run_id, row.at, row.value, row.version) for row in rows if row.value > 0]
    told = await asyncio.to_thread(history, wish.metric, points)
    others = [other for other in every if other.key != series.key]
    return ToldHistory(series, others[: queries.MAX_SERIES - 1], told)


def require_metric(name: str) -> str:
    """Return the name of a metric; InvalidInput if there is none of this name."""
    if name not in METRICS:
        raise InvalidInput(f"there is no metric {name!r}; there are {', '.join(METRICS)}")
    return name
