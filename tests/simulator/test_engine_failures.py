"""The ways the stand-in fails, by itself and by script: the text that proves it, and the exit code."""

import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.simulator.models import write_model
from service.simulator.specs import ENGINE_VERSIONS, KIMI_EAGLE3, TINY_LLAMA, ModelSpec
from tests.simulator.engines import EngineHome, eventually, free_port

OLD, MIDDLE, NEW = ENGINE_VERSIONS
EAGLE3 = ("--speculative-algorithm", "EAGLE3", "--tp-size", "2", "--speculative-draft-model-path")
Write = Callable[[str], Path]

REPORTED = {
    "cuda_oom_weights": r"torch\.OutOfMemoryError: CUDA out of memory\. Tried to allocate 1\.50 GiB\. GPU 0 has",
    "cuda_oom_graph_capture": r"Exception: Capture cuda graph failed: CUDA out of mem[\s\S]*--cuda-graph-max-bs-decode",
    "kv_cache_no_memory": r"RuntimeError: Not enough memory\. Please try to increase --mem-fraction-static\. Current",
    "illegal_memory_access": r"CUDA error: an illegal memory access was encountered",
    "nccl_init_failure": r"torch\.distributed\.DistBackendError: NCCL error in: ProcessGroupNCCL",
    "watchdog_timeout": r"\] Scheduler watchdog timeout \(self\.watchdog_timeout=300",
    "unsupported_architecture": r"ValueError: Model architectures \['LlamaForCausalLM'\] are not supported for now",
    "checkpoint_mismatch": r"KeyError: 'model\.layers\.0",
    "draft_model_mismatch": r"AssertionError: Attempted to load weight \(torch\.Size\(\[7168, 7168\]\)\) into",
    "jit_compile_failure": r"RuntimeError: Ninja build failed",
    "disk_full": r"OSError: \[Errno 28\] No space left on device",
    "software_bug": r"AttributeError: 'NoneType' object has no attribute 'seq_lens'",
}
"""Failures that a rank reports to its parent: the tree kills itself, with 137."""
SILENT = {
    "nccl_timeout": (-6, r"Watchdog caught collective operation timeout: WorkNCCL\("),
    "storage_read_fault": (-7, r"died during initialization"),
    "gpu_kernel_crash": (-11, r"Fatal Python error: Segmentation fault"),
    "host_oom_killed": (-9, r"a common cause is the OS OOM killer"),
}
"""Failures by which a rank dies without a word to its parent, which ends with 1 when it was still loading."""


def crash(failure: str, phase: str = "capturing_graphs", step: int = 2, **more: object) -> str:
    return json.dumps({"events": [{"do": "crash", "phase": phase, "step": step, "failure": failure, **more}]})


@pytest.mark.parametrize("failure", REPORTED)
def test_reported_failures(home: EngineHome, write_script: Write, failure: str) -> None:
    engine = home.start(script=write_script(crash(failure)))
    assert engine.exit_code() == 137
    assert re.search(REPORTED[failure], engine.log), engine.log
    proof = engine.log.index("Received sigquit from a child process. It usually means the child failed.")
    assert re.search(REPORTED[failure], engine.log[:proof]), "the cause comes before the parent's word"


@pytest.mark.parametrize("failure", SILENT)
def test_silent_deaths(home: EngineHome, write_script: Write, failure: str) -> None:
    code, proof = SILENT[failure]
    engine = home.start("--tp-size", "2", script=write_script(crash(failure, rank=1)))
    assert engine.exit_code() == 1
    assert re.search(proof, engine.log), engine.log
    assert f"RuntimeError: Rank 1 scheduler died during initialization (exit code: {code})" in engine.log
    assert "Scheduler hit an exception" not in engine.log


def test_advice_names_the_flags_of_the_version(home: EngineHome, write_script: Write) -> None:
    engine = home.start(version=OLD, script=write_script(crash("cuda_oom_graph_capture")))
    assert engine.exit_code() == 137
    assert "2. set --cuda-graph-max-bs to a smaller value" in engine.log
    assert "--disable-cuda-graph" in engine.log


