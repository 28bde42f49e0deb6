"""The GPUs that an engine sees, and the memory that its ranks hold on them, as nvidia-smi will tell it."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, List, NamedTuple

from .processes import start_ticks
from .versions import state_dir

MIB_PER_GB = 1024.0
REFRESH_S = 0.1
CONTEXT_MIB = 520
"""What a CUDA context takes before anything is loaded."""


class Gpu(NamedTuple):
    """One GPU of the node."""

    uuid: str
    memory_mib: int


def visible_gpus() -> List[Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES allows, in its order; without it, all. Unknown names end the list."""
    rows = _read(os.path.join(state_dir(), "gpus.json")) or []
    everything = [Gpu(row["uuid"], row["memory_mib"]) for row in rows]
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return everything
    visible = []
    for name in wanted.split(","):
        found = [g for i, g in enumerate(everything) if name.strip() in (str(i), g.uuid)]
        if not found:
            break
        visible += found
    return visible


class GpuMemory:
    """What this process holds on its GPU; written to a file that counts while the process lives."""

    def __init__(self, gpu: Gpu, name: str) -> None:
        self.gpu = gpu
        self.used_mib = 0
        self._name = name
        self._told_at = self._looked_at = -1.0
        self._others = 0
        self._directory = os.path.join(state_dir(), "holders")
        self._path = os.path.join(self._directory, f"{os.getpid()}.json")

    def hold(self, mib: float, *, is_final: bool = True) -> None:
        """Hold so much memory in all from now on; steps on the way to a final amount are told now and then."""
        self.used_mib = int(mib)
        now = time.monotonic()
        if not is_final and now - self._told_at < REFRESH_S:
            return
        self._told_at = now
        pid = os.getpid()
        note = {
            "pid": pid,
            "start_ticks": start_ticks(pid),
            "name": self._name,
            "gpus": {self.gpu.uuid: self.used_mib},
        }
        with open(self._path + ".part", "w", encoding="utf-8") as file:
            json.dump(note, file)
        os.replace(self._path + ".part", self._path)

    def available_gb(self) -> float:
        """Return what is free on the GPU, in the engine's GB (2**30 bytes)."""
        return max(self.gpu.memory_mib - self.used_mib - self._others_mib(), 0) / MIB_PER_GB

    def _others_mib(self) -> int:
        """Return what other processes hold on the GPU, looked up again every tenth of a second."""
        now = time.monotonic()
        if now - self._looked_at > REFRESH_S:
            self._looked_at = now
            self._others = self._look_for_others()
        return self._others

    def _look_for_others(self) -> int:
        total = 0
        for name in os.listdir(self._directory):
            note = _read(os.path.join(self._directory, name)) if name.endswith(".json") else None
            if note is None or note["pid"] == os.getpid():
                continue
            gpus: Dict[str, int] = note["gpus"]
            if self.gpu.uuid in gpus and start_ticks(note["pid"]) == note["start_ticks"]:
                total += gpus[self.gpu.uuid]
        return total


def _read(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None
