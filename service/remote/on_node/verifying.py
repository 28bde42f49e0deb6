"""What is left of a launch: processes, listener, GPU memory, shared memory; a single look, for the caller to repeat."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any, Dict, List, Set, Tuple

from . import gpu, proc
from .listening import PortWatch
from .main_process import MainProcess
from .masking import Masker, find_masker
from .members import find_members, record_members, recorded_members
from .places import existing_launch
from .proc import Stat
from .shared_memory import Verdict, clear_shared_memory, record_shared_memory

GPU_PATIENCE_S = 25.0
BASELINE_USED_MIB = 600
"""What a GPU may show as used while nobody uses it (facts: GPU node 2.2)."""


def verify(request: Dict[str, Any]) -> Dict[str, Any]:
    """Say what is left, and remove the shared memory that is provably the launch's once its processes are gone."""
    directory = existing_launch(request["launch"])
    masker = find_masker(directory) or Masker(())
    main = MainProcess(directory)
    is_this_boot = main.boot_id == proc.boot_id()
    members = find_members(request["launch"], main.identity) if is_this_boot else []
    with suppress(OSError):
        record_members(directory, members)
        record_shared_memory(directory, [stat.pid for stat in members])
    listener = PortWatch(request["port"], request["host"]).look([stat.pid for stat in members])
    if listener["command"]:
        listener = dict(listener, command=masker.mask_text(listener["command"]))
    shm = _shared_memory(directory, main, members) if is_this_boot else Verdict([], [], [])
    held, gpu_error = _gpu_memory(directory, members, request["gpu_uuids"])
    return {
        "processes": [{"pid": stat.pid, "command": masker.mask_text(proc.command(stat.pid) or "")} for stat in members],
        "listener": listener,
        "gpu": held,
        "gpu_error": gpu_error,
        "shm": shm.left,
        "shm_removed": shm.removed,
        "shm_unproven": shm.unproven,
        "is_clear": not (
            members or listener["owner"] == "ours" or held or shm.left or (gpu_error and request["gpu_uuids"])
        ),
    }


def _shared_memory(directory: str, main: MainProcess, members: List[Stat]) -> Verdict:
    ended_at = main.settled()["ended_at"]
    window = (_started_at(directory), float(ended_at) if ended_at else time.time())
    pids = {pid for pid, _ in recorded_members(directory)}
    return clear_shared_memory(directory, pids, window, may_remove=not members)


def _started_at(directory: str) -> float:
    try:
        facts = os.stat(os.path.join(directory, "lock"))
    except OSError:
        return time.time()
    return min(facts.st_ctime, facts.st_mtime)  # of an adopted launch the second: when its process was started


def _gpu_memory(directory: str, members: List[Stat], uuids: List[str]) -> Tuple[List[Dict[str, Any]], Any]:
    """Return the GPU memory that the launch still holds, and why the GPUs could not be asked.

    The driver may list a dead process for seconds. Memory on the launch's own GPUs without any process counts as left.
    """
    apps = gpu.ask("compute-apps", gpu.APPS_FIELDS, GPU_PATIENCE_S)
    if apps["exit"] == gpu.NOT_FOUND:
        return [], "there is no nvidia-smi" if uuids else None
    if apps["exit"] != 0:
        return [], _complaint(apps)
    rows = gpu.holders(apps)
    ours = {stat.pid for stat in members} | _dead_members(directory)
    held = [
        {"uuid": row["uuid"], "pid": row["pid"], "memory_mib": row["memory_mib"]} for row in rows if row["pid"] in ours
    ]
    named = {line.split(", ", 1)[0] for line in apps["text"].splitlines()}
    alone = [uuid for uuid in uuids if uuid not in named]
    if not alone:
        return held, None
    query = gpu.ask("gpu", ("uuid", "memory.used"), GPU_PATIENCE_S)
    if query["exit"] != 0:
        return held, _complaint(query)
    for line in query["text"].splitlines():
        uuid, _, cell = line.strip().partition(", ")
        used_mib = gpu.mib(cell)
        if uuid in alone and used_mib is not None and used_mib > BASELINE_USED_MIB:
            held.append({"uuid": uuid, "pid": None, "memory_mib": used_mib})
    return held, None


def _dead_members(directory: str) -> Set[int]:
    """Return the launch's pids that no other process has by now."""
    return {
        pid
        for pid, start_ticks in recorded_members(directory)
        if (proc.read_stat(pid) or Stat(0, "", 0, 0, 0, 0, 0, start_ticks, 0)).start_ticks == start_ticks
    }


def _complaint(outcome: Dict[str, Any]) -> str:
    return "nvidia-smi: %s" % (outcome["text"].strip()[:300] or "status %s" % outcome["exit"])