def test_failure_of_one_rank_carries_its_prefix(home: EngineHome, write_script: Write) -> None:
    engine = home.start("--tp-size", "4", script=write_script(crash("software_bug", rank=3)))
    assert engine.exit_code() == 137
    assert re.search(r"TP3\] Scheduler hit an exception: Traceback \(most recent call last\):\n", engine.log)


def test_crash_while_serving(home: EngineHome, write_script: Write) -> None:
    engine = home.start(script=write_script(crash("illegal_memory_access", "serving", 0, after_s=3)))
    engine.wait_until_ready()
    assert engine.exit_code() == 137
    assert "SIGQUIT received. signum=None, frame=None. It usually means one child failed." in engine.log
    assert "Sleeping 5 seconds before crash diagnostics" in engine.log


def test_exit_with_a_code_of_its_own(home: EngineHome, write_script: Write) -> None:
    engine = home.start(script=write_script('{"events": [{"do": "exit", "phase": "resolving_config", "code": 77}]}'))
    assert engine.exit_code() == 77


@pytest.mark.parametrize(
    ("damage", "proof"),
    [
        ("missing", "RuntimeError: Cannot find any model weights with `"),
        ("cut", "SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered"),
        ("pointer", "SafetensorError: Error while deserializing header: header too large"),
    ],
)
def test_damaged_weights(home: EngineHome, tmp_path: Path, damage: str, proof: str) -> None:
    model = tmp_path / "model"
    write_model(TINY_LLAMA, model)
    for shard in model.glob("*.safetensors"):
        if damage == "missing":
            shard.unlink()
        elif damage == "cut":
            with shard.open("r+b") as file:
                file.truncate(shard.stat().st_size - 100)
        else:
            shard.write_text("version https://git-lfs.example/spec/v1\noid sha256:00\nsize 12345\n")
    engine = home.start(model=str(model))
    assert engine.exit_code() == 137
    assert proof in engine.log


def test_unknown_architecture(home: EngineHome, tmp_path: Path) -> None:
    write_model(ModelSpec(name="odd", architecture="OddForCausalLM", layer_count=1), tmp_path / "odd")
    engine = home.start(model=str(tmp_path / "odd"))
    assert engine.exit_code() == 137
    assert "Model architectures ['OddForCausalLM'] are not supported for now." in engine.log


def test_heads_that_do_not_divide(home: EngineHome) -> None:
    engine = home.start("--tp-size", "3", model="kimi-like")
    assert engine.exit_code() == 137
    assert "AssertionError: 64 is not divisible by 3" in engine.log


def test_more_ranks_than_visible_gpus(home: EngineHome) -> None:
    engine = home.start("--tp-size", "4", env={"CUDA_VISIBLE_DEVICES": "0,1"})
    assert engine.exit_code() == 137
    assert "CUDA error: invalid device ordinal" in engine.log


def test_no_gpu_at_all(home: EngineHome) -> None:
    engine = home.start(env={"CUDA_VISIBLE_DEVICES": ""})
    assert engine.exit_code() == 1
    assert "RuntimeError: No accelerator (CUDA, XPU" in engine.log


def test_memory_that_others_hold_is_missed(home: EngineHome) -> None:
    first = home.start(model="kimi-like", env={"CUDA_VISIBLE_DEVICES": "0"})
    first.wait_until_ready()
    second = home.start(model="kimi-like", env={"CUDA_VISIBLE_DEVICES": "0"})
    assert second.exit_code() == 137
    assert "torch.OutOfMemoryError: CUDA out of memory." in second.log
    assert first.process.poll() is None


def test_fraction_that_leaves_no_room_for_the_pool(home: EngineHome) -> None:
    engine = home.start("--mem-fraction-static", "0.3", model="kimi-like")
    assert engine.exit_code() == 137
    assert "Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.3" in engine.log


@pytest.fixture
def short_draft(tmp_path: Path) -> str:
    path = tmp_path / "short"
    write_model(_draft(max_position_embeddings=131072), path)
    return str(path)


def _draft(**changes: object) -> ModelSpec:
    values = {name: getattr(KIMI_EAGLE3, name) for name in KIMI_EAGLE3.__dataclass_fields__}
    return ModelSpec(**{**values, **changes})


