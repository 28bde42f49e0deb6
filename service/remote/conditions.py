"""How a node's answer about launch conditions becomes values."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from service.clock import from_epoch
from service.preflights.conditions import (
    BindTrial,
    EnginePackages,
    LaunchConditions,
    Limit,
    LimitName,
    LimitsLook,
    Listener,
    Orphan,
    Part,
    Place,
    PortLook,
    Processes,
    SharedMemory,
)

Plain = Mapping[str, Any]
_T = TypeVar("_T")


def launch_conditions(answer: Plain) -> LaunchConditions:
    """Return what `launch_conditions` saw. Another shape than agreed raises KeyError, TypeError or ValueError."""
    return LaunchConditions(
        began_at=from_epoch(answer["began_at"]),
        ended_at=from_epoch(answer["ended_at"]),
        port=_part(answer, Part.PORT, _port),
        limits=_part(answer, Part.LIMITS, _limits),
        shared_memory=_part(answer, Part.SHARED_MEMORY, _shared_memory),
        places=_part(answer, Part.PLACES, lambda places: tuple(map(_place, places))),
        packages=_part(answer, Part.PACKAGES, _packages),
        processes=_part(answer, Part.PROCESSES, _processes),
        problems={Part(name): str(text) for name, text in answer["problems"].items()},
    )


def _part(answer: Plain, part: Part, parse: Callable[[Any], _T]) -> _T | None:
    """Return a part, None when the node says what kept it from looking; it must say one or the other."""
    return None if part.value in answer["problems"] else parse(answer[part.value])


def _port(plain: Plain) -> PortLook:
    bounds = plain["ephemeral"]
    return PortLook(
        listeners=tuple(
            Listener(
                address=str(row["address"]),
                pid=_whole(row["pid"]),
                user=_text(row["user"]),
                command=_text(row["command"]),
                launch_id=_text(row["launch"]),
            )
            for row in plain["listeners"]
        ),
        trials=tuple(BindTrial(str(row["address"]), _text(row["error"])) for row in plain["trials"]),
        ephemeral=None if bounds is None else (int(bounds[0]), int(bounds[1])),
    )


def _limits(plain: Plain) -> LimitsLook:
    manager = plain["user_manager"]
    return LimitsLook(
        login=_bounds(plain["login"]),
        user_manager=None if manager is None else _bounds(manager),
        is_root=plain["is_root"] is True,
        user_threads=int(plain["user_threads"]),
        rdma_devices=tuple(map(str, plain["rdma_devices"])),
    )


def _bounds(plain: Plain) -> dict[LimitName, Limit]:
    return {name: Limit(_whole(plain[name.value][0]), _whole(plain[name.value][1])) for name in LimitName}


def _shared_memory(plain: Plain) -> SharedMemory:
    return SharedMemory(
        total_mib=int(plain["total_mib"]),
        free_mib=int(plain["free_mib"]),
        file_count=int(plain["file_count"]),
        is_nccl_off=plain["is_nccl_off"] is True,
    )


def _place(plain: Plain) -> Place:
    return Place(
        name=str(plain["name"]),
        path=str(plain["path"]),
        measured_path=_text(plain["measured_path"]),
        device=_whole(plain["device"]),
        total_mib=_whole(plain["total_mib"]),
        free_mib=_whole(plain["free_mib"]),
        free_inodes=_whole(plain["free_inodes"]),
        is_writable=_flag(plain["is_writable"]),
        is_read_only=_flag(plain["is_read_only"]),
        problem=_text(plain["problem"]),
    )


def _packages(plain: Plain) -> EnginePackages:
    return EnginePackages(
        torch_version=_text(plain["torch_version"]),
        torch_cuda=_text(plain["torch_cuda"]),
        torch_hip=_text(plain["torch_hip"]),
        cuda_runtime=_text(plain["cuda_runtime"]),
        compat_path=_text(plain["compat_path"]),
        is_torch_cpu=plain["is_torch_cpu"] is True,
    )


def _processes(plain: Plain) -> Processes:
    return Processes(
        orphans=tuple(
            Orphan(
                pid=int(row["pid"]),
                user=_text(row["user"]),
                command=str(row["command"]),
                launch_id=_text(row["launch"]),
                rss_mib=int(row["rss_mib"]),
            )
            for row in plain["orphans"]
        ),
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)
