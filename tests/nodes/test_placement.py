"""Which GPUs a server gets, or why none."""

import pytest

from service.errors import GpusUnavailable, GpuTaken, InvalidInput
from service.nodes.inventory import Gpu, GpuHolder
from service.nodes.placement import choose_gpus, without_launch


def gpu(index: int, *, used_mib: int = 1, holders: tuple[GpuHolder, ...] = (), errors: tuple[str, ...] = ()) -> Gpu:
    return Gpu(
        index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", 81559, used_mib, f"00000000:{index:02X}:00.0", holders, errors
    )


EIGHT = [gpu(index) for index in range(8)]


def indexes(chosen: tuple[Gpu, ...]) -> list[int]:
    return [item.index for item in chosen]


def test_neighbours_are_preferred() -> None:
    claims = {"GPU-1": "other", "GPU-3": "other"}
    assert indexes(choose_gpus(EIGHT, claims, pinned=None, count=4)) == [4, 5, 6, 7]
    assert indexes(choose_gpus(EIGHT, {}, pinned=None, count=2)) == [0, 1]


def test_no_gpus_are_wanted() -> None:
    assert choose_gpus([], {}, pinned=None, count=0) == ()


def test_what_is_pinned_is_taken_by_index_or_uuid() -> None:
    assert indexes(choose_gpus(EIGHT, {}, pinned=["GPU-5", 2], count=2)) == [2, 5]


def test_a_gpu_that_is_pinned_by_index_and_by_uuid_is_one() -> None:
    with pytest.raises(InvalidInput, match="twice"):
        choose_gpus(EIGHT, {}, pinned=["GPU-2", 2], count=2)


def test_a_claimed_gpu_names_its_holder() -> None:
    with pytest.raises(GpuTaken, match="GPU 2 is held by server llama"):
        choose_gpus(EIGHT, {"GPU-2": "llama"}, pinned=[2], count=1)


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(InvalidInput, match="no GPU 9"):
        choose_gpus(EIGHT, {}, pinned=[9], count=1)


@pytest.mark.parametrize(
    ("sick", "said"),
    [
        (gpu(0, errors=("memory.used: [GPU requires reset]",)), "requires reset"),
        (gpu(0, holders=(GpuHolder(99, 70000, "python", "ann"),)), "held by pid 99"),
        (gpu(0, used_mib=76000), "76000 MiB are in use by nobody that can be seen"),
    ],
)
def test_a_gpu_that_is_not_free_says_why(sick: Gpu, said: str) -> None:
    with pytest.raises(GpusUnavailable, match=said):
        choose_gpus([sick], {}, pinned=[0], count=1)
    with pytest.raises(GpusUnavailable, match=said):
        choose_gpus([sick], {}, pinned=None, count=1)


def test_an_operator_who_knows_better_gets_a_troubled_gpu_but_never_a_claimed_one() -> None:
    held = gpu(0, holders=(GpuHolder(99, 70000, "python", "ann"),))
    assert indexes(choose_gpus([held], {}, pinned=[0], count=1, despite_trouble=True)) == [0]
    with pytest.raises(GpuTaken):
        choose_gpus([held], {"GPU-0": "llama"}, pinned=[0], count=1, despite_trouble=True)


def test_a_launch_that_will_be_gone_leaves_its_gpus_free() -> None:
    own, hidden = GpuHolder(7, 70000, "sglang", "ann", "ln_1"), GpuHolder(8, 900, "[Not Found]")
    held = [gpu(0, used_mib=71000, holders=(own, hidden)), gpu(1, used_mib=71000, holders=(own,))]
    (freed, other) = without_launch(held, "ln_1", {"GPU-0"})
    assert freed.is_free
    assert other == held[1], "it was not given to the launch"


def test_somebody_else_beside_a_launch_stays() -> None:
    own, ann = GpuHolder(7, 70000, "sglang", "bob", "ln_1"), GpuHolder(9, 5000, "python", "ann")
    (freed,) = without_launch([gpu(0, used_mib=75500, holders=(own, ann))], "ln_1", {"GPU-0"})
    assert (freed.holders, freed.memory_used_mib) == ((ann,), 5000)


def test_an_idle_mps_server_holds_no_gpu() -> None:
    served = gpu(0, used_mib=30, holders=(GpuHolder(5, 28, "nvidia-cuda-mps-server", "root"),))
    assert indexes(choose_gpus([served], {}, pinned=[0], count=1)) == [0]
