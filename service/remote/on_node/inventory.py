"""What this node has, as raw as it was found: the texts of nvidia-smi are judged by the control plane."""

from __future__ import annotations

import os
import re
import socket
import time
from typing import Any, Dict, Iterable, List, Optional

from . import gpu, proc
from .launchers import best_launcher, user_name
from .ownership import launch_finder
from .places import SHM, read_file

FIRST_CALL_S = 45.0
LATER_CALLS_S = 15.0
_GPU_FILES = "/proc/driver/nvidia/gpus"


def inventory(request: Dict[str, Any]) -> Dict[str, Any]:
    """Say what the node has. nvidia-smi is asked up to three times, one after the other, unless the first is stuck."""
    memory = _memory_mib()
    shm = disk(SHM)
    facts = {
        "at": time.time(),
        "boot_id": proc.boot_id(),
        "hostname": socket.gethostname(),
        "kernel": os.uname().release,
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_total_mib": memory.get("MemTotal", 0),
        "memory_available_mib": memory.get("MemAvailable", 0),
        "disks": [found for found in map(disk, [os.path.expanduser("~"), *request["paths"]]) if found],
        "shm_total_mib": shm["total_mib"] if shm else 0,
        "shm_free_mib": shm["free_mib"] if shm else 0,
        "utc_offset_s": time.localtime().tm_gmtoff,
        "uid": os.geteuid(),
        "user": user_name(),
        "launcher": best_launcher(),
        "driver_gpus": _driver_gpus(),
    }
    facts.update(_gpus())
    return facts


def holder_facts(pids: Iterable[int]) -> Dict[int, Dict[str, Any]]:
    """Return what this node knows of processes that the driver names; of a pid from another namespace, nothing."""
    launch_of = launch_finder()
    return {
        pid: {"command": proc.command(pid), "user": proc.user_of(pid), "launch": launch_of(pid)} for pid in set(pids)
    }


def _gpus() -> Dict[str, Any]:
    query = gpu.ask("gpu", gpu.QUERY_FIELDS, FIRST_CALL_S)
    if query["exit"] in (None, gpu.NOT_FOUND):
        return {"gpu_query": query, "gpu_extra": None, "gpu_apps": query, "processes": {}}
    apps = gpu.ask("compute-apps", gpu.APPS_FIELDS, LATER_CALLS_S)
    return {
        "gpu_query": query,
        "gpu_extra": gpu.ask_what_is_known("gpu", gpu.EXTRA_FIELDS, LATER_CALLS_S),
        "gpu_apps": apps,
        "processes": holder_facts(row["pid"] for row in gpu.holders(apps)),
    }


def _memory_mib() -> Dict[str, int]:
    text = (read_file("/proc/meminfo") or b"").decode("ascii", "replace")
    return {name: int(kib) // 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}


def disk(path: str) -> Optional[Dict[str, Any]]:
    """Return the size and the room of the file system that a path is on, None when there is no such path."""
    try:
        facts = os.statvfs(path)
    except OSError:
        return None
    block = facts.f_frsize
    return {
        "path": path,
        "total_mib": facts.f_blocks * block // 2**20,
        "free_mib": facts.f_bavail * block // 2**20,
    }


def _driver_gpus() -> List[str]:
    """Return the bus ids that the driver has, which it says even while nvidia-smi hangs."""
    try:
        return sorted(os.listdir(_GPU_FILES))
    except OSError:
        return []
