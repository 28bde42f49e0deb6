"""The page for Prometheus: every metric of the catalog, made of a picture of the fleet and the tallies."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from service.api.metrics import catalog
from service.api.metrics.exposition import NO_LABELS, Labels, Series, family, histograms, labelled
from service.api.metrics.picture import Picture, Process
from service.api.metrics.tallies import Tallies
from service.db.overview import BenchmarkOverview, ServerOverview
from service.nodes.contact import Contact
from service.servers.operation import OperationKind
from service.servers.states import Desired, State

MIB = 2**20
REGRESSED = "regressed"


def page_of(picture: Picture, tallies: Tallies, version: str) -> bytes:
    """Return the page; with a thousand servers this takes some tens of milliseconds of CPU, so call it in a thread."""
    lines = labelled(catalog.BUILD, {(version,): 1.0})
    for part in (
        _of_servers(picture),
        _of_nodes(picture),
        _of_the_service(picture),
        _of_operations(picture, tallies),
        _of_benchmarks(picture.benchmarks),
        _of_the_process(picture.process),
    ):
        for metric in part:
            lines += metric
    return ("\n".join(lines) + "\n").encode()


def _of_servers(picture: Picture) -> Iterator[list[str]]:
    rows = [(_names(server), server, live) for server, live in picture.servers]
    yield family(
        catalog.SERVER_STATE,
        ((names.plus("state", state), float(server.state is state)) for names, server, _ in rows for state in State),
    )
    yield family(catalog.SERVER_SINCE, ((names, server.state_since_at.timestamp()) for names, server, _ in rows))
    yield family(
        catalog.SERVER_DESIRED, ((names, float(server.desired is Desired.RUNNING)) for names, server, _ in rows)
    )
    thought = ((names, live.verdict) for names, _, live in rows)
    yield family(
        catalog.SERVER_VERDICT, ((names.plus("verdict", verdict), 1.0) for names, verdict in thought if verdict)
    )
    yield family(catalog.SERVER_LAUNCHES, ((names, float(server.launch_count)) for names, server, _ in rows))
    yield family(catalog.SERVER_FACTS_AGE, ((names, live.facts_age_s) for names, _, live in rows))
    yield family(catalog.SERVER_ACCEPT_LENGTH, ((names, live.accept_length) for names, _, live in rows))
    yield labelled(catalog.FINDING_OPEN, {(one.server or "", one.node, one.code): 1.0 for one in picture.findings})


def _of_nodes(picture: Picture) -> Iterator[list[str]]:
    rows = [(Labels.of(("node",), (node.name,)), node, live) for node, live in picture.nodes]
    yield family(
        catalog.NODE_CONTACT,
        ((name.plus("contact", kind), float(node.contact is kind)) for name, node, _ in rows for kind in Contact),
    )
    yield family(catalog.NODE_SINCE, ((name, node.contact_since_at.timestamp()) for name, node, _ in rows))
    yield family(catalog.NODE_HEARD, ((name, live.heard_age_s) for name, _, live in rows))
    yield family(catalog.WATCH_LAG, ((name, live.watch_lag_s) for name, _, live in rows))
    yield family(catalog.NODE_DISK, ((name, _bytes(live.disk_free_mib)) for name, _, live in rows))
    yield family(catalog.NODE_SHM, ((name, _bytes(live.shm_free_mib)) for name, _, live in rows))


def _of_the_service(picture: Picture) -> Iterator[list[str]]:
    yield family(catalog.WATCHERS_LATE, [(NO_LABELS, float(picture.late_count))])
    yield labelled(catalog.SSH_CONNECTIONS, {(state,): float(n) for state, n in picture.connections.items()})
    done = {(job,): at.timestamp() for job, at in picture.jobs_done_at.items() if at is not None}
    yield labelled(catalog.JOB_DONE, done)
    yield labelled(catalog.JOB_LATE, {(job,): float(job in picture.late_jobs) for job in picture.jobs_done_at})
    yield family(catalog.BACKUP_DONE, [(NO_LABELS, _instant(picture.backup_at))])
    yield family(catalog.DATABASE_SIZE, [(NO_LABELS, picture.database_bytes)])
    yield family(catalog.DATABASE_WRITES, [(NO_LABELS, float(picture.writes.count))])
    yield family(catalog.DATABASE_WAITED, [(NO_LABELS, picture.writes.waited_s)])
    yield family(catalog.DATABASE_HELD, [(NO_LABELS, picture.writes.held_s)])
    yield family(catalog.DELIVERIES_PENDING, [(NO_LABELS, float(picture.deliveries_pending))])


def _of_operations(picture: Picture, tallies: Tallies) -> Iterator[list[str]]:
    yield labelled(
        catalog.OPERATIONS_RUNNING, {(kind,): float(picture.operations.get(kind, 0)) for kind in OperationKind}
    )
    yield labelled(catalog.OPERATIONS_ENDED, tallies.operations)
    yield labelled(catalog.TRANSITIONS, tallies.transitions)
    yield labelled(catalog.EVENTS, {(kind,): float(n) for kind, n in tallies.events.items()})
    yield histograms(catalog.PHASE_SECONDS, tallies.phases)
    yield histograms(catalog.START_SECONDS, tallies.starts)


def _of_benchmarks(rows: Sequence[BenchmarkOverview]) -> Iterator[list[str]]:
    points = [(Labels.of(catalog.POINT, (row.profile, row.benchmark, row.load)), row.metrics) for row in rows]

    def told(metric: str, *, scale: float = 1.0) -> Series:
        return ((labels, metrics[metric] * scale) for labels, metrics in points if metric in metrics)

    yield family(catalog.BENCHMARK_TOKENS, told("output_throughput_tps"))
    yield family(catalog.BENCHMARK_TTFT, told("ttft_p99_ms", scale=0.001))
    yield family(catalog.BENCHMARK_ACCEPT, told("accept_length"))
    yield labelled(
        catalog.BENCHMARK_REGRESSED,
        {(row.profile, row.benchmark): float(row.verdict == REGRESSED) for row in rows if row.verdict is not None},
    )


def _of_the_process(process: Process) -> Iterator[list[str]]:
    yield family(catalog.PROCESS_START, [(NO_LABELS, process.started_at.timestamp())])
    yield family(catalog.PROCESS_CPU, [(NO_LABELS, process.cpu_s)])
    yield family(catalog.PROCESS_MEMORY, [(NO_LABELS, float(process.resident_bytes))])
    yield family(catalog.PROCESS_FILES, [(NO_LABELS, float(process.open_files))])
    yield family(catalog.PROCESS_MAX_FILES, [(NO_LABELS, float(process.max_files))])


def _names(server: ServerOverview) -> Labels:
    return Labels.of(catalog.SERVER, (server.name, server.node, server.profile))


def _bytes(mib: int | None) -> float | None:
    return float(mib * MIB) if mib is not None else None


def _instant(at: datetime | None) -> float | None:
    return at.timestamp() if at else None
