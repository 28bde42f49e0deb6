"""What a node of eight H100s with one ready server says: the observer's facts and the inventory."""

import base64
import time
from collections.abc import Iterable, Iterator
from typing import Any

GPU_COUNT = 8
BOOT_ID = "5b7c0c4e-6d0e-4d3b-9f0d-2f8f5f0f7a11"
_LABELS = 'engine_type="unified",model_name="/models/llama-3.1-70b",moe_ep_rank="0",pp_rank="0",tp_rank="0"'
_UUID = "GPU-5d4f0000-91ab-4c3e-8a07-3b1f0e6c2d{:02d}"


def plain_inventory() -> dict[str, Any]:
    """Return what the inventory verb says on a node of eight idle H100s."""
    fields = ["index", "uuid", "pci.bus_id", "memory.total", "memory.used", "driver_version", "name"]
    rows = [
        f"{index}, {_UUID.format(index)}, 00000000:{index:02X}:00.0, 81559, 4, 570.86.15, NVIDIA H100 80GB HBM3"
        for index in range(GPU_COUNT)
    ]
    return {
        "at": time.time(),
        "boot_id": BOOT_ID,
        "hostname": "fake",
        "kernel": "6.8.0-49-generic",
        "cpu_count": 192,
        "memory_total_mib": 2_063_972,
        "memory_available_mib": 1_930_002,
        "disks": [{"path": "/home/ops", "total_mib": 3_662_830, "free_mib": 2_101_044}],
        "shm_total_mib": 1_031_986,
        "shm_free_mib": 1_031_900,
        "utc_offset_s": 0,
        "uid": 1000,
        "user": "ops",
        "launcher": "systemd_user",
        "driver_gpus": [f"0000:{index:02x}:00.0" for index in range(GPU_COUNT)],
        "gpu_query": {"exit": 0, "is_stuck": False, "fields": fields, "text": "\n".join(rows)},
        "gpu_extra": None,
        "gpu_apps": {"exit": 0, "is_stuck": False, "fields": [], "text": ""},
        "processes": {},
    }


class Launch:
    """One server that serves: its counters grow, and it logs a decode batch now and then."""

    def __init__(self, launch_id: str, log_offset: int) -> None:
        self.id = launch_id
        self._offset = log_offset
        self._ticks = 0

    @property
    def is_running(self) -> bool:
        """Tell whether its processes hold the GPUs."""
        return True

    def first_facts(self) -> list[dict[str, Any]]:
        """Return what is said when the watch begins: everything."""
        process = {"state": "running", "pid": 5151, "exit_code": None, "ended_at": None, "members": 10}
        listener = {"owner": "ours", "pid": 5151, "command": "python -m sglang.launch_server"}
        return [self._fact(process=process, listener=listener, effort=self._effort())]

    def facts(self, *, has_line: bool) -> Iterator[dict[str, Any]]:
        """Return what has changed within a second, with a line of the log if it is time for one."""
        if has_line:
            yield self._log_line()
        yield self._fact(effort=self._effort())

    def metrics(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the samples that are wanted, of one replica whose counters move and that does not speculate."""
        moved = time.time() * 900
        told = [name for name in names if not name.startswith("sglang:spec_")]
        text = "".join(f"{name}{{{_LABELS}}} {moved if 'token' in name else 31:.1f}\n" for name in told)
        return {"k": "metrics", "launch": self.id, "at": time.time(), "text": text}

    def _log_line(self) -> dict[str, Any]:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        data = (
            f"[{stamp} TP0] Decode batch, #running-req: 31, #token: {20_000 + self._ticks}, token usage: 0.41, "
            f"cuda graph: True, gen throughput (token/s): {1400 + self._ticks % 90}.25, #queue-req: 0\n"
        ).encode()
        fact = {"k": "log", "launch": self.id, "offset": self._offset, "b64": base64.b64encode(data).decode("ascii")}
        self._offset += len(data)
        return fact

    def _effort(self) -> dict[str, Any]:
        self._ticks += 830
        return {
            "cpu_ticks": self._ticks,
            "read_bytes": 151_000_000_000,
            "rss_mib": 48_211,
            "gpu_memory_mib": 601_336,
            "log_bytes": self._offset,
        }

    def _fact(self, **parts: Any) -> dict[str, Any]:
        return {"k": "fact", "launch": self.id, "at": time.time(), **parts}


def holders(launch_id: str) -> dict[str, Any]:
    """Return who holds the GPUs: eight ranks of the launch."""
    rows = [
        {
            "uuid": _UUID.format(index),
            "pid": 5200 + index,
            "memory_mib": 75_167,
            "command": f"sglang::scheduler_TP{index}",
            "user": "ops",
            "launch": launch_id,
        }
        for index in range(GPU_COUNT)
    ]
    return {"k": "gpus", "at": time.time(), "holders": rows, "error": None}
