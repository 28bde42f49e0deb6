"""The whole fleet in a few columns, as metrics need it: one row a server or node, nothing that is long."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.benchmarks.runs import RunSource, RunState
from service.db.benchmark_tables import BenchmarkPoint, BenchmarkRun
from service.db.event_tables import WebhookDelivery
from service.db.tables import Finding, Launch, LaunchPhase, Node, Operation, Profile, Server
from service.ids import new_id
from service.servers.event import DeliveryState
from service.servers.operation import OperationKind, OperationState
from service.servers.states import Desired, State
from service.sglang.phases import Phase


@dataclass(frozen=True, slots=True)
class ServerOverview:
    """A server as its row has it, under names."""

    id: str
    name: str
    node: str
    profile: str
    state: State
    state_since_at: datetime
    desired: Desired
    launch_id: str | None
    launch_count: int


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """Something that is wrong now; the server is None for a node's."""

    server: str | None
    node: str
    code: str


@dataclass(frozen=True, slots=True)
class BenchmarkOverview:
    """One point of load of the newest sound run of a benchmark with a profile."""

    profile: str
    benchmark: str
    load: str
    metrics: dict[str, float]
    verdict: str | None
    """What the comparison with the baseline said; None without one."""


@dataclass(frozen=True, slots=True)
class StartTimes:
    """How long the start of a launch took, in all (None for one that was taken over) and phase by phase."""

    profile: str
    total_s: float | None
    phases: tuple[tuple[Phase, float], ...]


async def servers(session: AsyncSession) -> list[ServerOverview]:
    """Return every server that is not deleted."""
    query = (
        select(
            col(Server.id),
            col(Server.name),
            col(Node.name),
            col(Profile.name),
            col(Server.state),
            col(Server.state_since_at),
            col(Server.desired),
            col(Server.launch_id),
            col(Server.launch_count),
        )  # type: ignore[call-overload]
        .join(Node, col(Node.id) == col(Server.node_id))
        .join(Profile, col(Profile.id) == col(Server.profile_id))
        .where(col(Server.deleted_at).is_(None))
        .order_by(col(Server.id))
    )
    return [ServerOverview(*row) for row in await session.execute(query)]


async def open_findings(session: AsyncSession) -> list[OpenFinding]:
    """Return what is wrong now with servers and nodes that are not deleted."""
    query = (
        select(col(Server.name), col(Node.name), col(Finding.code))
        .select_from(Finding)
        .join(Node, col(Node.id) == col(Finding.node_id))
        .join(Server, col(Server.id) == col(Finding.server_id), isouter=True)
        .where(col(Finding.ended_at).is_(None), col(Node.deleted_at).is_(None), col(Server.deleted_at).is_(None))
        .distinct()
    )
    return [OpenFinding(*row) for row in await session.execute(query)]


async def running_operations(session: AsyncSession) -> dict[OperationKind, int]:
    """Return how many operations of each kind have not ended."""
    query = (
        select(col(Operation.kind), func.count())
        .where(col(Operation.state) == OperationState.RUNNING)
        .group_by(col(Operation.kind))
    )
    return {row[0]: row[1] for row in await session.execute(query)}


async def pending_deliveries(session: AsyncSession) -> int:
    """Return how many deliveries to webhooks are still to be made."""
    query = select(func.count()).where(col(WebhookDelivery.state) == DeliveryState.PENDING)
    return (await session.execute(query)).scalar_one()


async def newest_results(session: AsyncSession, since: datetime) -> list[BenchmarkOverview]:
    """Return the points of the newest sound run, since an instant, of each benchmark with each profile."""
    newest = (
        select(func.max(col(BenchmarkRun.id)))
        .where(
            col(BenchmarkRun.id) >= new_id("br", since)[:12],
            col(BenchmarkRun.state) == RunState.SUCCEEDED,
            col(BenchmarkRun.source) == RunSource.OWN,
            col(BenchmarkRun.benchmark).is_not(None),
        )
        .group_by(col(BenchmarkRun.profile_id), col(BenchmarkRun.benchmark))
    )
    query = (
        select(
            col(Profile.name),
            col(BenchmarkRun.benchmark),
            col(BenchmarkPoint.load),
            col(BenchmarkPoint.metrics),
            col(BenchmarkRun.comparison),
        )  # type: ignore[call-overload]
        .join(BenchmarkRun, col(BenchmarkRun.id) == col(BenchmarkPoint.run_id))
        .join(Profile, col(Profile.id) == col(BenchmarkRun.profile_id))
        .where(col(BenchmarkRun.id).in_(newest), col(Profile.deleted_at).is_(None))
        .order_by(col(BenchmarkPoint.id))
    )
    return [
        BenchmarkOverview(profile, benchmark, load, metrics, (comparison or {}).get("verdict"))
        for profile, benchmark, load, metrics, comparison in await session.execute(query)
    ]


async def start_times(session: AsyncSession, launch_ids: Sequence[str]) -> list[StartTimes]:
    """Return how long the starts of launches took; only stays in a phase that ended well."""
    query = (
        select(col(Launch.id), col(Profile.name), col(Launch.created_at), col(Launch.ready_at), col(Launch.is_adopted))  # type: ignore[call-overload]
        .join(Profile, col(Profile.id) == col(Launch.profile_id))
        .where(col(Launch.id).in_(launch_ids))
    )
    launches = (await session.execute(query)).all()
    stays: dict[str, list[tuple[Phase, float]]] = {row[0]: [] for row in launches}
    phases = select(col(LaunchPhase.launch_id), col(LaunchPhase.phase), col(LaunchPhase.duration_s)).where(
        col(LaunchPhase.launch_id).in_(list(stays)), col(LaunchPhase.has_ended_well)
    )
    for launch_id, phase, duration_s in await session.execute(phases):
        stays[launch_id].append((phase, duration_s))
    return [
        StartTimes(
            profile,
            (ready_at - created_at).total_seconds() if ready_at is not None and not is_adopted else None,
            tuple(stays[launch_id]),
        )
        for launch_id, profile, created_at, ready_at, is_adopted in launches
    ]
