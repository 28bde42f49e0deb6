"""Whether the GPUs of a launch are sound and free, and what is told when they are not."""

from datetime import timedelta

import pytest

from service.nodes.inventory import Gpu
from service.preflights.conditions import (
    Orphan,
    Processes,
)
from service.sglang.checks import CheckCode
from tests.preflights.nodes import FAIL, NOW, OK, WARN, gpu, holder, judged


def test_no_gpu_is_wanted() -> None:
    check = judged(CheckCode.NODE_GPUS, gpu_count=0, chosen=(), inventory={"gpus": (), "gpu_error": "broken"})
    assert (check.outcome, check.found) == (OK, "no GPU is wanted")


def test_who_holds_a_gpu_is_told_with_user_command_and_memory() -> None:
    check = judged(CheckCode.NODE_GPUS, inventory={"gpus": (gpu(0, holder(4711)), gpu(1))})
    assert (check.outcome, check.found, check.remedy) == (
        FAIL,
        "GPU 0 (NVIDIA H200) is held by pid 4711 of user bob (`python train.py`) with 70000 MiB",
        "end pid 4711 if nobody needs it (kill 4711), or choose other GPUs",
    )


def test_an_orphan_is_said_to_be_one() -> None:
    title = "sglang::scheduler_TP0"
    orphan = Orphan(4711, "bob", title, None, 3000)
    conditions = {"processes": Processes((orphan,))}
    check = judged(
        CheckCode.NODE_GPUS, inventory={"gpus": (gpu(0, holder(4711, command=title)), gpu(1))}, conditions=conditions
    )
    assert check.outcome is FAIL
    assert f"pid 4711 of user bob (`{title}`) with 70000 MiB, an orphan whose server is gone" in check.found
    assert check.remedy == "kill -9 4711, as bob or root: nothing else ends it"
    assert check.facts["orphan_pids"] == [4711]


def test_an_orphan_elsewhere_is_a_warning() -> None:
    orphans = (Orphan(5, "bob", "sglang::detokenizer", None, 900), Orphan(6, "bob", "sglang::scheduler", None, 1))
    check = judged(
        CheckCode.NODE_GPUS,
        gpu_count=1,
        chosen=("GPU-0",),
        inventory={"gpus": (gpu(0), gpu(1, holder(6)))},
        conditions={"processes": Processes(orphans)},
    )
    assert check.outcome is WARN
    assert "pid 5 of user bob (`sglang::detokenizer`) is an orphan: its server is gone; it holds 900 MiB of memory" in (
        check.found
    )
    assert "70000 MiB of GPU 1" in check.found
    assert check.remedy == "kill -9 5; kill -9 6"


def test_what_the_launch_holds_that_goes_first_does_not_count() -> None:
    own = holder(7, launch_id="ln_1")
    unseen = holder(8, user=None)
    inventory = {"gpus": (gpu(0, own, unseen, used_mib=140500), gpu(1))}
    check = judged(CheckCode.NODE_GPUS, inventory=inventory, own_launch_id="ln_1")
    assert check.outcome is OK
    assert "what launch ln_1 holds is free by then" in check.found
    assert judged(CheckCode.NODE_GPUS, inventory=inventory, own_launch_id="ln_2").outcome is FAIL
    stranger = {"gpus": (gpu(0, own, holder(9)), gpu(1))}
    check = judged(CheckCode.NODE_GPUS, inventory=stranger, own_launch_id="ln_1")
    assert (check.outcome, "pid 9" in check.found, "pid 7" in check.found) == (FAIL, True, False)


def test_on_its_own_gpus_who_cannot_be_seen_is_of_the_launch_that_goes_first() -> None:
    inventory = {"gpus": (gpu(0, holder(8, user=None)), gpu(1, holder(9, user=None)))}
    check = judged(CheckCode.NODE_GPUS, inventory=inventory, own_launch_id="ln_1", own_gpu_uuids=("GPU-0",))
    assert check.outcome is FAIL
    assert check.found.startswith("GPU 1 (NVIDIA H200) is held by pid 9 of an unknown user")


def test_an_idle_mps_server_holds_nothing() -> None:
    mps = holder(3, 28, "/usr/bin/nvidia-cuda-mps-server")
    assert judged(CheckCode.NODE_GPUS, inventory={"gpus": (gpu(0, mps), gpu(1))}).outcome is OK


