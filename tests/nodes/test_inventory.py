"""What nvidia-smi says, in the shapes that real nodes print, and which GPU may be given to a server."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.nodes.inventory import Gpu, GpuHolder, Inventory, parse_inventory

FIELDS = ["index", "uuid", "pci.bus_id", "memory.total", "memory.used", "driver_version", "name"]
EXTRA_FIELDS = ["uuid", "gpu_recovery_action", "remapped_rows.failure", "fabric.state", "fabric.status"]
APPS_FIELDS = ["gpu_uuid", "pid", "used_gpu_memory", "process_name"]
GPU_A = "GPU-ee5e5809-7965-45fd-91e7-624021ecddd9"
GPU_B = "GPU-1d3657ff-0827-61fe-c22f-92181848cff7"


def call(text: str, *, code: int | None = 0, fields: list[str] | None = None, is_stuck: bool = False) -> dict[str, Any]:
    return {"exit": code, "text": text, "fields": fields or FIELDS, "is_stuck": is_stuck}


def read(query: dict[str, Any], **others: Any) -> Inventory:
    plain: dict[str, Any] = {
        "at": 1_800_000_000.5,
        "boot_id": "b",
        "hostname": "atlas",
        "kernel": "6.8.0",
        "cpu_count": 128,
        "memory_total_mib": 2_000_000,
        "memory_available_mib": 1_900_000,
        "disks": [{"path": "/home/u", "total_mib": 100, "free_mib": 50}],
        "shm_total_mib": 1_000_000,
        "shm_free_mib": 999_999,
        "utc_offset_s": 7200,
        "uid": 1000,
        "user": "u",
        "launcher": "setsid",
        "driver_gpus": [],
        "gpu_query": query,
        "gpu_extra": None,
        "gpu_apps": call("", fields=APPS_FIELDS),
        "processes": {},
        **others,
    }
    return parse_inventory(plain)


def row(index: int, uuid: str, *, used: str = "0", total: str = "143771", name: str = "NVIDIA H200") -> str:
    return f"{index}, {uuid}, 00000000:{index:02X}:00.0, {total}, {used}, 570.211.01, {name}\n"


def test_a_healthy_node() -> None:
    inventory = read(call(row(0, GPU_A) + row(1, GPU_B, used="1")))
    assert (inventory.hostname, inventory.cpu_count, inventory.driver_version) == ("atlas", 128, "570.211.01")
    assert (inventory.at.isoformat(), inventory.utc_offset_s) == ("2027-01-15T08:00:00.500000+00:00", 7200)
    assert inventory.disks[0].free_mib == 50
    assert (inventory.gpu_error, inventory.gpu_warnings) == (None, ())
    assert [gpu.is_free for gpu in inventory.gpus] == [True, True]
    assert inventory.gpus[0] == Gpu(0, GPU_A, "NVIDIA H200", 143771, 0, "00000000:00:00.0")


def test_no_nvidia_smi_is_a_node_without_gpus() -> None:
    inventory = read(call("", code=127), gpu_apps=call("", code=127))
    assert (inventory.gpus, inventory.gpu_error, inventory.driver_version) == ((), None, None)


NO_DRIVER = """NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. \
Make sure that the latest NVIDIA driver is installed and running.
"""
MISMATCH = """Failed to initialize NVML: Driver/library version mismatch
NVML library version: 550.144
"""
NONE_SUPPORTED = """Failed to initialize NVML: No supported GPUs were found
Unable to determine the number of GPUs
"""
ALL_LOST = """Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  \
Reboot the system to recover this GPU
"""
BROKEN = [
    (9, NO_DRIVER, "couldn't communicate"),
    (18, MISMATCH, "mismatch; NVML library version: 550.144"),
    (6, "No devices were found\n", "No devices were found"),
    (255, NONE_SUPPORTED, "No supported GPUs"),
    (4, "Failed to initialize NVML: Insufficient Permissions\n", "Insufficient Permissions"),
    (2, 'Field "cuda_version" is not a valid field to query.\n', "not a valid field"),
    (139, "", "ended with status 139"),
    (0, "", "ended with status 0 and no GPU"),
    (None, "no answer within 45 s", "no answer within 45 s"),
    (15, ALL_LOST, "GPU is lost"),
]


@pytest.mark.parametrize(("code", "text", "said"), BROKEN)
def test_a_broken_nvidia_smi_is_no_gpus_and_its_words(code: int | None, text: str, said: str) -> None:
    query = call(text, code=code)
    inventory = read(query, gpu_apps=query)
    assert inventory.gpus == ()
    assert inventory.gpu_error
    assert said in inventory.gpu_error


def test_a_stuck_nvidia_smi_is_called_stuck() -> None:
    query = call("an earlier call, pid 7, state D", code=None, is_stuck=True)
    assert read(query, gpu_apps=query).gpu_error == "nvidia-smi is stuck: an earlier call, pid 7, state D"


def test_one_lost_gpu_leaves_the_others_and_says_so() -> None:
    lost = (
        row(0, GPU_A)
        + "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error\n"
        + ", ".join(["[Unknown Error]"] * len(FIELDS))
        + "\n"
        + row(2, GPU_B)
    )
    inventory = read(call(lost, code=255))
    assert [gpu.index for gpu in inventory.gpus] == [0, 2]
    assert inventory.gpu_error
    assert inventory.gpu_error.startswith(
        "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error; [Unk"
    )


def test_a_gpu_that_falls_off_in_silence_is_a_warning() -> None:
    inventory = read(call(row(0, GPU_A)), driver_gpus=["0000:01:00.0", "0000:02:00.0"])
    assert inventory.gpu_warnings == ("the driver has 2 GPUs, nvidia-smi lists 1",)


def test_an_inforom_warning_comes_with_a_usable_table() -> None:
    warning = "WARNING: infoROM is corrupted at gpu 0000:00:1E.0"
    inventory = read(call(f"{warning}\n{row(0, GPU_A)}", code=14))
    assert inventory.gpus[0].is_free
    assert (inventory.gpu_error, inventory.gpu_warnings) == (
        None,
        ("WARNING: infoROM is corrupted at gpu 0000:00:1E.0",),
    )


@pytest.mark.parametrize(
    "cell",
    [
        "[Unknown Error]",
        "[GPU is lost]",
        "[GPU requires reset]",
        "[Insufficient Permissions]",
        "ERR!",
        "[Something New]",
    ],
)
def test_an_error_in_any_cell_is_not_free(cell: str) -> None:
    inventory = read(call(f"0, {GPU_A}, 00000000:01:00.0, 143771, 0, {cell}, NVIDIA H200\n"))
    assert inventory.gpus[0].errors == (f"driver_version: {cell}",)
    assert not inventory.gpus[0].is_free
    assert inventory.driver_version is None


def test_a_gpu_that_needs_a_reset_looks_empty_and_is_not_free() -> None:
    inventory = read(call(f"0, {GPU_A}, 00000000:01:00.0, [GPU requires reset], 0, 570.1, NVIDIA H100 80GB HBM3\n"))
    assert inventory.gpus[0].memory_used_mib == 0
    assert not inventory.gpus[0].is_free


@pytest.mark.parametrize("cell", ["[N/A]", "N/A", "[Not Supported]", "[Requested functionality has been deprecated]"])
def test_not_supported_here_is_no_error(cell: str) -> None:
    fields = [*FIELDS[:-1], "ecc.mode.current", "name"]
    text = f"0, {GPU_A}, 00000000:01:00.0, 16376, 596, 595.71, {cell}, NVIDIA GeForce RTX 4080 SUPER\n"
    assert read(call(text, fields=fields)).gpus[0].is_free


def test_unified_memory_is_free_when_nobody_holds_it() -> None:
    gb10 = read(call(row(0, GPU_A, used="[N/A]", total="[N/A]", name="NVIDIA GB10"))).gpus[0]
    assert (gb10.memory_total_mib, gb10.memory_used_mib, gb10.is_free) == (None, None, True)
    assert not replace(gb10, holders=(GpuHolder(1, 5, "python"),)).is_free
    assert not replace(gb10, memory_total_mib=1000).is_free


@pytest.mark.parametrize(
    ("used", "is_free"), [("0", True), ("4", True), ("59", True), ("596", True), ("601", False), ("58222", False)]
)
def test_used_memory_above_the_baseline_is_not_free(used: str, is_free: bool) -> None:  # noqa: FBT001
    assert read(call(row(0, GPU_A, used=used))).gpus[0].is_free is is_free


def test_units_and_names_with_commas_are_read() -> None:
    gpu = read(call(row(0, GPU_A, used="1 MiB", total="143771 MiB", name="NVIDIA Odd, Name, 3"))).gpus[0]
    assert (gpu.memory_used_mib, gpu.memory_total_mib, gpu.name) == (1, 143771, "NVIDIA Odd, Name, 3")


def apps(text: str, *, code: int = 0) -> dict[str, Any]:
    return call(text, code=code, fields=APPS_FIELDS)


def test_holders_are_named_by_what_the_node_knows_of_them() -> None:
    text = (
        f"{GPU_A}, 11345, 15690, ./gpu_burn\n{GPU_B}, 11345, [N/A], ./gpu_burn\n{GPU_B}, 7, 12 MiB, VLLM::Worker, x\n"
    )
    seen = {"11345": {"command": "./burn 60", "user": "ann", "launch": "ln_1"}}
    first, second = read(call(row(0, GPU_A) + row(1, GPU_B)), gpu_apps=apps(text), processes=seen).gpus
    assert first.holders == (GpuHolder(11345, 15690, "./burn 60", "ann", "ln_1"),)
    assert second.holders == (
        GpuHolder(11345, None, "./burn 60", "ann", "ln_1"),
        GpuHolder(7, 12, "VLLM::Worker, x"),
    )
    assert not first.is_free


def test_an_mps_server_alone_does_not_count() -> None:
    text = f"{GPU_A}, 10925, 28, /usr/bin/nvidia-cuda-mps-server\n"
    assert read(call(row(0, GPU_A, used="30")), gpu_apps=apps(text)).gpus[0].is_free


@pytest.mark.parametrize(
    ("answer", "free"),
    [
        (apps("NVIDIA-SMI has failed\n", code=9), [False, False]),
        (apps(f"{GPU_A}, [Insufficient Permissions], [Insufficient Permissions], [Insufficient Permissions]\n"),
         [False, True]),
        (apps("something else entirely\n"), [False, False]),
        (apps(""), [True, True]),
    ],
)  # fmt: skip
def test_where_the_holders_are_unknown_nothing_is_free(answer: dict[str, Any], free: list[bool]) -> None:
    gpus = read(call(row(0, GPU_A) + row(1, GPU_B)), gpu_apps=answer).gpus
    assert [gpu.is_free for gpu in gpus] == free


@pytest.mark.parametrize(
    ("cells", "errors"),
    [
        ("None, No, Completed, Success", ()),
        ("N/A, [N/A], N/A, N/A", ()),
        ("Reset, No, Completed, Success", ("recovery action: Reset",)),
        ("Drain and Reset, No, N/A, N/A", ("recovery action: Drain and Reset",)),
        ("None, Yes, N/A, N/A", ("row remapping failed",)),
        ("None, No, In Progress, N/A", ("fabric: In Progress",)),
        ("None, No, Not Started, N/A", ("fabric: Not Started",)),
        ("None, No, Completed, Insufficient Resources", ("fabric: Insufficient Resources",)),
        ("[GPU requires reset], No, N/A, N/A", ("gpu_recovery_action: [GPU requires reset]",)),
    ],
)
def test_newer_fields_speak_against_a_gpu(cells: str, errors: tuple[str, ...]) -> None:
    extra = call(f"{GPU_A}, {cells}\n", fields=EXTRA_FIELDS)
    gpu = read(call(row(0, GPU_A)), gpu_extra=extra).gpus[0]
    assert gpu.errors == errors
    assert gpu.is_free == (not errors)


@pytest.mark.parametrize(
    ("cells", "warnings"),
    [
        ("0, No", ()),
        ("[N/A], [N/A]", ()),
        ("3, No", ("3 uncorrected ECC errors since the driver was loaded",)),
        ("0, Yes", ("a row remapping is pending: it is done when the GPU is reset",)),
    ],
)
def test_what_a_gpu_goes_on_working_with_is_a_warning(cells: str, warnings: tuple[str, ...]) -> None:
    fields = ["uuid", "ecc.errors.uncorrected.volatile.total", "remapped_rows.pending"]
    gpu = read(call(row(0, GPU_A)), gpu_extra=call(f"{GPU_A}, {cells}\n", fields=fields)).gpus[0]
    assert gpu.warnings == warnings
    assert gpu.is_free


def test_an_old_driver_without_the_newer_fields_is_fine() -> None:
    extra = call('Field "fabric.state" is not a valid field to query.\n', code=2, fields=EXTRA_FIELDS)
    assert read(call(row(0, GPU_A)), gpu_extra=extra).gpus[0].is_free


@settings(deadline=None)
@given(st.text(), st.sampled_from([0, 6, 9, 14, 255, None]), st.text(), st.text())
def test_no_text_is_too_odd(query: str, code: int | None, holders: str, extra: str) -> None:
    for text in (query, row(0, GPU_A) + query, query + row(0, GPU_A)):
        inventory = read(call(text, code=code), gpu_apps=apps(holders), gpu_extra=call(extra, fields=EXTRA_FIELDS))
        assert inventory.gpus or inventory.gpu_error
        assert len(inventory.gpu_error or "") < 600


def test_an_answer_without_an_agreed_part_is_refused() -> None:
    with pytest.raises((KeyError, TypeError)):
        parse_inventory({"at": 0})
