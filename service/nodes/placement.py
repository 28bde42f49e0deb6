"""Which GPUs of a node a server may have, or why none."""

from collections.abc import Mapping, Sequence

from service.errors import GpusUnavailable, GpuTaken, InvalidInput
from service.nodes.inventory import Gpu


def choose_gpus(
    gpus: Sequence[Gpu], claims: Mapping[str, str], *, pinned: Sequence[str | int] | None, count: int
) -> tuple[Gpu, ...]:
    """Return the GPUs of a launch in the order of their index.

    `claims` maps the uuid of a claimed GPU to the name of the server that holds it. Pinned GPUs (index or uuid)
    are taken as they are named; GpuTaken names the holder of a claimed one, GpusUnavailable says what ails a bad
    one, InvalidInput names one that the node lacks. Otherwise the lowest free indexes are taken, next to each
    other where possible, since neighbours share a switch.
    """
    if pinned is not None:
        return tuple(sorted((_pinned(gpus, wanted, claims) for wanted in pinned), key=lambda gpu: gpu.index))
    if count == 0:
        return ()
    free = [gpu for gpu in gpus if not problem(gpu, claims)]
    if len(free) < count:
        reasons = "; ".join(f"GPU {gpu.index}: {problem(gpu, claims)}" for gpu in gpus if problem(gpu, claims))
        raise GpusUnavailable(f"{count} GPUs are wanted and {len(free)} of {len(gpus)} are free. {reasons}".strip())
    return tuple(_closest(free, count))


def problem(gpu: Gpu, claims: Mapping[str, str]) -> str | None:
    """Return why a GPU cannot be given to a server now, or None."""
    if gpu.uuid in claims:
        return f"held by server {claims[gpu.uuid]}"
    if gpu.errors:
        return ", ".join(gpu.errors)
    if gpu.holders:
        return "held by " + ", ".join(f"pid {holder.pid} ({holder.command})" for holder in gpu.holders)
    if not gpu.is_free:
        return f"{gpu.memory_used_mib} MiB are in use by nobody that can be seen"
    return None


def _pinned(gpus: Sequence[Gpu], wanted: str | int, claims: Mapping[str, str]) -> Gpu:
    gpu = next((gpu for gpu in gpus if wanted in (gpu.index, gpu.uuid)), None)
    if gpu is None:
        raise InvalidInput(
            f"the node has no GPU {wanted!r}; it has {', '.join(str(gpu.index) for gpu in gpus) or 'none'}"
        )
    if gpu.uuid in claims:
        raise GpuTaken(f"GPU {gpu.index} is held by server {claims[gpu.uuid]}", holder=claims[gpu.uuid])
    reason = problem(gpu, claims)
    if reason:
        raise GpusUnavailable(f"GPU {gpu.index}: {reason}")
    return gpu


def _closest(free: Sequence[Gpu], count: int) -> Sequence[Gpu]:
    ordered = sorted(free, key=lambda gpu: gpu.index)
    windows = [ordered[start : start + count] for start in range(len(ordered) - count + 1)]
    return min(windows, key=lambda window: window[-1].index - window[0].index)
