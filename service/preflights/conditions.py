"""What a node says of the conditions for a launch: its port, limits, room, engine packages, orphans, and its clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Part(StrEnum):
    """One part of the look, which may fail by itself; `LaunchConditions.problems` then says why it is None."""

    PORT = "port"
    LIMITS = "limits"
    SHARED_MEMORY = "shared_memory"
    PLACES = "places"
    PACKAGES = "packages"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that listens on the port. Who has it is None where this user may not look."""

    address: str
    pid: int | None
    user: str | None
    command: str | None
    launch_id: str | None = None


@dataclass(frozen=True, slots=True)
class BindTrial:
    """What the kernel said when the address and port were bound as the engine will, and let go at once.

    `error` is the name of the error number, EADDRINUSE for one, and None when it could be bound.
    """

    address: str
    error: str | None


@dataclass(frozen=True, slots=True)
class PortLook:
    """The port: every listener on it, whatever its address, and one trial for each address of the host.

    There is no trial for a host that is a name. `ephemeral` is the range from which the kernel takes ports for
    outgoing connections, None when the port does not lie in it or is reserved.
    """

    listeners: tuple[Listener, ...]
    trials: tuple[BindTrial, ...]
    ephemeral: tuple[int, int] | None = None


class LimitName(StrEnum):
    """The limits that matter to an engine; locked memory, core and stack in bytes."""

    OPEN_FILES = "open_files"
    LOCKED_MEMORY = "locked_memory"
    PROCESSES = "processes"
    CORE = "core"
    STACK = "stack"


@dataclass(frozen=True, slots=True)
class Limit:
    """A soft and a hard limit; None is unlimited."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True, slots=True)
class LimitsLook:
    """The limits of the login, which an engine started by setsid gets, and what they are set against.

    `user_manager` are those of the user's systemd, whose units cannot get more; None when it does not run.
    """

    login: Mapping[LimitName, Limit]
    user_manager: Mapping[LimitName, Limit] | None
    is_root: bool
    user_threads: int
    """How many threads this user's processes have: they count against the limit of processes."""
    rdma_devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """The file system of /dev/shm; `is_nccl_off` when NCCL_SHM_DISABLE keeps NCCL out of it."""

    total_mib: int
    free_mib: int
    file_count: int
    is_nccl_off: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that a launch writes to, or that was asked for, with the room of the file system it is on.

    `name` is the variable or the use that leads there. Of a directory that is not there yet, its nearest parent is
    measured. `problem` says why it could not be; the numbers are then None.
    """

    name: str
    path: str
    measured_path: str | None
    device: int | None
    total_mib: int | None
    free_mib: int | None
    free_inodes: int | None
    """None on file systems that do not count them."""
    is_writable: bool | None
    is_read_only: bool | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class EnginePackages:
    """What the files of an engine environment say of its torch; nothing was imported.

    `torch_version` None: no torch was found. `is_torch_cpu` when it was built for neither CUDA nor another kind of
    device. `compat_path` is a driver library of NVIDIA's forward compatibility
    package that the environment's LD_LIBRARY_PATH leads to.
    """

    torch_version: str | None
    torch_cuda: str | None
    torch_hip: str | None
    cuda_runtime: str | None
    compat_path: str | None
    is_torch_cpu: bool = False


@dataclass(frozen=True, slots=True)
class Orphan:
    """A process of an engine whose server is gone: titled `sglang::…`, and its parent is no engine any more."""

    pid: int
    user: str | None
    command: str
    launch_id: str | None
    rss_mib: int


@dataclass(frozen=True, slots=True)
class Processes:
    """The orphans of the node."""

    orphans: tuple[Orphan, ...]


@dataclass(frozen=True, slots=True)
class LaunchConditions:
    """One look. `began_at` and `ended_at` are the node's clock at its beginning and its end."""

    began_at: datetime
    ended_at: datetime
    port: PortLook | None
    limits: LimitsLook | None
    shared_memory: SharedMemory | None
    places: tuple[Place, ...] | None
    packages: EnginePackages | None
    processes: Processes | None
    problems: Mapping[Part, str] = field(default_factory=dict)

    def why_unknown(self, part: Part) -> str:
        """Return why a part could not be looked at."""
        return self.problems.get(part, "the node did not say")
