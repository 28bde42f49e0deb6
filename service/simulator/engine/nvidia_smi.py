"""The fake nvidia-smi: answers from files under a node's home, in the real one's words and exit codes.

Runs on the node as `python -IS nvidia_smi.py STATE_DIR ARGUMENTS...`; standard library, Python 3.8.

STATE_DIR/gpus.json         the GPUs: a list of {"index", "uuid", "name", "memory_mib", "bus_id", ...}
STATE_DIR/holders/PID.json  written by running engines: {"pid", "name", "gpus": {UUID: MIB}}; dead pids are ignored
STATE_DIR/nvidia-smi.json   faults, all optional: {"delay_s", "hang", "exit_code", "text", "missing": [INDEX],
                            "cells": {INDEX: {FIELD: TEXT}}}; FIELD "*" is every field; "text" is printed alone
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, Dict, Iterator, List, Tuple

Row = Dict[str, str]
Record = Dict[str, Any]

NOT_AVAILABLE = "[N/A]"
BAD_ARGUMENT = 2
NOTHING_FOUND = 6
RESERVED_MIB = 479
UNITS = {
    "memory.total": " MiB",
    "memory.used": " MiB",
    "memory.free": " MiB",
    "memory.reserved": " MiB",
    "used_gpu_memory": " MiB",
    "utilization.gpu": " %",
    "power.draw": " W",
    "power.limit": " W",
    "clocks.sm": " MHz",
}
ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "clocks.current.sm": "clocks.sm",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
    "kmd_version": "driver_version",
}
APP_ALIASES = {"used_memory": "used_gpu_memory", "name": "process_name"}
CONSTANT = {
    "temperature.gpu": "31",
    "pstate": "P0",
    "persistence_mode": "Enabled",
    "compute_mode": "Default",
    "mig.mode.current": "Disabled",
    "clocks.sm": "345",
    "pcie.link.gen.current": "5",
    "pcie.link.width.current": "16",
    "vbios_version": "96.00.A5.00.01",
    "memory.reserved": str(RESERVED_MIB),
    "clocks_event_reasons.active": "0x0000000000000001",
    "gpu_recovery_action": "None",
    "fabric.state": "Completed",
    "fabric.status": "Success",
    "inforom.checksum_validation": "valid",
    "addressing_mode": "HMM",
    "temperature.memory": "38",
}
"""Fields that never change here."""
ECC_FIELDS = {
    "ecc.mode.current": "Enabled",
    "ecc.errors.uncorrected.volatile.total": "0",
    "ecc.errors.uncorrected.aggregate.total": "0",
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": "No",
    "remapped_rows.pending": "No",
    "remapped_rows.failure": "No",
}
"""Fields that a card without ECC answers with [N/A]."""


def main(arguments: List[str]) -> int:
    """Answer one call and return the exit code."""
    state = arguments[0]
    faults = _read(os.path.join(state, "nvidia-smi.json")) or {}
    if faults.get("hang"):
        _hang()
    time.sleep(float(faults.get("delay_s", 0)))
    code = int(faults.get("exit_code", 0))
    if "text" in faults:
        sys.stdout.write(str(faults["text"]).rstrip("\n") + "\n")
        return code
    gpus = [g for g in _read(os.path.join(state, "gpus.json")) if g["index"] not in faults.get("missing", ())]
    text, own_code = _answer(arguments[1:], gpus, _holders(state), faults.get("cells", {}))
    sys.stdout.write(text)
    return own_code or code


def _answer(options: List[str], gpus: List[Record], holders: List[Record], cells: Record) -> Tuple[str, int]:
    """Return what is printed, and the exit code."""
    named = {option.partition("=")[0]: option.partition("=")[2] for option in options}
    layout = named.get("--format", "csv").split(",")
    if "-L" in named or "--list-gpus" in named:
        return "".join("GPU {index}: {name} (UUID: {uuid})\n".format(**gpu) for gpu in gpus), 0
    if "--query-gpu" in named:
        return _table(named["--query-gpu"], layout, [_gpu_row(gpu, holders, cells) for gpu in gpus], ALIASES)
    if "--query-compute-apps" in named:
        return _table(named["--query-compute-apps"], layout, list(_app_rows(gpus, holders)), APP_ALIASES)
    if not gpus:
        return "No devices were found\n", NOTHING_FOUND
    return "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n", BAD_ARGUMENT


def _table(query: str, layout: List[str], rows: List[Row], aliases: Row) -> Tuple[str, int]:
    fields = [field.strip() for field in query.split(",")]
    known = set(rows[0]) if rows else None
    for field in fields:
        if known is not None and aliases.get(field, field) not in known:
            return 'Field "{}" is not a valid field to query.\n\n'.format(field), BAD_ARGUMENT
    has_units = "nounits" not in layout
    lines = []
    if "noheader" not in layout:
        lines.append(", ".join(field + _unit_label(aliases.get(field, field)) for field in fields))
    for row in rows:
        values = []
        for field in fields:
            name = aliases.get(field, field)
            value = row[name]
            values.append(value + UNITS.get(name, "") if has_units and not value.startswith("[") else value)
        lines.append(", ".join(values))
    return "".join(line + "\n" for line in lines), 0


def _unit_label(name: str) -> str:
    unit = UNITS.get(name)
    return " [{}]".format(unit.strip()) if unit else ""


def _gpu_row(gpu: Record, holders: List[Record], cells: Record) -> Row:
    used = min(sum(holder["gpus"].get(gpu["uuid"], 0) for holder in holders), gpu["memory_mib"])
    row = {
        "index": str(gpu["index"]),
        "uuid": gpu["uuid"],
        "pci.bus_id": gpu["bus_id"],
        "memory.total": str(gpu["memory_mib"]),
        "memory.used": str(used),
        "memory.free": str(max(gpu["memory_mib"] - used - RESERVED_MIB, 0)),
        "utilization.gpu": "0",
        "power.draw": "{:.2f}".format(gpu["power_limit_w"] * (0.34 if used else 0.1)),
        "power.limit": "{:.2f}".format(gpu["power_limit_w"]),
        "driver_version": gpu["driver_version"],
        "compute_cap": gpu["compute_capability"],
        "name": gpu["name"],
    }
    row.update(CONSTANT)
    row.update({field: value if gpu["has_ecc"] else NOT_AVAILABLE for field, value in ECC_FIELDS.items()})
    faults = cells.get(str(gpu["index"]), {})
    if "*" in faults:
        row = dict.fromkeys(row, str(faults["*"]))
    row.update({ALIASES.get(field, field): str(value) for field, value in faults.items() if field != "*"})
    return row


def _app_rows(gpus: List[Record], holders: List[Record]) -> Iterator[Row]:
    for gpu in gpus:
        for holder in holders:
            if gpu["uuid"] in holder["gpus"]:
                yield {
                    "gpu_uuid": gpu["uuid"],
                    "gpu_name": gpu["name"],
                    "gpu_bus_id": gpu["bus_id"],
                    "pid": str(holder["pid"]),
                    "used_gpu_memory": str(holder["gpus"][gpu["uuid"]]),
                    "process_name": holder["name"],
                }


def _holders(state: str) -> List[Record]:
    """Return what living processes wrote; a file of a dead process, or one being written, counts for nothing."""
    directory = os.path.join(state, "holders")
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    found = (_read(os.path.join(directory, name)) for name in names if name.endswith(".json"))
    return [holder for holder in found if holder is not None and _is_alive(holder)]


def _is_alive(holder: Record) -> bool:
    try:
        with open("/proc/{}/stat".format(holder["pid"]), encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and int(fields[19]) == holder["start_ticks"]


def _read(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None


def _hang() -> None:
    """Wait for ever and shrug off all that can be; the real one in state D even survives SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
