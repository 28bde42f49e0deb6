"""Whether there is room for what a launch writes: its log, caches, temporary files, and shared memory."""

from collections.abc import Iterator, Mapping, Sequence

from service.preflights.conditions import LaunchConditions, Part, Place, SharedMemory
from service.preflights.node_wish import NodeWish
from service.sglang.checks import Check, CheckCode, Finding, Outcome, concluded, fail, skipped, warn

LAUNCHES = "launches"
ASKED = "asked"
LOG_ROOM_NEEDED_MIB = 100
"""With less than this a start alone, with tracebacks of every rank, may fill the disk, and its cause is lost."""
ROOM_SENSIBLE_MIB = 1024
"""A log grows for as long as its server serves, and kernels that are compiled at the start take hundreds of MiB."""
INODES_NEEDED = 100
NCCL_SEGMENT_MIB = 10
"""NCCL's segments in /dev/shm are of 9 637 888 bytes each, and the start dies of the first that does not fit: 64 MiB,
Docker's default, are too little for a model on eight GPUs (facts: GPU node 5.3; SGLang issues 4259 and 1986)."""
SHM_PER_RANK_MIB = 1024
"""What is to be provided for each rank (facts: GPU node 5.3)."""
SHM_NEEDED_MIB = 1
SHM_SENSIBLE_MIB = 64
"""For an engine of one rank, which has semaphores and small tables there, and dies by SIGBUS when it is full."""
DOCKER_SHM_MIB = 64
_USES: Mapping[str, str] = {
    LAUNCHES: "launches and their logs",
    "hub_cache": "the hub's cache",
    "engine_cache": "the engine's cache",
    "cache": "other caches",
    "temporary": "temporary files",
    ASKED: "the model",
}


def check_disk(conditions: LaunchConditions) -> Check:
    """Fail only where a launch cannot work: no place for its files and log. Anything else is a warning."""
    places = conditions.places
    if places is None:
        return skipped(CheckCode.NODE_DISK, f"no disk could be measured: {conditions.why_unknown(Part.PLACES)}")
    home = next((place for place in places if place.name == LAUNCHES), None)
    findings = [*_launches(home), *(finding for place in places for finding in _place(place)), *_room(places)]
    if (home is None or home.problem) and all(finding.outcome is not Outcome.FAIL for finding in findings):
        why = home.problem if home else "the node did not name it"
        return skipped(CheckCode.NODE_DISK, f"the place of launches and their logs could not be measured: {why}")
    return concluded(
        CheckCode.NODE_DISK,
        findings,
        otherwise="; ".join(_told(group) for group in _by_device(places)),
        facts={"places": [_plain(place) for place in places]},
    )


def check_shared_memory(conditions: LaunchConditions, wish: NodeWish) -> Check:
    """Judge the room in /dev/shm by the number of ranks, one for each GPU; with one rank, NCCL does not use it."""
    memory = conditions.shared_memory
    if memory is None:
        why = conditions.why_unknown(Part.SHARED_MEMORY)
        return skipped(CheckCode.NODE_SHM, f"the room in /dev/shm could not be measured: {why}")
    room = f"{memory.free_mib} of {memory.total_mib} MiB of /dev/shm are free, in {memory.file_count} files"
    return concluded(
        CheckCode.NODE_SHM,
        _shared_memory(memory, room, wish.gpu_count),
        otherwise=f"{room}{'; NCCL is kept out of it by NCCL_SHM_DISABLE' if memory.is_nccl_off else ''}",
        facts={
            "total_mib": memory.total_mib,
            "free_mib": memory.free_mib,
            "file_count": memory.file_count,
            "ranks": wish.gpu_count,
            "is_nccl_off": memory.is_nccl_off,
        },
    )


def _launches(home: Place | None) -> Iterator[Finding]:
    if home is None or home.problem:
        return
    if home.is_read_only:
        yield fail(f"{home.path} is on a file system that is mounted read-only", "mount it for writing")
    elif not home.is_writable:
        yield fail(f"this user may not write to {home.measured_path}", f"give {home.path} to this user")
    if home.free_mib is not None and home.free_mib < LOG_ROOM_NEEDED_MIB:
        found = (
            f"{home.free_mib} MiB are free for {_USES[LAUNCHES]} in {home.path}, and {LOG_ROOM_NEEDED_MIB} are needed"
        )
        yield fail(found, f"make room on the file system of {home.measured_path}")
    if home.free_inodes is not None and home.free_inodes < INODES_NEEDED:
        found = f"{home.free_inodes} files can still be made in {home.path}: its file system is out of inodes"
        yield fail(found, f"remove small files from the file system of {home.measured_path}")


