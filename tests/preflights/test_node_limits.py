"""The limits of an engine, and the driver against the CUDA of its torch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from service.preflights.conditions import (
    EnginePackages,
    Limit,
    LimitName,
    LimitsLook,
)
from service.sglang.checks import CheckCode, Outcome
from tests.preflights.nodes import (
    FAIL,
    LOGIN,
    OK,
    SKIPPED,
    WARN,
    judged,
)


def look(**fields: Any) -> dict[str, Any]:
    limits = {name: fields.pop(name.value, limit) for name, limit in LOGIN.items()}
    plain = {"user_manager": None, "is_root": False, "user_threads": 96, "rdma_devices": (), **fields}
    return {"limits": LimitsLook(limits, **plain)}


@pytest.mark.parametrize(
    ("fields", "outcome", "told"),
    [
        ({"open_files": Limit(1024, 524288)}, OK, "open files 1024 (hard 524288)"),
        ({"open_files": Limit(1024, 4096)}, WARN, "1024 files (soft 1024, hard 4096)"),
        ({"open_files": Limit(20000, 20000)}, OK, "open files 20000"),
        ({"open_files": Limit(64, 64)}, FAIL, "64 files (soft 64, hard 64), and the engine needs 128"),
        ({"processes": Limit(150, 150)}, FAIL, "54 more threads: 96 of 150"),
        (
            {"processes": Limit(1000, 1000)},
            WARN,
            "904 more threads: 96 of 1000 are running, and 2 ranks may want 1000",
        ),
        ({"processes": Limit(150, 150), "is_root": True}, OK, "threads 150"),
        ({"processes": Limit(None, None)}, OK, "threads unlimited"),
        ({"locked_memory": Limit(8 << 20, 8 << 20)}, OK, "locked memory 8192 KiB"),
        ({"locked_memory": Limit(8 << 20, 8 << 20), "rdma_devices": ("mlx5_0",)}, WARN, "mlx5_0"),
        ({"rdma_devices": ("mlx5_0",)}, OK, "locked memory unlimited"),
        ({"stack": Limit(1 << 20, 2 << 20)}, WARN, "1024 KiB"),
        ({"stack": Limit(1 << 20, None)}, OK, "stack 1024 KiB"),
    ],
)
def test_each_limit_is_judged_as_the_engine_will_have_it(fields: dict[str, Any], outcome: Outcome, told: str) -> None:
    check = judged(CheckCode.NODE_LIMITS, conditions=look(**fields))
    assert check.outcome is outcome, check
    assert told in check.found


@pytest.mark.parametrize(
    ("launcher", "manager", "outcome", "told"),
    [
        ("systemd_system", None, OK, "open files 1048576 (hard 1048576), locked memory unlimited"),
        ("systemd_user", LOGIN | {LimitName.OPEN_FILES: Limit(1024, 2048)}, WARN, "2048 files"),
        (
            "systemd_user",
            LOGIN | {LimitName.LOCKED_MEMORY: Limit(1 << 20, 1 << 20)},
            WARN,
            "1024 KiB may be locked",
        ),
        ("systemd_user", None, OK, "started by systemd_user"),
        ("setsid", None, FAIL, "64 files"),
    ],
)
def test_a_unit_has_other_limits_than_the_login(
    launcher: str, manager: Mapping[LimitName, Limit] | None, outcome: Outcome, told: str
) -> None:
    limits = look(open_files=Limit(64, 64), user_manager=manager, rdma_devices=("mlx5_0",))
    check = judged(CheckCode.NODE_LIMITS, inventory={"launcher": launcher}, conditions=limits)
    assert check.outcome is outcome, check
    assert told in check.found


@pytest.mark.parametrize(
    ("driver", "cuda", "outcome", "told"),
    [
        ("580.65.06", "13.0", OK, "driver 580.65.06 serves"),
        ("580.00", "13.0", WARN, "came with driver 580.65.06"),
        ("575.57.08", "13.0", FAIL, "needs driver 580 or newer, and the node has 575.57.08"),
        ("580.65.06", "13.1", WARN, "came with driver 590.44.01"),
        ("610.43.02", "13.2", OK, "610.43.02"),
        ("580.65.06", "13.9", OK, "built for CUDA 13.9"),
        ("535.104.05", "12.9", WARN, "came with driver 575.51.03; the node's 535.104.05 runs it by minor version"),
        ("535.54.03", "12.2", OK, "535.54.03"),
        ("525.60.13", "12.0", OK, "525.60.13"),
        ("525.60.11", "12.0", FAIL, "needs driver 525.60.13"),
        ("610.43.02", "12.4", OK, "610.43.02"),
        ("470.256.02", "11.8", WARN, "came with driver 520.61.05"),
        ("450.51.06", "11.8", FAIL, "needs driver 450.80.02"),
        ("525.105.17", "12.0", OK, "525.105.17"),
        ("1000.10", "13.0", OK, "1000.10"),
        ("610.43.02", "14.0", WARN, "whose oldest driver is not known here"),
    ],
)
def test_the_driver_against_the_cuda_of_torch(driver: str, cuda: str, outcome: Outcome, told: str) -> None:
    packages = EnginePackages("2.9.1", cuda, None, None, None)
    check = judged(CheckCode.NODE_DRIVER, inventory={"driver_version": driver}, conditions={"packages": packages})
    assert check.outcome is outcome, check
    assert told in check.found


def test_the_remedy_names_the_driver_and_the_other_way() -> None:
    packages = EnginePackages("2.14.1+cu130", "13.0", None, None, None)
    check = judged(CheckCode.NODE_DRIVER, inventory={"driver_version": "550.54.15"}, conditions={"packages": packages})
    assert check.remedy == (
        "install driver 580.65.06 or newer on the node, as root, or use an environment whose torch is built for "
        "CUDA 12.x"
    )
    compat = replace(packages, compat_path="/usr/local/cuda/compat/libcuda.so.1")
    check = judged(CheckCode.NODE_DRIVER, inventory={"driver_version": "550.54.15"}, conditions={"packages": compat})
    assert check.outcome is WARN
    assert "/usr/local/cuda/compat/libcuda.so.1" in check.found


@pytest.mark.parametrize(
    ("packages", "outcome", "told"),
    [
        (EnginePackages(None, None, None, None, None), SKIPPED, "no torch was found"),
        (EnginePackages("2.9.1", None, None, None, None), SKIPPED, "torch 2.9.1 was built is not said"),
        (EnginePackages("2.9.1", None, None, "12.9.79", None), OK, "built for CUDA 12.9"),
        (EnginePackages("2.9.1+cpu", None, None, None, None, is_torch_cpu=True), FAIL, "without CUDA, and 2 GPUs"),
        (EnginePackages("2.9.1+rocm7", None, "7.0", None, None), FAIL, "for ROCm 7.0, and 2 GPUs"),
    ],
)
def test_an_environment_that_says_less(packages: EnginePackages, outcome: Outcome, told: str) -> None:
    check = judged(CheckCode.NODE_DRIVER, conditions={"packages": packages})
    assert check.outcome is outcome, check
    assert told in check.found


@pytest.mark.parametrize(
    ("inventory", "gpu_count", "told"),
    [
        ({}, 0, "no GPU is wanted"),
        ({"gpus": (), "driver_version": None}, 2, "the node has no GPUs"),
        ({"gpus": (), "driver_version": None, "gpu_error": "broken"}, 2, "the node has no GPUs: broken"),
        ({"driver_version": None}, 2, "the driver's version is not known"),
    ],
)
def test_it_is_skipped_where_there_is_nothing_to_compare(inventory: dict[str, Any], gpu_count: int, told: str) -> None:
    check = judged(CheckCode.NODE_DRIVER, inventory=inventory, gpu_count=gpu_count)
    assert (check.outcome, check.found) == (SKIPPED, told)
