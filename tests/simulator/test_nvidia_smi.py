"""The fake nvidia-smi: shapes, units, errors and faults of the real one."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from service.simulator.fleet import EmbeddedFleet
from service.simulator.homes import gpu_uuids, state_dir
from service.simulator.node import SimulatedNode
from service.simulator.specs import L40S, GpuSpec, NodeSpec
from tests.simulator.clients import connect

SAFE = (
    "index,uuid,pci.bus_id,memory.total,memory.used,memory.free,utilization.gpu,temperature.gpu,power.draw,"
    "power.limit,pstate,persistence_mode,compute_mode,mig.mode.current,ecc.mode.current,"
    "ecc.errors.uncorrected.volatile.total,ecc.errors.uncorrected.aggregate.total,clocks.sm,pcie.link.gen.current,"
    "pcie.link.width.current,vbios_version,driver_version,name"
)
OPTIONAL = (
    "uuid,memory.reserved,compute_cap,clocks_event_reasons.active,remapped_rows.pending,remapped_rows.failure,"
    "gpu_recovery_action,fabric.state,fabric.status,inforom.checksum_validation,"
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded,addressing_mode,temperature.memory"
)


def smi(node: SimulatedNode, *words: str, timeout_s: float = 10) -> subprocess.CompletedProcess[str]:
    command = [str(node.home / "bin" / "nvidia-smi"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def rows(node: SimulatedNode, fields: str) -> list[list[str]]:
    result = smi(node, f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    assert result.returncode == 0, result.stdout
    return [line.split(", ") for line in result.stdout.splitlines()]


async def test_every_field_of_the_lists_is_known(node: SimulatedNode) -> None:
    for fields in (SAFE, OPTIONAL):
        answer = rows(node, fields)
        assert len(answer) == 2
        assert all(len(row) == fields.count(",") + 1 for row in answer)


async def test_row_shape(node: SimulatedNode) -> None:
    fields = "index,gpu_uuid,memory.total,memory.used,clocks_throttle_reasons.active,name"
    first = rows(node, fields)[0]
    assert first == ["0", node.gpu_uuids[0], "81559", "0", "0x0000000000000001", "NVIDIA H100 80GB HBM3"]


async def test_units_and_header(node: SimulatedNode) -> None:
    result = smi(node, "--query-gpu=index, memory.total, power.limit", "--format=csv")
    assert result.stdout.splitlines()[:2] == ["index, memory.total [MiB], power.limit [W]", "0, 81559 MiB, 700.00 W"]


async def test_unknown_field_fails_the_whole_query_on_stdout(node: SimulatedNode) -> None:
    result = smi(node, "--query-gpu=index,cuda_version", "--format=csv,noheader")
    assert result.returncode == 2
    assert result.stdout == 'Field "cuda_version" is not a valid field to query.\n\n'
    assert result.stderr == ""


async def test_list(node: SimulatedNode) -> None:
    lines = smi(node, "-L").stdout.splitlines()
    assert lines[1] == f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: {node.gpu_uuids[1]})"


async def test_holders_count_while_they_live(node: SimulatedNode) -> None:
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    living = {"pid": os.getpid(), "start_ticks": ticks, "name": "python", "gpus": {node.gpu_uuids[0]: 70000}}
    reused = {**living, "start_ticks": ticks + 1, "gpus": {node.gpu_uuids[1]: 5}}
    holders = state_dir(node.home) / "holders"
    (holders / "1.json").write_text(json.dumps(living))
    (holders / "2.json").write_text(json.dumps(reused))
    (holders / "3.json").write_text('{"pid": ')
    fields = "--query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name"
    result = smi(node, fields, "--format=csv,noheader,nounits")
    assert result.stdout == f"{node.gpu_uuids[0]}, {os.getpid()}, 70000, python\n"
    assert [row[1] for row in rows(node, "index,memory.used")] == ["70000", "0"]


async def test_no_holders_is_an_empty_answer(node: SimulatedNode) -> None:
    result = smi(node, "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader")
    assert (result.returncode, result.stdout) == (0, "")


async def test_broken_driver(node: SimulatedNode) -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.144"
    node.set_gpu_fault({"exit_code": 18, "text": text})
    result = smi(node, f"--query-gpu={SAFE}", "--format=csv,noheader,nounits")
    assert (result.returncode, result.stdout) == (18, text + "\n")
    node.set_gpu_fault(None)
    assert smi(node, "-L").returncode == 0


async def test_sick_cells_and_missing_gpus(node: SimulatedNode) -> None:
    node.set_gpu_fault({"cells": {"0": {"utilization.gpu": "[GPU requires reset]"}}})
    assert [row[1] for row in rows(node, "index,utilization.gpu")] == ["[GPU requires reset]", "0"]
    node.set_gpu_fault({"cells": {"1": {"*": "[GPU is lost]", "memory.used": "0"}}})
    assert rows(node, "index,memory.used,uuid")[1] == ["[GPU is lost]", "0", "[GPU is lost]"]
    node.set_gpu_fault({"missing": [0], "exit_code": 15})
    result = smi(node, "--query-gpu=index", "--format=csv,noheader")
    assert (result.returncode, result.stdout) == (15, "1\n")


async def test_hang_and_delay(node: SimulatedNode) -> None:
    node.set_gpu_fault({"hang": True})
    with pytest.raises(subprocess.TimeoutExpired):
        smi(node, "-L", timeout_s=0.2)
    node.set_gpu_fault({"delay_s": 0.3})
    with pytest.raises(subprocess.TimeoutExpired):
        smi(node, "-L", timeout_s=0.1)
    assert smi(node, "-L").returncode == 0


async def test_node_without_gpus_has_no_nvidia_smi(tmp_path: Path) -> None:
    async with EmbeddedFleet(tmp_path, [NodeSpec(name="cpu", gpu_count=0)]) as fleet:
        async with connect(fleet.nodes[0]) as client:
            assert (await client.run("nvidia-smi -L")).exit_status == 127
        assert gpu_uuids(fleet.nodes[0].spec) == ()


async def test_cards_without_ecc(tmp_path: Path) -> None:
    kinds = [NodeSpec(name="l40s", gpu=L40S), NodeSpec(name="desk", gpu=GpuSpec(name="NVIDIA X", has_ecc=False))]
    async with EmbeddedFleet(tmp_path, kinds) as fleet:
        assert rows(fleet.node("desk"), "ecc.mode.current,remapped_rows.pending")[0] == ["[N/A]", "[N/A]"]
        assert rows(fleet.node("l40s"), "memory.total,power.limit,name")[0] == ["46068", "350.00", "NVIDIA L40S"]
