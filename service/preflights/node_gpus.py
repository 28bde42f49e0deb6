"""Whether the GPUs of a launch are there, sound and free; else what ails them and who holds them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from service.nodes.inventory import BASELINE_USED_MIB, Gpu, GpuHolder, Inventory
from service.nodes.placement import without_launch
from service.preflights.conditions import LaunchConditions, Orphan, Part
from service.preflights.node_clock import skew_bounds_s
from service.preflights.node_wish import NodeWish
from service.sglang.checks import Check, CheckCode, Finding, Outcome, concluded, fail, warn

AGE_LIMIT_S = 60
"""An older look at the GPUs is told as such: holders come and go."""
COMMAND_LENGTH = 120
REMEDIES: tuple[tuple[str, str], ...] = (
    ("version mismatch", "reboot the node or reload NVIDIA's kernel modules: the driver was upgraded while in use"),
    ("couldn't communicate", "load NVIDIA's kernel module, or install the driver"),
    ("stuck", "reboot the node: nothing else ends a driver that hangs"),
    ("no answer", "see whether nvidia-smi answers on the node; a driver that hangs needs a reboot"),
    ("Insufficient Permissions", "let this user open /dev/nvidia*"),
    ("GPU is lost", "reboot the node; until then new processes may fail on its other GPUs, too"),
    ("device handle", "reboot the node; until then new processes may fail on its other GPUs, too"),
    ("requires reset", "reset the GPU as root while nobody is on it (nvidia-smi --gpu-reset -i INDEX), or reboot"),
    ("recovery action: Reboot", "reboot the node"),
    ("recovery action", "let what runs on it end, then reset it as root: nvidia-smi --gpu-reset -i INDEX"),
    ("remapping is pending", "reset it as root while nobody is on it: nvidia-smi --gpu-reset -i INDEX"),
    ("remapping failed", "take the GPU out of service: its memory is to be replaced"),
    ("ECC", "take the GPU out of service when the number grows; reset it while nobody is on it"),
    ("fabric", "start nvidia-fabricmanager, in exactly the driver's version: CUDA fails with error 802 until then"),
    ("No devices", "see the kernel log for Xid 79, a GPU that fell off the bus; reboot the node"),
)
"""What mends each trouble, by a part of its text; the first that fits (facts: GPU node 1.5, 1.6, 4)."""
_OTHERS = "choose other GPUs"


def check_gpus(inventory: Inventory, conditions: LaunchConditions, wish: NodeWish, *, now: datetime) -> Check:
    """Judge the GPUs that were chosen; where none could be, tell why and who is on each.

    The holders of the launch that will be stopped first do not count.
    """
    if wish.gpu_count == 0:
        return Check(CheckCode.NODE_GPUS, Outcome.PASS, "no GPU is wanted")
    orphans = {orphan.pid: orphan for orphan in conditions.processes.orphans} if conditions.processes else {}
    gpus = _as_they_will_be(inventory.gpus, wish)
    chosen = [gpu for gpu in gpus if gpu.uuid in wish.chosen]
    skew = skew_bounds_s(conditions, wish)
    notes = [f"what launch {wish.own_launch_id} holds is free by then"] if wish.own_launch_id else []
    if conditions.processes is None:
        notes.append(f"whether orphans are left is not known: {conditions.why_unknown(Part.PROCESSES)}")
    return concluded(
        CheckCode.NODE_GPUS,
        [
            *_of_node(inventory, wish, age_s=(now - inventory.at).total_seconds() + sum(skew) / 2),
            *_of_choice(gpus, wish, orphans),
            *_of_others(gpus, chosen, orphans, wish),
        ],
        otherwise="; ".join([_free(chosen), *notes]),
        facts={
            "wanted": wish.gpu_count,
            "chosen": [gpu.uuid for gpu in chosen],
            "gpus": [_plain(gpu, orphans) for gpu in gpus],
            "orphan_pids": sorted(orphans),
        },
    )


def _as_they_will_be(gpus: Sequence[Gpu], wish: NodeWish) -> tuple[Gpu, ...]:
    """Return the GPUs without the holders of the launch that goes first."""
    own = wish.own_launch_id
    if own is None:
        return tuple(gpus)
    held = {gpu.uuid for gpu in gpus if any(holder.launch_id == own for holder in gpu.holders)}
    return without_launch(gpus, own, held.union(wish.own_gpu_uuids))


def _of_node(inventory: Inventory, wish: NodeWish, *, age_s: float) -> Iterator[Finding]:
    if inventory.gpu_error:
        yield fail(f"the node's GPU driver is in trouble: {inventory.gpu_error}", _mend(inventory.gpu_error, None))
    elif not inventory.gpus:
        yield fail(f"{wish.gpu_count} GPUs are wanted, and the node has none: there is no nvidia-smi", "choose a node")
    for warning in inventory.gpu_warnings:
        yield warn(warning, "find the GPU that is missing: lspci -d 10de: lists it, and the kernel log its Xid")
    if age_s > AGE_LIMIT_S:
        yield warn(f"the GPUs were looked at {age_s:.0f} s ago")


def _of_choice(gpus: Sequence[Gpu], wish: NodeWish, orphans: Mapping[int, Orphan]) -> Iterator[Finding]:
    if not gpus:
        return
    if wish.problem or not wish.chosen:
        yield fail(wish.problem or f"{wish.gpu_count} GPUs are wanted, and none was chosen")
    listed = {gpu.uuid for gpu in gpus}
    for uuid in wish.chosen:
        if uuid not in listed:
            yield fail(f"the node does not list GPU {uuid} any more", "see the kernel log for an Xid; reboot")
    for gpu in gpus:
        if gpu.uuid in wish.chosen or wish.problem:
            yield from _of_gpu(gpu, wish, orphans)


def _of_gpu(gpu: Gpu, wish: NodeWish, orphans: Mapping[int, Orphan]) -> Iterator[Finding]:
    label = f"GPU {gpu.index} ({gpu.name})"
    if gpu.uuid in wish.claims:
        name = wish.claims[gpu.uuid]
        yield fail(f"{label} belongs to server {name}", f"stop server {name}, or {_OTHERS}")
        return
    for error in gpu.errors:
        yield fail(f"{label}: {error}", _mend(error, gpu.index))
    for warning in gpu.warnings:
        yield warn(f"{label}: {warning}", _mend(warning, gpu.index))
    holders = [holder for holder in gpu.holders if not holder.is_idle_server]
    for holder in holders:
        orphan = orphans.get(holder.pid)
        yield fail(f"{label} is held by {_who(holder, orphan)}", _release(holder, orphan))
    if not holders and not gpu.errors and not gpu.is_free:
        yield fail(
            f"{label}: {gpu.memory_used_mib} of {gpu.memory_total_mib} MiB are in use by nobody that the driver lists "
            f"(an unused GPU shows {BASELINE_USED_MIB} at most)",
            "look for a process in state D or of another container; a just killed one needs some seconds. "
            "If there is none, reset the GPU as root",
        )


def _of_others(
    gpus: Sequence[Gpu], chosen: Sequence[Gpu], orphans: Mapping[int, Orphan], wish: NodeWish
) -> Iterator[Finding]:
    """Warn of the orphans that hold none of the chosen GPUs: they hold memory, ports and shared memory."""
    told = {holder.pid for gpu in (gpus if wish.problem else chosen) for holder in gpu.holders}
    for orphan in orphans.values():
        if orphan.pid in told or (wish.own_launch_id and orphan.launch_id == wish.own_launch_id):
            continue
        held = [(gpu.index, holder.memory_mib) for gpu in gpus for holder in gpu.holders if holder.pid == orphan.pid]
        on = "".join(f", {memory_mib} MiB of GPU {index}" for index, memory_mib in held)
        yield warn(
            f"pid {orphan.pid} of user {orphan.user} (`{_cut(orphan.command)}`) is an orphan: its server is gone; it "
            f"holds {orphan.rss_mib} MiB of memory{on}",
            f"kill -9 {orphan.pid}",
        )


def _who(holder: GpuHolder, orphan: Orphan | None) -> str:
    memory = "an unknown share" if holder.memory_mib is None else f"{holder.memory_mib} MiB"
    user = f"user {holder.user}" if holder.user else "an unknown user (of another container, or ended)"
    launch = f" of launch {holder.launch_id}" if holder.launch_id else ""
    kind = ", an orphan whose server is gone" if orphan else ""
    return f"pid {holder.pid}{launch} of {user} (`{_cut(holder.command)}`) with {memory}{kind}"


def _release(holder: GpuHolder, orphan: Orphan | None) -> str:
    if orphan:
        return f"kill -9 {holder.pid}, as {holder.user or 'its user'} or root: nothing else ends it"
    if holder.launch_id:
        return f"stop the server of launch {holder.launch_id}, or {_OTHERS}"
    return f"end pid {holder.pid} if nobody needs it (kill {holder.pid}), or {_OTHERS}"


def _mend(error: str, index: int | None) -> str:
    found = next((remedy for part, remedy in REMEDIES if part in error), f"see what nvidia-smi says, or {_OTHERS}")
    return found if index is None else found.replace("INDEX", str(index))


def _free(chosen: Sequence[Gpu]) -> str:
    indexes = ", ".join(str(gpu.index) for gpu in chosen)
    memory = ", ".join(
        "not counted" if gpu.memory_total_mib is None else f"{gpu.memory_used_mib} of {gpu.memory_total_mib} MiB"
        for gpu in chosen
    )
    names = ", ".join(dict.fromkeys(gpu.name for gpu in chosen))
    return f"GPU {indexes} ({names}): free; memory in use: {memory}"


def _cut(command: str) -> str:
    return command if len(command) <= COMMAND_LENGTH else f"{command[:COMMAND_LENGTH]}..."


def _plain(gpu: Gpu, orphans: Mapping[int, Orphan]) -> dict[str, object]:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "memory_total_mib": gpu.memory_total_mib,
        "memory_used_mib": gpu.memory_used_mib,
        "errors": list(gpu.errors),
        "holders": [
            {
                "pid": holder.pid,
                "user": holder.user,
                "command": holder.command,
                "memory_mib": holder.memory_mib,
                "launch_id": holder.launch_id,
                "is_orphan": holder.pid in orphans,
            }
            for holder in gpu.holders
        ],
    }
