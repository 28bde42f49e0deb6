"""The starts of a profile that became ready: phase by phase, and how the last one compares with the earlier ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import servers as server_queries
from service.db import starts
from service.db.tables import Launch
from service.servers.progress import History, PhaseSample, StartComparison, compare_start
from service.servers.progress.samples import quantile, seconds_by_phase
from service.sglang.phases import Phase

LISTED_STARTS = 30


@dataclass(frozen=True, slots=True)
class Spread:
    """How long one phase took over several starts, in seconds."""

    phase: Phase
    start_count: int
    p50_s: float
    p90_s: float
    least_s: float
    most_s: float


@dataclass(frozen=True, slots=True)
class Starts:
    """Launches with their stays, newest first; names of servers by id; the comparison of the newest."""

    launches: Sequence[Launch]
    stays: dict[str, tuple[PhaseSample, ...]]
    server_names: dict[str, str]
    spreads: tuple[Spread, ...]
    comparison: StartComparison | None


async def read_starts(session: AsyncSession, profile_id: str, *, node_id: str | None) -> Starts:
    """Read the newest starts of a profile that became ready, on all nodes or on one."""
    launches = await starts.ready_launches_of_profile(session, profile_id, node_id=node_id, limit=LISTED_STARTS)
    samples = await starts.phases_of(session, [launch.id for launch in launches])
    stays = {launch.id: tuple(sample for sample in samples if sample.launch_id == launch.id) for launch in launches}
    names = await server_queries.names_of(session, {launch.server_id for launch in launches})
    return Starts(launches, stays, names, _spreads(stays), _comparison(launches, stays))


def _comparison(launches: Sequence[Launch], stays: dict[str, tuple[PhaseSample, ...]]) -> StartComparison | None:
    """Compare the newest start with the earlier ones of the same model on the same node."""
    if not launches:
        return None
    newest = launches[0]
    place = (newest.node_id, newest.model_path)
    earlier = [launch for launch in launches[1:] if (launch.node_id, launch.model_path) == place]
    history = History(profile_on_node=tuple(sample for launch in earlier for sample in stays[launch.id]))
    return compare_start(
        stays[newest.id],
        history,
        cached_share=newest.cached_share,
        earlier_cached_shares=[launch.cached_share for launch in earlier],
    )


def _spreads(stays: dict[str, tuple[PhaseSample, ...]]) -> tuple[Spread, ...]:
    seconds: dict[Phase, list[float]] = {}
    for samples in stays.values():
        for phase, duration_s in seconds_by_phase(samples).items():
            seconds.setdefault(phase, []).append(duration_s)
    return tuple(
        Spread(phase, len(values), quantile(values, 0.5), quantile(values, 0.9), min(values), max(values))
        for phase, values in seconds.items()
    )