def test_memory_that_nobody_holds() -> None:
    check = judged(CheckCode.NODE_GPUS, inventory={"gpus": (gpu(0, used_mib=58222), gpu(1))})
    assert check.outcome is FAIL
    assert "58222 of 143771 MiB are in use by nobody" in check.found


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("temperature.gpu: [GPU requires reset]", "nvidia-smi --gpu-reset -i 1"),
        ("recovery action: Reboot", "reboot the node"),
        ("recovery action: Drain and Reset", "reset it as root: nvidia-smi --gpu-reset -i 1"),
        ("row remapping failed", "its memory is to be replaced"),
        ("fabric: In Progress", "nvidia-fabricmanager"),
        ("power.draw: [GPU is lost]", "reboot the node"),
        ("something new", "nvidia-smi"),
    ],
)
def test_a_sick_gpu_is_told_with_what_mends_it(error: str, remedy: str) -> None:
    check = judged(CheckCode.NODE_GPUS, inventory={"gpus": (gpu(0), gpu(1, errors=(error,)))})
    assert (check.outcome, check.found) == (FAIL, f"GPU 1 (NVIDIA H200): {error}")
    assert check.remedy
    assert remedy in check.remedy


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "reload"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "load NVIDIA's kernel"),
        ("nvidia-smi is stuck: an earlier call, pid 5, state D, has not ended", "reboot"),
        ("Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error", "reboot"),
    ],
)
@pytest.mark.parametrize("gpus", [(), (gpu(0), gpu(1))])
def test_a_driver_in_trouble_takes_no_launch(error: str, remedy: str, gpus: tuple[Gpu, ...]) -> None:
    check = judged(CheckCode.NODE_GPUS, inventory={"gpus": gpus, "gpu_error": error})
    assert check.outcome is FAIL
    assert error in check.found
    assert check.remedy
    assert remedy in check.remedy


def test_a_node_without_gpus() -> None:
    check = judged(
        CheckCode.NODE_GPUS, inventory={"gpus": (), "driver_version": None}, chosen=(), problem="none is free"
    )
    assert (check.outcome, check.found) == (
        FAIL,
        "2 GPUs are wanted, and the node has none: there is no nvidia-smi",
    )


def test_why_none_could_be_chosen_is_told_with_who_holds_them() -> None:
    check = judged(
        CheckCode.NODE_GPUS,
        inventory={"gpus": (gpu(0, holder(4711)), gpu(1), gpu(2))},
        chosen=(),
        problem="2 GPUs are wanted and 1 of 3 are free",
        claims={"GPU-1": "llama"},
    )
    assert check.outcome is FAIL
    assert check.found.startswith("2 GPUs are wanted and 1 of 3 are free; GPU 0 (NVIDIA H200) is held by pid 4711")
    assert "GPU 1 (NVIDIA H200) belongs to server llama" in check.found
    assert "GPU 2" not in check.found


def test_a_chosen_gpu_that_is_gone_or_claimed() -> None:
    check = judged(CheckCode.NODE_GPUS, inventory={"gpus": (gpu(0),)}, claims={"GPU-0": "llama"})
    assert check.outcome is FAIL
    assert "does not list GPU GPU-1 any more" in check.found
    assert "belongs to server llama" in check.found


def test_an_old_look_is_told_by_our_clock() -> None:
    later = NOW + timedelta(seconds=100)
    check = judged(CheckCode.NODE_GPUS, now=later)
    assert (check.outcome, check.found) == (WARN, "the GPUs were looked at 100 s ago")
    ahead = timedelta(seconds=90)
    moved = {"began_at": NOW + ahead, "ended_at": NOW + ahead}
    assert judged(CheckCode.NODE_GPUS, now=later, inventory={"at": NOW + ahead}, conditions=moved).outcome is WARN
    assert (
        judged(
            CheckCode.NODE_GPUS,
            inventory={"at": NOW - ahead},
            conditions={"began_at": NOW - ahead, "ended_at": NOW - ahead},
        ).outcome
        is OK
    )


def test_a_gpu_that_the_driver_has_and_nvidia_smi_lacks_is_a_warning() -> None:
    warning = "the driver has 8 GPUs, nvidia-smi lists 7"
    check = judged(CheckCode.NODE_GPUS, inventory={"gpu_warnings": (warning,)})
    assert (check.outcome, check.found) == (WARN, warning)


@pytest.mark.parametrize(
    ("warning", "remedy"),
    [
        ("3 uncorrected ECC errors since the driver was loaded", "out of service"),
        ("a row remapping is pending", "reset"),
    ],
)
def test_what_a_gpu_goes_on_working_with_refuses_nothing(warning: str, remedy: str) -> None:
    check = judged(CheckCode.NODE_GPUS, inventory={"gpus": (gpu(0, warnings=(warning,)), gpu(1))})
    assert check.outcome == WARN
    assert warning in check.found
    assert remedy in (check.remedy or "")
