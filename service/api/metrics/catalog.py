"""Every metric of Vigil's own by name: what it counts or measures, and its labels.

Units are in the names, as is the custom: seconds, bytes, `_total` for what only grows. Labels are names of the fleet
and words of closed sets, so that there are as many series as servers and nodes, times a constant.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a metric moves."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One name with all its series."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, Kind.GAUGE, text, labels)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, Kind.COUNTER, text, labels)


def _histogram(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, Kind.HISTOGRAM, text, labels)


SERVER = ("server", "node", "profile")
POINT = ("profile", "benchmark", "load")

BUILD = _gauge("vigil_build_info", "1; the version is its label.", "version")

SERVER_STATE = _gauge("vigil_server_state", "1 for the state that a server is in, 0 for the others.", *SERVER, "state")
SERVER_SINCE = _gauge("vigil_server_state_since_timestamp_seconds", "When a server came to its state.", *SERVER)
SERVER_DESIRED = _gauge("vigil_server_desired_running", "1 if a server was last asked to run, 0 if to stop.", *SERVER)
SERVER_VERDICT = _gauge(
    "vigil_server_verdict", "1 for what is thought of a launch now; no other is told.", *SERVER, "verdict"
)
SERVER_LAUNCHES = _counter("vigil_server_launches_total", "Launches of a server since it was placed.", *SERVER)
SERVER_FACTS_AGE = _gauge("vigil_server_facts_age_seconds", "How old the newest facts of a launch are.", *SERVER)
SERVER_ACCEPT_LENGTH = _gauge(
    "vigil_server_accept_length",
    "Tokens per verify step of speculation, as last judged; none while it is idle.",
    *SERVER,
)
FINDING_OPEN = _gauge(
    "vigil_finding_open", "1 for what is wrong now; the server is empty for a node's.", "server", "node", "code"
)

NODE_CONTACT = _gauge("vigil_node_contact", "1 for the contact that a node is in, 0 for the others.", "node", "contact")
NODE_SINCE = _gauge("vigil_node_contact_since_timestamp_seconds", "When a node came to its contact.", "node")
NODE_HEARD = _gauge("vigil_node_heard_age_seconds", "Seconds since a node was last heard.", "node")
NODE_DISK = _gauge("vigil_node_disk_free_bytes", "Free on the disk of the login's home.", "node")
NODE_SHM = _gauge("vigil_node_shm_free_bytes", "Free in /dev/shm.", "node")
WATCH_LAG = _gauge("vigil_watch_lag_seconds", "Seconds since the last good turn of a node's watcher.", "node")
WATCHERS_LATE = _gauge("vigil_watchers_late", "Watchers and vital jobs that /readyz calls late.")
SSH_CONNECTIONS = _gauge("vigil_ssh_connections", "Connections to nodes and jump hosts.", "state")

JOB_DONE = _gauge("vigil_job_last_success_timestamp_seconds", "When a timed job was last done well.", "job")
JOB_LATE = _gauge("vigil_job_late", "1 for a timed job that was not done well for more than two intervals.", "job")
BACKUP_DONE = _gauge("vigil_backup_last_success_timestamp_seconds", "When the newest scheduled backup was made.")
DATABASE_SIZE = _gauge("vigil_database_size_bytes", "Size of the SQLite database with its log.")
DATABASE_WRITES = _counter("vigil_database_writes_total", "Write transactions since the start of the service.")
DATABASE_WAITED = _counter("vigil_database_write_wait_seconds_total", "How long writers waited for their turn.")
DATABASE_HELD = _counter("vigil_database_write_seconds_total", "How long write transactions took.")

EVENTS = _counter("vigil_events_total", "Events told since the start of the service.", "kind")
TRANSITIONS = _counter("vigil_transitions_total", "Transitions since the start of the service.", "subject", "reason")
OPERATIONS_RUNNING = _gauge("vigil_operations_running", "Operations that have not ended.", "kind")
OPERATIONS_ENDED = _counter(
    "vigil_operations_ended_total", "Operations that ended since the start of the service.", "kind", "state"
)
PHASE_SECONDS = _histogram(
    "vigil_start_phase_seconds", "How long starts stayed in a phase that ended well.", "profile", "phase"
)
START_SECONDS = _histogram("vigil_start_seconds", "From the request to ready.", "profile")
DELIVERIES_PENDING = _gauge("vigil_webhook_deliveries_pending", "Deliveries to webhooks that are still to be made.")

BENCHMARK_TOKENS = _gauge(
    "vigil_benchmark_output_tokens_per_second", "Throughput of the newest sound run of a benchmark.", *POINT
)
BENCHMARK_TTFT = _gauge(
    "vigil_benchmark_ttft_p99_seconds", "Time to the first token in the newest sound run, 99th percentile.", *POINT
)
BENCHMARK_ACCEPT = _gauge("vigil_benchmark_accept_length", "Accept length in the newest sound run.", *POINT)
BENCHMARK_REGRESSED = _gauge(
    "vigil_benchmark_regressed",
    "1 if the newest sound run is worse than the baseline, 0 if not.",
    "profile",
    "benchmark",
)

PROCESS_START = _gauge("process_start_time_seconds", "When the service started.")
PROCESS_CPU = _counter("process_cpu_seconds_total", "CPU time of the service, user and system.")
PROCESS_MEMORY = _gauge("process_resident_memory_bytes", "Memory of the service that is in RAM.")
PROCESS_FILES = _gauge("process_open_fds", "Open file descriptors of the service.")
PROCESS_MAX_FILES = _gauge("process_max_fds", "How many file descriptors the service may open.")

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
