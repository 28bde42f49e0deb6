"""The fleet at one moment: what the database says and what is known live, read together."""

import resource
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from time import process_time

from service.db import nodes as node_queries
from service.db import overview
from service.db.engine import WriteTimes
from service.db.holding import database_file
from service.db.nodes import NodeContact
from service.operations import backups
from service.operations.control import Control
from service.operations.lateness import late_jobs, late_names
from service.operations.live import LiveLaunch
from service.servers.operation import OperationKind
from service.servers.states import RUNNING_STATES
from service.sglang.acceptance.judging import Judgement

BENCHMARKS_OF_DAYS = 30
"""Older runs are history, which the API tells; a benchmark that was given up must not stay for ever."""


@dataclass(frozen=True, slots=True)
class ServerLive:
    """What is known of a server's launch beside its row."""

    verdict: str | None = None
    facts_age_s: float | None = None
    accept_length: float | None = None


@dataclass(frozen=True, slots=True)
class NodeLive:
    """What is known of a node beside its row."""

    heard_age_s: float | None
    watch_lag_s: float | None
    disk_free_mib: int | None
    shm_free_mib: int | None


@dataclass(frozen=True, slots=True)
class Process:
    """What the service itself takes."""

    started_at: datetime
    cpu_s: float
    resident_bytes: int
    open_files: int
    max_files: int


@dataclass(frozen=True, slots=True)
class Picture:
    """All that the gauges are made of."""

    servers: list[tuple[overview.ServerOverview, ServerLive]]
    nodes: list[tuple[NodeContact, NodeLive]]
    findings: list[overview.OpenFinding]
    operations: dict[OperationKind, int]
    benchmarks: list[overview.BenchmarkOverview]
    deliveries_pending: int
    connections: dict[str, int]
    late_count: int
    jobs_done_at: dict[str, datetime | None]
    late_jobs: frozenset[str]
    backup_at: datetime | None
    database_bytes: int | None
    writes: WriteTimes
    process: Process


async def take(control: Control, *, started_at: datetime) -> Picture:
    """Look at the database once and at what is live; nobody outside is asked."""
    now, live = control.now(), control.live
    async with control.database.read() as session:
        servers = await overview.servers(session)
        nodes = await node_queries.node_contacts(session)
        findings = await overview.open_findings(session)
        operations = await overview.running_operations(session)
        benchmarks = await overview.newest_results(session, now - timedelta(days=BENCHMARKS_OF_DAYS))
        deliveries = await overview.pending_deliveries(session)
    directory = control.settings.backup_dir
    return Picture(
        servers=[(server, _server_live(control, server, now)) for server in servers],
        nodes=[(node, _node_live(control, node, now)) for node in nodes],
        findings=findings,
        operations=operations,
        benchmarks=benchmarks,
        deliveries_pending=deliveries,
        connections=control.connections.counts(),
        late_count=len(late_names(control.settings, live, nodes, now)),
        jobs_done_at={name: job.done_at for name, job in live.jobs.items()},
        late_jobs=frozenset(late_jobs(live, now, is_vital=True) + late_jobs(live, now, is_vital=False)),
        backup_at=backups.newest_at(directory) if directory else None,
        database_bytes=_size_bytes(database_file(control.database.url)),
        writes=replace(control.database.write_times),
        process=_process(started_at),
    )


def _server_live(control: Control, server: overview.ServerOverview, now: datetime) -> ServerLive:
    launch = control.live.launches.get(server.launch_id or "")
    if launch is None or server.state not in RUNNING_STATES:
        return ServerLive()
    thought = launch.thought
    return ServerLive(
        verdict=thought.verdict if thought else None,
        facts_age_s=_age_s(launch.observed_at, now),
        accept_length=_accept_length(launch, now),
    )


def _accept_length(launch: LiveLaunch, now: datetime) -> float | None:
    """Return what speculation was last judged by; None while it is idle, or does not exist."""
    ledger = launch.verdicts.acceptance if launch.verdicts else None
    if ledger is None or ledger.proven is None or ledger.standing(now).judgement is Judgement.UNKNOWN:
        return None
    return ledger.proven.decoding.accept_length


def _node_live(control: Control, node: NodeContact, now: datetime) -> NodeLive:
    live = control.live.node(node.id)
    return NodeLive(_age_s(live.heard_at, now), _age_s(live.turn_at, now), live.disk_free_mib, live.shm_free_mib)


def _age_s(at: datetime | None, now: datetime) -> float | None:
    return (now - at).total_seconds() if at else None


def _process(started_at: datetime) -> Process:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return Process(
        started_at=started_at,
        cpu_s=process_time(),
        resident_bytes=pages * resource.getpagesize(),
        open_files=len(list(Path("/proc/self/fd").iterdir())),
        max_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def _size_bytes(path: Path | None) -> int | None:
    """Return the size of the database with its log; None where it is no file."""
    if path is None:
        return None
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
