"""What travels between the control plane and a node: orders, answers and facts, as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from service.nodes.inventory import GpuHolder
from service.servers.observation import EffortFact, ListenerFact, ProcessFact

CONFIG_PATH = "{launch_directory}/config.yaml"
"""An argv element equal to this is replaced on the node by the absolute path of the launch's `config.yaml`."""


class Launcher(StrEnum):
    """What started the supervisor on the node."""

    SYSTEMD_SYSTEM = "systemd_system"
    SYSTEMD_USER = "systemd_user"
    SETSID = "setsid"


class Refusal(StrEnum):
    """Why the node refused an order; the `refusal` in the context of a RemoteCommandFailed."""

    PYTHON_MISSING = "python_missing"
    """The node itself has no python3, or one older than 3.8."""
    ENGINE_MISSING = "engine_missing"
    ENGINE_NOT_EXECUTABLE = "engine_not_executable"
    NO_ROOM = "no_room"
    DIRECTORY_UNUSABLE = "directory_unusable"
    """`~/.vigil` cannot be made or written."""
    ORDER_INVALID = "order_invalid"
    """A launch id, variable name or argument that cannot be written safely."""
    LAUNCH_ABSENT = "launch_absent"
    """There is no directory of this launch on the node."""
    LAUNCH_ALIVE = "launch_alive"
    """The launch's directory cannot be removed while it is starting or has a process left."""
    LAUNCH_TAKEN = "launch_taken"
    """The launch that a process shall be adopted into is on the node already, with another process."""
    PROCESS_ABSENT = "process_absent"
    """The process to adopt has ended, or another one has its pid."""
    PROCESS_FOREIGN = "process_foreign"
    """It belongs to another user."""
    PROCESS_CLAIMED = "process_claimed"
    """It belongs to a launch already: started by Vigil, or adopted before."""
    PROCESS_NOT_ENGINE = "process_not_engine"
    """It is not the main process of an SGLang server."""
    CHECKPOINT_UNSOUND = "checkpoint_unsound"
    """A file of the checkpoint that shall be written anew is cut off, garbled, or changed meanwhile."""
    DESTINATION_EXISTS = "destination_exists"
    """Something has the name of the new directory already; nothing is ever written over."""
    FILE_UNREADABLE = "file_unreadable"
    """The file is not there, is no regular file, or may not be read by this user."""
    RESULT_TOO_LARGE = "result_too_large"
    """What a benchmark client wrote is too much to be read."""


class SignalStep(StrEnum):
    """How hard a launch is asked to end."""

    TERM = "term"
    """SIGTERM to the main process."""
    KILL = "kill"
    """SIGKILL to the group and to every process that carries the launch's mark."""


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """What the node needs to start a launch.

    `environment` is added to the login's environment. `secrets` are values that the node masks in whatever it sends
    back. `config_text` becomes `config.yaml` (mode 600) beside the log; argv names it by CONFIG_PATH. `beside` is the
    input (see `bundle.payload`) of a program of ours that runs beside the main process, as its child.
    """

    launch_id: str
    server: str
    port: int
    argv: tuple[str, ...]
    created_at: datetime
    environment: Mapping[str, str] = field(default_factory=dict)
    config_text: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    beside: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Started:
    """What came of an order.

    `pid` is None when the supervisor had not written it within five seconds, or (with `already_started`) when the
    launch was ended before it began and will never start.
    """

    launcher: Launcher
    pid: int | None
    start_ticks: int | None
    boot_id: str
    already_started: bool


@dataclass(frozen=True, slots=True)
class Signalled:
    """The processes that got the signal, and the main process as it was right after."""

    pids: tuple[int, ...]
    process: ProcessFact


