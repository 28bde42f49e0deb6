"""Whether somebody else used a server's GPUs is told only where it is known."""

from datetime import UTC, datetime

import pytest

from service.nodes.inventory import GpuHolder
from service.operations.provenance import foreign_processes
from service.remote.messages import GpuHoldersFact

AT = datetime(2026, 11, 29, tzinfo=UTC)
OWN = ("GPU-a", GpuHolder(7, 1000, "python", launch_id="la_1"))
FOREIGN = ("GPU-a", GpuHolder(8, 1000, "python"))
ELSEWHERE = ("GPU-b", GpuHolder(9, 1000, "python"))
IDLE = ("GPU-a", GpuHolder(10, 24, "/usr/bin/nvidia-cuda-mps-server"))


@pytest.mark.parametrize(
    ("fact", "gpu_uuids", "expected"),
    [
        (GpuHoldersFact(AT, (OWN, ELSEWHERE, IDLE)), ["GPU-a"], 0),
        (GpuHoldersFact(AT, (OWN, FOREIGN, FOREIGN)), ["GPU-a"], 1),
        (GpuHoldersFact(AT, ()), ["GPU-a"], 0),
        (GpuHoldersFact(AT, (), "stuck"), ["GPU-a"], None),
        (None, ["GPU-a"], None),
        (GpuHoldersFact(AT, (FOREIGN,)), [], None),
    ],
)
def test_foreign_processes(fact: GpuHoldersFact | None, gpu_uuids: list[str], expected: int | None) -> None:
    assert foreign_processes(fact, "la_1", gpu_uuids) == expected
