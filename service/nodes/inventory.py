"""What a node has: GPUs with their holders, memory, disks, driver; parsed from what the node's inventory verb said."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from service.clock import from_epoch

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
    warnings: tuple[str, ...] = ()
    """What it goes on working with, and what an operator should know of (facts: GPU node 4.2)."""

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


def parse_inventory(plain: Mapping[str, Any]) -> Inventory:
    """Return the inventory that a node's answer holds.

    The texts of nvidia-smi may have any shape: what is not a row as asked for becomes an error, never an exception.
    Anything else of another shape than agreed raises KeyError, TypeError or ValueError.
    """
    gpus = _read_gpus(plain)
    return Inventory(
        at=from_epoch(plain["at"]),
        boot_id=str(plain["boot_id"]),
        hostname=str(plain["hostname"]),
        kernel=str(plain["kernel"]),
        cpu_count=int(plain["cpu_count"]),
        memory_total_mib=int(plain["memory_total_mib"]),
        memory_available_mib=int(plain["memory_available_mib"]),
        disks=tuple(Disk(str(d["path"]), int(d["total_mib"]), int(d["free_mib"])) for d in plain["disks"]),
        shm_total_mib=int(plain["shm_total_mib"]),
        shm_free_mib=int(plain["shm_free_mib"]),
        driver_version=gpus.driver_version,
        gpus=gpus.gpus,
        gpu_error=gpus.error,
        utc_offset_s=int(plain["utc_offset_s"]),
        uid=int(plain["uid"]),
        user=str(plain["user"]),
        launcher=str(plain["launcher"]),
        gpu_warnings=gpus.warnings,
    )


_NOT_INSTALLED = 127
_INFOROM_CORRUPTED = 14
"""nvidia-smi's exit code that comes with a complete table (facts: GPU node 1.4)."""
_TEXT_LIMIT = 500
_BENIGN = frozenset(
    {"[N/A]", "N/A", "[Not Supported]", "Not Supported", "[Requested functionality has been deprecated]", ""}
)
"""Cells that say "not here" and nothing bad (facts: GPU node 1.3)."""
_UUID = re.compile(r"(GPU|MIG)-[0-9A-Za-z-]+")
_SICK_FABRIC = frozenset({"Not Started", "In Progress"})


@dataclass(frozen=True, slots=True)
class _Gpus:
    driver_version: str | None = None
    gpus: tuple[Gpu, ...] = ()
    error: str | None = None
    warnings: tuple[str, ...] = ()


def _read_gpus(plain: Mapping[str, Any]) -> _Gpus:
    query = plain["gpu_query"]
    if query["exit"] == _NOT_INSTALLED:
        return _Gpus()
    rows, odd = _rows(query, key="uuid")
    if not rows:
        return _Gpus(error=_complaint(query, odd))
    holders, unknown = _holders(plain)
    extra = {row["uuid"]: row for row in _rows(plain["gpu_extra"], key="uuid")[0]} if plain["gpu_extra"] else {}
    gpus = tuple(_gpu(row, extra.get(row["uuid"], {}), holders, unknown) for row in rows)
    warnings = []
    if query["exit"] == _INFOROM_CORRUPTED:
        warnings.append(_cut(odd[0]) if odd else "infoROM is corrupted")
        odd = odd[1:]
    if len(plain["driver_gpus"]) > len(rows):
        warnings.append(f"the driver has {len(plain['driver_gpus'])} GPUs, nvidia-smi lists {len(rows)}")
    return _Gpus(
        driver_version=next((row["driver_version"] for row in rows if row["driver_version"][:1].isdecimal()), None),
        gpus=gpus,
        error=_complaint(query, odd) if odd or query["exit"] not in {0, _INFOROM_CORRUPTED} else None,
        warnings=tuple(warnings),
    )


def _rows(call: Mapping[str, Any], *, key: str) -> tuple[list[dict[str, str]], list[str]]:
    """Return the rows whose key cell is a GPU's uuid and whose index is a number, and the lines that are no such row.

    Cells are not quoted and the last one is free text, so a line is split from the left, as often as there are fields.
    """
    fields: Sequence[str] = call["fields"]
    rows, odd = [], []
    for line in _lines(call):
        cells = [cell.strip() for cell in line.split(", ", len(fields) - 1)]
        row = dict(zip(fields, cells, strict=False))
        if len(cells) == len(fields) and _UUID.fullmatch(row[key]) and row.get("index", "0").isdecimal():
            rows.append(row)
        else:
            odd.append(line)
    return rows, odd


