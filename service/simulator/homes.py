"""The home directory of a simulated node: its commands, engine environments, models, and the state of its GPUs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import uuid
from pathlib import Path

from service.simulator.models import write_model
from service.simulator.processes import HOME_MARKER, NODE_MARKER
from service.simulator.specs import ENGINE_VERSIONS, NodeSpec

USER = "vigil"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENGINE_SOURCES = Path(__file__).parent / "engine"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where engines leave their segments
TORCH_RECORDS = {"0.5.10.post1": "2.9.1+cu129", "0.5.16": "2.11.0+cu130", "0.5.23": "2.14.1+cu130"}
"""The torch that each version asks for, with the CUDA it is built for."""
BUS_NUMBERS = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
"""PCI buses of the eight GPUs of one common board."""
GPU_NAMESPACE = uuid.UUID("5b2f0e0a-6d0c-4a41-9f5c-2f1e9d3b7c60")


def state_dir(home: Path) -> Path:
    """Return where the stand-ins of a node keep their state."""
    return home / ".simulator"


def engine_python(home: Path, version: str) -> Path:
    """Return the Python of an engine environment, the path that a profile names."""
    return home / f"engine-{version}" / "bin" / "python"


def gpu_uuids(spec: NodeSpec) -> tuple[str, ...]:
    """Return the uuids of a node's GPUs; the same name always gives the same ones."""
    return tuple(f"GPU-{uuid.uuid5(GPU_NAMESPACE, f'{spec.name}/{index}')}" for index in range(spec.gpu_count))


def session_environment(spec: NodeSpec, home: Path) -> dict[str, str]:
    """Return the environment in which sshd would start a command: nothing of ours is passed on."""
    return {
        "HOME": str(home),
        "USER": USER,
        "LOGNAME": USER,
        "SHELL": "/bin/sh",
        "PATH": f"{home / 'bin'}:{SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "NCCL_SHM_DISABLE": "1",  # there is no NCCL, and the machine's /dev/shm need not be that of a GPU node
        NODE_MARKER: spec.name,
        HOME_MARKER: str(home),
    }


def build_home(spec: NodeSpec, home: Path) -> None:
    """Create a node's home, or bring one that is there up to date. Files of engines and launches stay.

    Raises ValueError for an engine version that has no stand-in.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    state = state_dir(home)
    for directory in (home / "bin", home / "models", state / "holders", state / "shm"):
        directory.mkdir(parents=True, exist_ok=True)
    (state / "gpus.json").write_text(json.dumps(_gpu_rows(spec)), encoding="utf-8")
    (state / "default-script").write_text(spec.script or "default", encoding="utf-8")
    _write_commands(spec, home)
    for version in spec.engine_versions:
        _write_environment(home, version)
    for model in spec.models:
        write_model(model, home / "models" / model.name)


def remove_shared_memory(home: Path) -> None:
    """Remove what the ended engines of a node left in /dev/shm; they noted the names."""
    for note in (state_dir(home) / "shm").iterdir():
        (SHARED_MEMORY / note.name).unlink(missing_ok=True)
        note.unlink()


def _gpu_rows(spec: NodeSpec) -> list[dict[str, object]]:
    return [
        {
            "index": index,
            "uuid": gpu_uuid,
            "name": spec.gpu.name,
            "memory_mib": spec.gpu.memory_mib,
            "bus_id": f"00000000:{BUS_NUMBERS[index % 8] + index // 8:02X}:00.0",
            "power_limit_w": spec.gpu.power_limit_w,
            "compute_capability": spec.gpu.compute_capability,
            "has_ecc": spec.gpu.has_ecc,
            "driver_version": spec.driver_version,
        }
        for index, gpu_uuid in enumerate(gpu_uuids(spec))
    ]


def _write_commands(spec: NodeSpec, home: Path) -> None:
    """Write what goes before the system's commands: nvidia-smi where there are GPUs, python3 where there is none."""
    if spec.gpu_count:
        words = [str(_base_python()), "-IS", str(ENGINE_SOURCES / "nvidia_smi.py"), str(state_dir(home))]
        _write_executable(home / "bin" / "nvidia-smi", f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    if shutil.which("python3", path=SYSTEM_PATH) is None:
        _write_executable(home / "bin" / "python3", f'#!/bin/sh\nexec {shlex.quote(str(_base_python()))} "$@"\n')


def _write_environment(home: Path, version: str) -> None:
    """Lay out a virtual environment whose only packages are stand-ins, under the names and versions of the real ones.

    Torch is the record, which tells for which CUDA it would be built, and the few functions that ask for GPUs.
    """
    if version not in ENGINE_VERSIONS:
        raise ValueError(f"no stand-in for SGLang {version}; there are {', '.join(ENGINE_VERSIONS)}")
    root = engine_python(home, version).parent.parent
    packages = root / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (root / "bin").mkdir(parents=True, exist_ok=True)
    (root / "pyvenv.cfg").write_text(
        f"home = {_base_python().parent}\ninclude-system-site-packages = false\n", encoding="utf-8"
    )
    for name, number in (("sglang", version), ("torch", TORCH_RECORDS[version])):
        record = packages / f"{name}-{number}.dist-info"
        record.mkdir(parents=True, exist_ok=True)
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n"
        (record / "METADATA").write_text(text, encoding="utf-8")
    _link(root / "bin" / "python", _base_python())
    _link(root / "bin" / "python3", Path("python"))
    for package in ("sglang", "torch"):
        _link(packages / package, ENGINE_SOURCES / package)


def _base_python() -> Path:
    """Return the interpreter behind a virtual environment's link."""
    return Path(os.path.realpath(sys.executable))


def _link(path: Path, target: Path) -> None:
    if path.is_symlink():
        path.unlink()
    path.symlink_to(target)


def _write_executable(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
