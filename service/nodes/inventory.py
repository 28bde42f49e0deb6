"""What a node has: GPUs with their holders, memory, disks, driver; parsed from what the node's inventory verb said."""

from dataclasses import dataclass
from datetime import datetime

BASELINE_USED_MIB = 600
"""Memory that an unused GPU may show as used: 0 to 4 MiB usually, 60 to 260 under MIG, 596 with a desktop."""


@dataclass(frozen=True, slots=True)
class Disk:
    """One file system by the path that was asked for."""

    path: str
    total_mib: int
    free_mib: int


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A process that holds memory of a GPU, as the driver lists it; its pid may be one of another namespace."""

    pid: int
    memory_mib: int | None
    command: str
    user: str | None = None
    launch_id: str | None = None

    @property
    def is_idle_server(self) -> bool:
        """Tell whether it is an MPS server, which sits on every GPU it manages and uses none."""
        return self.command.rsplit("/", 1)[-1] == "nvidia-cuda-mps-server"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device. `index` may change at each boot; `uuid` is its identity."""

    index: int
    uuid: str
    name: str
    memory_total_mib: int | None
    memory_used_mib: int | None
    pci_bus_id: str
    holders: tuple[GpuHolder, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def is_free(self) -> bool:
        """Tell whether a server may be placed here: no error in any cell, nobody on it, no memory above the baseline.

        Utilisation is no test: an idle GPU can read 100 % and a busy server 0 %. Where the driver counts no memory at
        all (unified memory), only errors and holders decide.
        """
        if self.errors or any(not holder.is_idle_server for holder in self.holders):
            return False
        if self.memory_used_mib is None:
            return self.memory_total_mib is None
        return self.memory_used_mib <= BASELINE_USED_MIB


@dataclass(frozen=True, slots=True)
class Inventory:
    """One look at a node. `gpu_error` is set when the driver or one of its GPUs is in trouble: launch nothing new."""

    at: datetime
    boot_id: str
    hostname: str
    kernel: str
    cpu_count: int
    memory_total_mib: int
    memory_available_mib: int
    disks: tuple[Disk, ...]
    shm_total_mib: int
    shm_free_mib: int
    driver_version: str | None
    gpus: tuple[Gpu, ...]
    gpu_error: str | None
    utc_offset_s: int
    uid: int
    user: str
    launcher: str
    gpu_warnings: tuple[str, ...] = ()