def _lines(call: Mapping[str, Any]) -> Iterator[str]:
    for line in str(call["text"]).splitlines():
        if line.strip():
            yield line.strip()


def _complaint(call: Mapping[str, Any], odd: Sequence[str]) -> str:
    if call["is_stuck"]:
        return _cut(f"nvidia-smi is stuck: {call['text']}")
    if odd:
        return _cut("; ".join(odd))
    if call["exit"] is None:
        return _cut(f"nvidia-smi gave no answer: {call['text']}")
    return f"nvidia-smi ended with status {call['exit']} and no GPU"


def _gpu(
    row: Mapping[str, str],
    extra: Mapping[str, str],
    holders: Mapping[str, Sequence[GpuHolder]],
    unknown: Mapping[str, str],
) -> Gpu:
    uuid = row["uuid"]
    errors = [f"{name}: {cell}" for name, cell in row.items() if _is_error(cell)]
    errors += _health_errors(extra)
    errors += [f"holders unknown: {unknown[name]}" for name in (uuid, "*") if name in unknown]
    return Gpu(
        index=int(row["index"]),
        uuid=uuid,
        name=row["name"],
        memory_total_mib=_mib(row["memory.total"]),
        memory_used_mib=_mib(row["memory.used"]),
        pci_bus_id=row["pci.bus_id"],
        holders=tuple(holders.get(uuid, ())),
        errors=tuple(errors),
        warnings=tuple(_health_warnings(extra)),
    )


def _health_warnings(extra: Mapping[str, str]) -> Iterator[str]:
    uncorrected = extra.get("ecc.errors.uncorrected.volatile.total", "0")
    if uncorrected.isdecimal() and int(uncorrected) > 0:
        yield f"{uncorrected} uncorrected ECC errors since the driver was loaded"
    if extra.get("remapped_rows.pending") == "Yes":
        yield "a row remapping is pending: it is done when the GPU is reset"


def _is_error(cell: str) -> bool:
    return (cell.startswith("[") and cell not in _BENIGN) or cell in {"ERR!", "Unknown Error", "GPU is lost"}


def _health_errors(extra: Mapping[str, str]) -> list[str]:
    """Return what the newer fields say against a launch: GPU node 4.3 for the recovery action, 4.2 for the fabric."""
    errors = [f"{name}: {cell}" for name, cell in extra.items() if _is_error(cell)]
    action = extra.get("gpu_recovery_action", "None")
    if action != "None" and action not in _BENIGN and not _is_error(action):
        errors.append(f"recovery action: {action}")
    if extra.get("remapped_rows.failure") == "Yes":
        errors.append("row remapping failed")
    if extra.get("fabric.state") in _SICK_FABRIC:
        errors.append(f"fabric: {extra['fabric.state']}")
    if extra.get("fabric.state") == "Completed" and extra.get("fabric.status", "Success") != "Success":
        errors.append(f"fabric: {extra['fabric.status']}")
    return errors


def _holders(plain: Mapping[str, Any]) -> tuple[dict[str, list[GpuHolder]], dict[str, str]]:
    """Return the holders by uuid, and by uuid (or `*` for all) why they are not known."""
    call = plain["gpu_apps"]
    if call["exit"] != 0:
        return {}, {"*": _complaint(call, list(_lines(call)))}
    holders: dict[str, list[GpuHolder]] = {}
    unknown: dict[str, str] = {}
    rows, odd = _rows(call, key="gpu_uuid")
    for row in rows:
        if row["pid"].isdecimal():
            seen = plain["processes"].get(row["pid"], {})
            holders.setdefault(row["gpu_uuid"], []).append(_holder(row, seen))
        else:
            unknown[row["gpu_uuid"]] = row["pid"]
    if odd:
        unknown["*"] = _cut("; ".join(odd))
    return holders, unknown


def _holder(row: Mapping[str, str], seen: Mapping[str, Any]) -> GpuHolder:
    return GpuHolder(
        pid=int(row["pid"]),
        memory_mib=_mib(row["used_gpu_memory"]),
        command=str(seen.get("command") or row["process_name"]),
        user=seen.get("user"),
        launch_id=seen.get("launch"),
    )


def _mib(cell: str) -> int | None:
    number = cell.removesuffix(" MiB")
    return int(number) if number.isdecimal() else None


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}..."
