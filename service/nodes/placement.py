"""Which GPUs of a node a server may have, or why none."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from service.errors import GpusUnavailable, GpuTaken, InvalidInput
from service.nodes.inventory import Gpu

NAMED_TWICE = "gpus names a GPU twice"


def choose_gpus(
    gpus: Sequence[Gpu],
    claims: Mapping[str, str],
    *,
    pinned: Sequence[str | int] | None,
    count: int,
    despite_trouble: bool = False,
) -> tuple[Gpu, ...]:
    """Return the GPUs of a launch in the order of their index.

    `claims` maps the uuid of a claimed GPU to the name of the server that holds it. Pinned GPUs (index or uuid)
    are taken as they are named; GpuTaken names the holder of a claimed one, GpusUnavailable says what ails a bad
    one, InvalidInput names one that the node lacks, or says that one is named twice. Otherwise the lowest free
    indexes are taken, next to each other where possible, since neighbours share a switch. `despite_trouble` is the
    word of an operator who knows better: pinned GPUs are then given although somebody else is on them or the driver
    complains, never claimed ones.
    """
    if pinned is not None:
        chosen = [_pinned(gpus, wanted, claims, despite_trouble=despite_trouble) for wanted in pinned]
        if len({gpu.uuid for gpu in chosen}) < len(chosen):
            raise InvalidInput(NAMED_TWICE)
        return tuple(sorted(chosen, key=lambda gpu: gpu.index))
    if count == 0:
        return ()
    free = [gpu for gpu in gpus if not problem(gpu, claims)]
    if len(free) < count:
        reasons = "; ".join(f"GPU {gpu.index}: {problem(gpu, claims)}" for gpu in gpus if problem(gpu, claims))
        raise GpusUnavailable(f"{count} GPUs are wanted and {len(free)} of {len(gpus)} are free. {reasons}".strip())
    return tuple(_closest(free, count))


def misfit(
    node: str, present: Sequence[Mapping[str, Any]], *, pinned: Sequence[str | int] | None, count: int
) -> str | None:
    """Return why a node can never give such GPUs, however free they are, or None; `present` is of its inventory."""
    if pinned is None:
        is_short = count > len(present)
        return f"{count} GPUs are wanted and node {node} has {len(present)}" if is_short else None
    uuids = {key: gpu["uuid"] for gpu in present for key in (gpu["index"], gpu["uuid"])}
    absent = next((wanted for wanted in pinned if wanted not in uuids), None)
    if absent is not None:
        return f"node {node} has no GPU {absent!r}"
    return NAMED_TWICE if len({uuids[wanted] for wanted in pinned}) < len(pinned) else None


def problem(gpu: Gpu, claims: Mapping[str, str]) -> str | None:
    """Return why a GPU cannot be given to a server now, or None."""
    if gpu.uuid in claims:
        return f"held by server {claims[gpu.uuid]}"
    if gpu.errors:
        return ", ".join(gpu.errors)
    holders = [holder for holder in gpu.holders if not holder.is_idle_server]
    if holders:
        return "held by " + ", ".join(f"pid {holder.pid} ({holder.command})" for holder in holders)
    if not gpu.is_free:
        return f"{gpu.memory_used_mib} MiB are in use by nobody that can be seen"
    return None


def without_launch(gpus: Sequence[Gpu], launch_id: str, gpu_uuids: Collection[str]) -> tuple[Gpu, ...]:
    """Return the GPUs as they will be once a launch is gone that was given some of them: without its processes.

    Their memory is taken for free unless somebody else is seen on them too, whose share is then what counts. A pid
    that cannot be seen is taken for the launch's own: the driver of a container lists those of the host.
    """
    return tuple(_freed(gpu, launch_id) if gpu.uuid in gpu_uuids else gpu for gpu in gpus)


def _freed(gpu: Gpu, launch_id: str) -> Gpu:
    others = tuple(holder for holder in gpu.holders if holder.launch_id != launch_id and holder.user is not None)
    used_mib = sum(holder.memory_mib or 0 for holder in others)
    return replace(gpu, holders=others, memory_used_mib=None if gpu.memory_used_mib is None else used_mib)


def _pinned(gpus: Sequence[Gpu], wanted: str | int, claims: Mapping[str, str], *, despite_trouble: bool) -> Gpu:
    gpu = next((gpu for gpu in gpus if wanted in (gpu.index, gpu.uuid)), None)
    if gpu is None:
        raise InvalidInput(
            f"the node has no GPU {wanted!r}; it has {', '.join(str(gpu.index) for gpu in gpus) or 'none'}"
        )
    if gpu.uuid in claims:
        raise GpuTaken(f"GPU {gpu.index} is held by server {claims[gpu.uuid]}", holder=claims[gpu.uuid])
    reason = problem(gpu, claims)
    if reason and not despite_trouble:
        raise GpusUnavailable(f"GPU {gpu.index}: {reason}")
    return gpu


def _closest(free: Sequence[Gpu], count: int) -> Sequence[Gpu]:
    ordered = sorted(free, key=lambda gpu: gpu.index)
    windows = [ordered[start : start + count] for start in range(len(ordered) - count + 1)]
    return min(windows, key=lambda window: window[-1].index - window[0].index)
