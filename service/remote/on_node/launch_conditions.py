"""The conditions that a launch would find on this node now; nothing is started, and no GPU is touched."""

from __future__ import annotations

import os
import re
import resource
import time
from typing import Any, Dict, List, Optional

from . import proc
from .engine_packages import look_at_packages
from .engines import living
from .launch_port import look_at_port
from .launch_room import look_at_places, look_at_shared_memory
from .orphans import find_orphans
from .ownership import launch_finder
from .places import read_file
from .proc import Stat
from .timely import side_by_side

PATIENCE_S = 2.5
"""Longer than the places' own patience, so that one that hangs does not hide the others."""
RDMA = "/sys/class/infiniband"
_LIMITS = {
    "open_files": (resource.RLIMIT_NOFILE, rb"Max open files"),
    "locked_memory": (resource.RLIMIT_MEMLOCK, rb"Max locked memory"),
    "processes": (resource.RLIMIT_NPROC, rb"Max processes"),
    "core": (resource.RLIMIT_CORE, rb"Max core file size"),
    "stack": (resource.RLIMIT_STACK, rb"Max stack size"),
}


def launch_conditions(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer with every part of the look, and in `problems` with why a part is missing.

    The launch's `environment` goes over this login's, as it will when the engine is started.
    """
    began_at = time.time()
    environment = {**os.environ, **request["environment"]}
    stats = living()
    launch_of = launch_finder(stats.get)
    seen = side_by_side(
        {
            "port": lambda: look_at_port(request["port"], request["host"], launch_of),
            "limits": lambda: _limits(stats),
            "shared_memory": lambda: look_at_shared_memory(environment),
            "places": lambda: look_at_places(request["paths"], environment),
            "packages": lambda: look_at_packages(request["python"], environment),
            "processes": lambda: {"orphans": find_orphans(stats, launch_of)},
        },
        PATIENCE_S,
    )
    return {"began_at": began_at, "ended_at": time.time(), "problems": seen.problems, **seen.answers}


def _limits(stats: Dict[int, Stat]) -> Dict[str, Any]:
    own = os.geteuid()
    return {
        "login": {name: list(map(_bounded, resource.getrlimit(number))) for name, (number, _) in _LIMITS.items()},
        "user_manager": _manager_limits(stats, own),
        "is_root": own == 0,
        "user_threads": sum(stat.threads for stat in stats.values() if _owner(stat.pid) == own),
        "rdma_devices": sorted(os.listdir(RDMA)) if os.path.isdir(RDMA) else [],
    }


def _bounded(value: int) -> Optional[int]:
    return None if value == resource.RLIM_INFINITY else value


def _manager_limits(stats: Dict[int, Stat], user: int) -> Optional[Dict[str, List[Optional[int]]]]:
    """Return the limits of this user's systemd: whatever its units are given, they get no more."""
    for pid in sorted(stats):
        line = proc.words(pid) or [""]
        if os.path.basename(line[0]) == "systemd" and "--user" in line and _owner(pid) == user:
            return _limits_of(read_file("/proc/%d/limits" % pid) or b"")
    return None


def _limits_of(text: bytes) -> Optional[Dict[str, List[Optional[int]]]]:
    found = {}
    for name, (_, label) in _LIMITS.items():
        row = re.search(rb"^%b +(\d+|unlimited) +(\d+|unlimited)" % label, text, re.MULTILINE)
        if row is None:
            return None
        found[name] = [None if word == b"unlimited" else int(word) for word in row.groups()]
    return found


def _owner(pid: int) -> Optional[int]:
    try:
        return os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return None