def _place(place: Place) -> Iterator[Finding]:
    if place.name == LAUNCHES:
        return
    if place.problem:
        yield warn(f"{place.path} ({_use(place)}) could not be measured: {place.problem}")
    elif place.name == ASKED:
        return
    elif place.is_read_only or not place.is_writable:
        why = "is mounted read-only" if place.is_read_only else "is not writable for this user"
        found = f"{place.measured_path} ({_use(place)}) {why}: what the engine wants to keep there it cannot"
        yield warn(found, f"let {_variable(place)} name a directory that this user may write to")


def _room(places: Sequence[Place]) -> Iterator[Finding]:
    """Warn once for each file system that is nearly full, and has not failed already."""
    for group in _by_device(places):
        written = [place for place in group if place.name != ASKED]
        free_mib = min((place.free_mib for place in written if place.free_mib is not None), default=None)
        if free_mib is None or free_mib >= ROOM_SENSIBLE_MIB:
            continue
        if free_mib < LOG_ROOM_NEEDED_MIB and any(place.name == LAUNCHES for place in written):
            continue
        yield warn(
            f"{_told(written)}: logs grow while a server serves, and compiled kernels take hundreds of MiB",
            f"make room on the file system of {written[0].measured_path}",
        )


def _shared_memory(memory: SharedMemory, room: str, gpu_count: int) -> Iterator[Finding]:
    has_nccl = gpu_count > 1 and not memory.is_nccl_off
    needed = NCCL_SEGMENT_MIB * gpu_count if has_nccl else SHM_NEEDED_MIB
    sensible = SHM_PER_RANK_MIB * gpu_count if has_nccl else SHM_SENSIBLE_MIB
    why = f"for {gpu_count} ranks of NCCL" if has_nccl else "for the engine's own tables"
    if memory.free_mib < needed:
        yield fail(f"{room}; {why} at least {needed} MiB are needed", _shm_remedy(memory, sensible))
    elif memory.free_mib < sensible:
        yield warn(f"{room}; {why} {sensible} MiB are advised", _shm_remedy(memory, sensible))


def _shm_remedy(memory: SharedMemory, sensible_mib: int) -> str:
    if memory.total_mib >= sensible_mib:
        return "remove what killed engines left in /dev/shm (psm_*, sgl_shm_*, nccl-*) and nobody has open"
    if memory.total_mib <= DOCKER_SHM_MIB:
        return f"start the container with --shm-size={sensible_mib}m or --ipc=host"
    return f"enlarge it as root: mount -o remount,size={sensible_mib}m /dev/shm"


def _by_device(places: Sequence[Place]) -> list[list[Place]]:
    groups: dict[int | None, list[Place]] = {}
    for place in places:
        if place.problem is None:
            groups.setdefault(place.device, []).append(place)
    return list(groups.values())


def _told(group: Sequence[Place]) -> str:
    first = group[0]
    uses = ", ".join(dict.fromkeys(_use(place) for place in group))
    return f"{first.free_mib} of {first.total_mib} MiB are free for {uses} ({first.measured_path})"


def _use(place: Place) -> str:
    return _USES.get(place.name, place.name)


def _variable(place: Place) -> str:
    names = {"hub_cache": "HF_HUB_CACHE", "engine_cache": "SGLANG_CACHE_DIR", "cache": "HOME", "temporary": "TMPDIR"}
    return names.get(place.name, place.name)


def _plain(place: Place) -> dict[str, object]:
    return {
        "name": place.name,
        "path": place.path,
        "total_mib": place.total_mib,
        "free_mib": place.free_mib,
        "free_inodes": place.free_inodes,
        "is_writable": place.is_writable,
        "is_read_only": place.is_read_only,
        "problem": place.problem,
    }