def test_draft_with_a_shorter_context_is_fatal_unless_overridden(home: EngineHome, short_draft: str) -> None:
    engine = home.start(*EAGLE3, short_draft, model="kimi-like")
    assert engine.exit_code() == 137
    text = "Warning: Target model's context_length (262144) is greater than the derived context_length (131072)"
    assert f"ValueError: {text}" in engine.log
    override = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
    allowed = home.start(*EAGLE3, short_draft, model="kimi-like", env=override)
    allowed.wait_until_ready()
    assert f"] {text}" in allowed.log
    assert "Overriding the draft model's max_position_embeddings to 262144." in allowed.log


def test_eagle3_without_a_draft(home: EngineHome) -> None:
    engine = home.start("--speculative-algorithm", "EAGLE3")
    assert engine.exit_code() == 137
    assert "AttributeError: 'LlamaForCausalLM' object has no attribute 'set_embed'" in engine.log


@pytest.mark.parametrize(
    ("change", "version", "words", "length"),
    [
        ({"draft_layer_prefix": "layers.0."}, OLD, EAGLE3, 1.0),
        ({"draft_layer_prefix": "layers.0."}, NEW, EAGLE3, 2.85),
        ({}, NEW, ("--speculative-algorithm", "EAGLE", *EAGLE3[2:]), 1.0),
    ],
)
def test_draft_that_is_silently_ignored(  # noqa: PLR0917
    home: EngineHome,
    tmp_path: Path,
    write_script: Write,
    change: dict[str, object],
    version: str,
    words: tuple[str, ...],
    length: float,
) -> None:
    write_model(_draft(**change), tmp_path / "draft")
    script = write_script('{"steps_per_s": 1000}')
    engine = home.start(
        *words, str(tmp_path / "draft"), "--enable-metrics", model="kimi-like", version=version, script=script
    )
    engine.wait_until_ready()
    engine.ask("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 200}})
    assert engine.metric("spec_accept_length") == pytest.approx(length, abs=0.1)


@pytest.mark.parametrize(("version", "code"), [(OLD, 1), (NEW, 3)])
def test_port_of_another_engine(home: EngineHome, version: str, code: int) -> None:
    first = home.start(env={"CUDA_VISIBLE_DEVICES": "0"})
    first.wait_until_ready()
    second = home.start(version=version, port=first.port, env={"CUDA_VISIBLE_DEVICES": "1"})
    assert second.exit_code() == code
    conflict = second.log.index("ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', ")
    assert second.log.index("The server is fired up and ready to roll!") > conflict, "it warmed up the other one"
    assert '"GET /model_info HTTP/1.1" 200 OK' in first.log
    assert first.ask("/health").status == 200


@pytest.fixture
def stranger() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_port_of_something_else(
    home: EngineHome, stranger: int, write_script: Write, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = home.start(port=stranger, script=write_script('{"poll_s": 0.02}'))
    assert engine.exit_code() == 137
    assert "Initialization failed. warmup error: Traceback (most recent call last):" in engine.log
    assert "ready to roll" not in engine.log
    capfd.readouterr()


def test_bad_scripts_are_refused(home: EngineHome, write_script: Write) -> None:
    for text in (
        "{",
        '{"phases": {"sleeping": 1}}',
        '{"speed": 1}',
        '{"events": [{"do": "dance", "phase": "serving"}]}',
    ):
        engine = home.start(script=write_script(text))
        assert engine.exit_code() == 1
        assert "sglang stand-in: " in engine.log


def test_script_beside_the_model_and_of_the_node(home: EngineHome, tmp_path: Path) -> None:
    model = tmp_path / "model"
    write_model(TINY_LLAMA, model)
    (model / "simulation.json").write_text('{"events": [{"do": "say", "phase": "loading_weights", "lines": ["mine"]}]}')
    engine = home.start(model=str(model), script="")
    eventually(lambda: "] mine\n" in engine.log, "the model's script")
    default = home.path / ".simulator" / "default-script"
    before = default.read_text()
    default.write_text("frozen_graphs")
    try:
        frozen = home.start(script="", env={"CUDA_VISIBLE_DEVICES": "1"})
        frozen.wait_for("3/52")
    finally:
        default.write_text(before)
