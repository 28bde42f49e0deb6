"""Which torch an engine environment has, and for which CUDA it was built: read from files, nothing is imported."""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Dict, Iterator, List, Optional

TEXT_LIMIT = 1 << 16
_QUOTED = r"^%s\s*(?::[^=\n]*)?=\s*['\"]([^'\"\n]+)['\"]"
_TORCH = re.compile(r"torch-([^-]+)\.dist-info")
_RUNTIME = re.compile(r"nvidia_cuda_runtime(?:_cu\d+)?-([\d.]+)\.dist-info")
_COMPAT = re.compile(r"/(cuda-)?compat(-[\d-]+)?(/|$)")
"""Where the package puts it: /usr/local/cuda-12.9/compat; in NVIDIA's images /usr/local/cuda/compat/lib."""
_DRIVER_LIBRARY = "libcuda.so.1"


def look_at_packages(python: str, environment: Dict[str, str]) -> Dict[str, Any]:
    """Say the version of torch, its CUDA or HIP, that of the CUDA runtime beside it; None for what is not there."""
    answer: Dict[str, Any] = {
        "torch_version": None,
        "torch_cuda": None,
        "torch_hip": None,
        "cuda_runtime": None,
        "compat_path": _compat_library(environment),
        "is_torch_cpu": False,
    }
    if not os.path.exists(python):
        raise FileNotFoundError(0, "there is no such file", python)
    for directory in _package_directories(python, environment):
        names = _names(directory)
        if answer["torch_version"] is None:
            answer.update(_torch(directory, names))
        if answer["cuda_runtime"] is None:
            answer["cuda_runtime"] = _first(_RUNTIME, names)
    return answer


def _package_directories(python: str, environment: Dict[str, str]) -> Iterator[str]:
    """Yield where that Python finds packages, in its order: PYTHONPATH, its environment, the system where it shares."""
    for path in environment.get("PYTHONPATH", "").split(":"):
        if os.path.isabs(path):
            yield path
    home = os.path.dirname(os.path.dirname(os.path.normpath(python)))
    settings = _text(os.path.join(home, "pyvenv.cfg"))
    roots = [home]
    if settings is None or re.search(r"(?im)^include-system-site-packages\s*=\s*true", settings):
        yield from _below(os.path.join(environment.get("HOME") or "~", ".local"))
        roots.append(os.path.dirname(os.path.dirname(os.path.realpath(python))))
    for root in dict.fromkeys(roots):
        yield from _below(root)
        if root == "/usr":
            yield from _below("/usr/local")


def _below(root: str) -> List[str]:
    patterns = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages")
    return [path for pattern in patterns for path in sorted(glob.glob(os.path.join(glob.escape(root), pattern)))]


def _torch(directory: str, names: List[str]) -> Dict[str, Any]:
    """Return what torch/version.py says, else what the package's record says: `2.9.1+cu129` names CUDA 12.9."""
    version = _first(_TORCH, names)
    text = _text(os.path.join(directory, "torch", "version.py")) if "torch" in names else None
    if text is None:
        built = re.search(r"\+cu(\d+)(\d)$", version or "")
        return {
            "torch_version": version,
            "torch_cuda": "%s.%s" % built.groups() if built else None,
            "is_torch_cpu": bool(version and version.endswith("+cpu")),
        }
    devices = {name: _assigned(name, text) for name in ("cuda", "hip", "rocm", "xpu")}
    return {
        "torch_version": _assigned("__version__", text) or version,
        "torch_cuda": devices["cuda"],
        "torch_hip": devices["hip"] or devices["rocm"],
        "is_torch_cpu": not any(devices.values()),
    }


def _assigned(name: str, text: str) -> Optional[str]:
    found = re.search(_QUOTED % name, text, re.MULTILINE)
    return found.group(1) if found else None


def _first(pattern: "re.Pattern[str]", names: List[str]) -> Optional[str]:
    return next((found.group(1) for found in map(pattern.fullmatch, names) if found), None)


def _names(directory: str) -> List[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _text(path: str) -> Optional[str]:
    try:
        with open(path, "rb") as file:
            return file.read(TEXT_LIMIT).decode("utf-8", "replace")
    except OSError:
        return None


def _compat_library(environment: Dict[str, str]) -> Optional[str]:
    """Return the driver library of the forward compatibility package, if the loader is led to it."""
    for directory in environment.get("LD_LIBRARY_PATH", "").split(":"):
        path = os.path.join(directory, _DRIVER_LIBRARY)
        if _COMPAT.search(directory) and os.path.exists(path):
            return path
    return None
