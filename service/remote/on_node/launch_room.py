"""How much room there is where a launch writes: logs, model and kernel caches, temporary files, shared memory."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Dict, List, NamedTuple, Sequence

from .hub_cache import cache_directory
from .places import SHM, root
from .timely import side_by_side

PATIENCE_S = 2.0
PLACES_LIMIT = 40
CACHE_VARIABLES = (
    "HF_HOME",
    "XDG_CACHE_HOME",
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE",
    "CUDA_CACHE_PATH",
    "TILELANG_CACHE_DIR",
    "SGLANG_DG_CACHE_DIR",
    "SGLANG_JIT_CACHE_DIR",
    "OUTLINES_CACHE_DIR",
)
"""Where an environment can send what engines compile and fetch; unset ones lead below the home or the temporary files
(SGLang 0.5.23, environ.py `third_party_cache_defaults` and the variables' own defaults)."""
_READ_ONLY = getattr(os, "ST_RDONLY", 1)


class _Wanted(NamedTuple):
    name: str
    path: str


def look_at_places(paths: Sequence[str], environment: Dict[str, str]) -> List[Dict[str, Any]]:
    """Measure every place; `environment` is the launch's own over this login's."""
    wanted = _wanted(paths, environment)[:PLACES_LIMIT]
    seen = side_by_side({str(at): _Look(place.path) for at, place in enumerate(wanted)}, PATIENCE_S)
    return [
        dict(
            seen.answers.get(str(at), _UNKNOWN),
            name=place.name,
            path=place.path,
            problem=seen.problems.get(str(at)),
        )
        for at, place in enumerate(wanted)
    ]


def look_at_shared_memory(environment: Dict[str, str]) -> Dict[str, Any]:
    """Say the size of /dev/shm, what is free, how many files lie in it, and whether NCCL is kept out of it."""
    facts = os.statvfs(SHM)
    return {
        "total_mib": facts.f_blocks * facts.f_frsize // 2**20,
        "free_mib": facts.f_bavail * facts.f_frsize // 2**20,
        "file_count": len(os.listdir(SHM)),
        "is_nccl_off": environment.get("NCCL_SHM_DISABLE", "0") not in ("", "0"),
    }


_UNKNOWN: Dict[str, Any] = {
    "measured_path": None,
    "device": None,
    "total_mib": None,
    "free_mib": None,
    "free_inodes": None,
    "is_writable": None,
    "is_read_only": None,
}


class _Look:
    """Measures one path, or the nearest parent that is there."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self) -> Dict[str, Any]:
        there = self._path
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there) and there != self._path:
            raise NotADirectoryError(0, "it is no directory", there)
        facts = os.statvfs(there)
        return {
            "measured_path": there,
            "device": os.stat(there).st_dev,
            "total_mib": facts.f_blocks * facts.f_frsize // 2**20,
            "free_mib": facts.f_bavail * facts.f_frsize // 2**20,
            "free_inodes": facts.f_favail if facts.f_files else None,
            "is_writable": os.access(there, os.W_OK | os.X_OK),
            "is_read_only": bool(facts.f_flag & _READ_ONLY),
        }


def _wanted(paths: Sequence[str], environment: Dict[str, str]) -> List[_Wanted]:
    home = environment.get("HOME") or os.path.expanduser("~")
    named = [_Wanted(name, environment[name]) for name in CACHE_VARIABLES if environment.get(name)]
    places = [
        _Wanted("launches", root()),
        _Wanted("hub_cache", cache_directory(environment)),
        _Wanted("engine_cache", environment.get("SGLANG_CACHE_DIR") or os.path.join(home, ".cache", "sglang")),
        _Wanted("cache", os.path.join(home, ".cache")),
        _Wanted("temporary", environment.get("TMPDIR") or tempfile.gettempdir()),
        *named,
        *(_Wanted("asked", path) for path in paths),
    ]
    return [_Wanted(place.name, _absolute(place.path, home)) for place in places]


def _absolute(path: str, home: str) -> str:
    """Return a path as the engine finds it: `~` is the launch's home, and it starts below Vigil's directory."""
    own = home + path[1:] if path == "~" or path.startswith("~/") else path
    return os.path.normpath(os.path.join(root(), own))