@dataclass(frozen=True, slots=True)
class LeftoverProcess:
    """A live process of the launch."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class LeftoverGpu:
    """GPU memory still held: by a process of the launch, or (pid None) by nobody that the driver lists."""

    uuid: str
    pid: int | None
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is left of a launch; `is_clear` when no process, listener, GPU memory or shared memory of it is.

    `shm` are entries of the launch that could not be removed, `shm_removed` those that were. `shm_unproven` may be
    the launch's or another program's: they are reported and left alone, and do not count against `is_clear`.
    `gpu_error` says why the GPUs could not be asked; it counts when the launch had GPUs.
    """

    processes: tuple[LeftoverProcess, ...]
    listener: ListenerFact
    gpu: tuple[LeftoverGpu, ...]
    shm: tuple[str, ...]
    is_clear: bool
    shm_removed: tuple[str, ...] = ()
    shm_unproven: tuple[str, ...] = ()
    gpu_error: str | None = None


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Bytes of a launch's log with its secrets masked. With `contains` the bytes are the matching lines alone."""

    offset: int
    data: bytes = field(repr=False)
    next_offset: int
    """Where the next read goes on: equal to `size` when nothing more is there."""
    size: int


@dataclass(frozen=True, slots=True)
class FoundLaunch:
    """A launch directory on the node with what it says; `boot_id` and `launcher` are None before its start."""

    launch_id: str
    server: str | None
    port: int | None
    created_at: datetime | None
    launcher: Launcher | None
    boot_id: str | None
    start_ticks: int | None
    process: ProcessFact
    log_bytes: int


@dataclass(frozen=True, slots=True)
class ProcessStack:
    """One process of a launch as it was seen: `state` is the letter of /proc, `text` what py-spy said of its stack.

    `error` says why there is no text, or not all of it. `wchan` and `kernel_stack` are None where this user may not
    read them.
    """

    pid: int
    command: str
    state: str
    wchan: str | None
    text: str | None
    error: str | None
    kernel_stack: str | None = None


@dataclass(frozen=True, slots=True)
class HangEvidence:
    """What a launch that seems to hang was doing; `nvidia_smi` is None on a node that has none."""

    at: datetime
    stacks: tuple[ProcessStack, ...]
    nvidia_smi: str | None
    log_tail: str


@dataclass(frozen=True, slots=True)
class FoundEngine:
    """The main process of an SGLang server on the node, whoever started it; `command` has stars for its secrets.

    `launch_id` is set when it is Vigil's own, started or adopted. What this user may not see is None: of other users'
    servers `log_path`, and `python` unless it was called by its path. `model_path` is absolute where it is a directory.
    `gpu_error` says why `gpu_uuids` could not be told; `member_pids` are the process itself and its descendants.
    """

    pid: int
    start_ticks: int
    user: str | None
    command: tuple[str, ...]
    python: str | None
    model_path: str | None
    port: int | None
    host: str
    gpu_uuids: tuple[str, ...]
    launch_id: str | None
    started_at: datetime
    log_path: str | None
    member_pids: tuple[int, ...]
    gpu_error: str | None = None


@dataclass(frozen=True, slots=True)
class Adopted:
    """A process that is a launch from now on. `log_path` is the file it writes to, None when that is no readable file.

    The launch's log is then empty; else it is what the file held before, too.
    """

    log_path: str | None
    boot_id: str


@dataclass(frozen=True, slots=True)
class Watch:
    """A launch that the observer shall watch; `log_offset` counts only when it does not watch it yet."""

    launch_id: str
    port: int
    host: str
    log_offset: int


@dataclass(frozen=True, slots=True)
class Hello:
    """The first line of an observer."""

    boot_id: str
    at: datetime
    pid: int


@dataclass(frozen=True, slots=True)
class LaunchFact:
    """What has changed about a launch; the parts that did not change are None. `at` is the node's clock."""

    launch_id: str
    at: datetime
    process: ProcessFact | None = None
    listener: ListenerFact | None = None
    effort: EffortFact | None = None


@dataclass(frozen=True, slots=True)
class LogFact:
    """Bytes of the log from `offset` on, masked. An offset below the last: the log was cut and began anew."""

    launch_id: str
    offset: int
    data: bytes = field(repr=False)

    @property
    def next_offset(self) -> int:
        """Return the offset of the byte after these."""
        return self.offset + len(self.data)


@dataclass(frozen=True, slots=True)
class GpuHoldersFact:
    """Who holds the node's GPUs, by uuid; `error` says why they could not be asked."""

    at: datetime
    holders: tuple[tuple[str, GpuHolder], ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """Once a second: every fact sent before still holds. The free space comes every ten seconds."""

    at: datetime
    disk_free_mib: int | None = None
    shm_free_mib: int | None = None


NodeFact = Hello | LaunchFact | LogFact | GpuHoldersFact | Beat
