"""Whether there is room for what a launch writes, on disks and in shared memory."""

import pytest

from service.preflights.conditions import (
    Place,
    SharedMemory,
)
from service.sglang.checks import CheckCode, Outcome
from tests.preflights.nodes import FAIL, OK, SKIPPED, WARN, judged, place


@pytest.mark.parametrize(
    ("places", "outcome", "told"),
    [
        ((place(free_mib=99),), FAIL, "99 MiB are free for launches and their logs"),
        ((place(free_mib=100),), WARN, "100 of 900000 MiB are free for launches and their logs"),
        ((place(free_mib=1024),), OK, "1024 of 900000 MiB"),
        ((place(free_inodes=3),), FAIL, "3 files can still be made"),
        ((place(free_inodes=None),), OK, "500000 of"),
        ((place(is_read_only=True, is_writable=False),), FAIL, "mounted read-only"),
        ((place(is_writable=False),), FAIL, "may not write to /home/u"),
        ((place(), place("TRITON_CACHE_DIR", is_writable=False)), WARN, "TRITON_CACHE_DIR) is not writable"),
        ((place(), place("cache", is_read_only=True)), WARN, "(other caches) is mounted read-only"),
        ((place(), place("temporary", device=2, free_mib=7)), WARN, "7 of 900000 MiB are free for temporary files"),
        (
            (place(), place("asked", device=2, free_mib=7, is_read_only=True)),
            OK,
            "7 of 900000 MiB are free for the model",
        ),
        ((place(), place("asked", problem="no answer within 2 s", free_mib=None)), WARN, "no answer within 2 s"),
        ((place(problem="no answer within 2 s"),), SKIPPED, "no answer within 2 s"),
        ((), SKIPPED, "the node did not name it"),
    ],
)
def test_only_what_a_launch_cannot_do_without_fails(places: tuple[Place, ...], outcome: Outcome, told: str) -> None:
    check = judged(CheckCode.NODE_DISK, conditions={"places": places})
    assert check.outcome is outcome, check
    assert told in check.found


def test_one_full_file_system_is_told_once() -> None:
    check = judged(CheckCode.NODE_DISK, conditions={"places": (place(free_mib=50), place("hub_cache", free_mib=50))})
    assert (check.outcome, check.found.count("MiB")) == (FAIL, 1)


@pytest.mark.parametrize(
    ("gpu_count", "total_mib", "free_mib", "is_nccl_off", "outcome", "remedy"),
    [
        (8, 1_000_000, 8192, False, OK, None),
        (8, 1_000_000, 8191, False, WARN, "remove what killed engines left"),
        (8, 4096, 4096, False, WARN, "mount -o remount,size=8192m"),
        (8, 64, 64, False, FAIL, "--shm-size=8192m"),
        (2, 64, 64, False, WARN, "--shm-size=2048m"),
        (8, 64, 64, True, OK, None),
        (1, 64, 64, False, OK, None),
        (1, 64, 40, False, WARN, "remove what killed engines left"),
        (0, 64, 0, False, FAIL, "remove what killed engines left"),
    ],
)
def test_the_room_is_judged_by_the_ranks(
    gpu_count: int, total_mib: int, free_mib: int, is_nccl_off: object, outcome: Outcome, remedy: str | None
) -> None:
    memory = SharedMemory(total_mib, free_mib, 12, is_nccl_off is True)
    check = judged(CheckCode.NODE_SHM, gpu_count=gpu_count, conditions={"shared_memory": memory})
    assert check.outcome is outcome, check
    assert f"{free_mib} of {total_mib} MiB" in check.found
    assert "12 files" in check.found
    assert bool(check.remedy) == bool(remedy)
    assert (remedy or "") in (check.remedy or "")
