"""A good node and a common wish, and how what differs from them is judged."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from service.nodes.inventory import Gpu, GpuHolder, Inventory
from service.preflights.conditions import (
    BindTrial,
    EnginePackages,
    LaunchConditions,
    Limit,
    LimitName,
    LimitsLook,
    Place,
    PortLook,
    Processes,
    SharedMemory,
)
from service.preflights.node_checks import NodeWish, check_node
from service.sglang.checks import Check, CheckCode, Outcome

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FREE = (Limit(1048576, 1048576), Limit(None, None), Limit(4096, 4096), Limit(0, None), Limit(8 << 20, None))
LOGIN = dict(zip(LimitName, FREE, strict=True))
OK, WARN, FAIL, SKIPPED = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.SKIPPED


def gpu(index: int, *holders: GpuHolder, used_mib: int | None = None, **fields: Any) -> Gpu:
    used = sum(holder.memory_mib or 0 for holder in holders) if used_mib is None else used_mib
    plain = Gpu(index, f"GPU-{index}", "NVIDIA H200", 143771, used, f"00000000:{index:02X}:00.0", holders)
    return replace(plain, **fields)


def holder(pid: int, memory_mib: int = 70000, command: str = "python train.py", **fields: Any) -> GpuHolder:
    return GpuHolder(pid, memory_mib, command, **{"user": "bob", **fields})


INVENTORY = Inventory(
    at=NOW,
    boot_id="b",
    hostname="atlas",
    kernel="6.8.0",
    cpu_count=128,
    memory_total_mib=2_000_000,
    memory_available_mib=1_900_000,
    disks=(),
    shm_total_mib=1_000_000,
    shm_free_mib=999_999,
    driver_version="590.48.01",
    gpus=(gpu(0), gpu(1, used_mib=4)),
    gpu_error=None,
    utc_offset_s=0,
    uid=1000,
    user="u",
    launcher="setsid",
)


def place(name: str = "launches", **fields: Any) -> Place:
    plain = Place(
        name=name,
        path=f"/home/u/{name}",
        measured_path="/home/u",
        device=1,
        total_mib=900_000,
        free_mib=500_000,
        free_inodes=10**6,
        is_writable=True,
        is_read_only=False,
    )
    return replace(plain, **fields)


CONDITIONS = LaunchConditions(
    began_at=NOW,
    ended_at=NOW + timedelta(seconds=0.1),
    port=PortLook((), (BindTrial("127.0.0.1", None),)),
    limits=LimitsLook(LOGIN, user_manager=None, is_root=False, user_threads=96, rdma_devices=()),
    shared_memory=SharedMemory(total_mib=1_000_000, free_mib=999_000, file_count=3),
    places=(place(), place("hub_cache")),
    packages=EnginePackages("2.14.1+cu130", "13.0", None, None, None),
    processes=Processes(()),
)
WISH = NodeWish(
    host="127.0.0.1",
    port=30000,
    gpu_count=2,
    engine_version="0.5.23",
    asked_at=NOW - timedelta(seconds=0.05),
    answered_at=NOW + timedelta(seconds=0.15),
    chosen=("GPU-0", "GPU-1"),
)


def judged(
    code: CheckCode,
    *,
    inventory: Mapping[str, Any] | None = None,
    conditions: Mapping[str, Any] | None = None,
    now: datetime = NOW,
    **wish: Any,
) -> Check:
    """Judge what differs from a good node and a common wish."""
    checks = check_node(
        replace(INVENTORY, **(inventory or {})),
        replace(CONDITIONS, **(conditions or {})),
        replace(WISH, **wish),
        now=now,
    )
    (found,) = [check for check in checks if check.code is code]
    return found
