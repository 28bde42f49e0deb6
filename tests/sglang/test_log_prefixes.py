"""The same failed start, as a dozen collectors, containers and launchers hand it on."""

import json
from collections.abc import Callable

import pytest

from service.sglang.failures import Code, diagnose
from service.sglang.phases import Phase
from service.sglang.startup_log import StartupLog
from tests.sglang.lines import CAPTURING, INIT, SRT, hit, stamped

STACK = (*INIT, f"{SRT}/model_executor/cuda_graph_runner.py capture")
LINES = (
    *CAPTURING,
    *hit(*STACK, error="Exception: Capture cuda graph failed: Ninja is required to load C++ extensions", rank="TP1"),
)
ISO = "2026-03-01T10:00:01.123456789"
PREFIXES: dict[str, Callable[[str], str]] = {
    "none": lambda line: line,
    "colours": lambda line: f"\x1b[36m{line}\x1b[0m",
    "docker compose": lambda line: f"sglang-1  | {line}",
    "docker compose, no blank after the bar": lambda line: f"sglang-1  | {line}".rstrip(),
    "kubernetes": lambda line: f"{ISO}Z stderr F {line}",
    "kubectl --prefix": lambda line: f"[pod/sglang-0/engine] {line}",
    "github actions": lambda line: f"{ISO}Z {line}",
    "journald": lambda line: f"Mar 01 10:00:01 node7 sglang[4711]: {line}",
    "journald, iso": lambda line: f"2026-03-01T10:00:01+0000 node7 sglang[4711]: {line}",
    "ray": lambda line: f"(SchedulerActor pid=23902, ip=10.0.0.2) {line}",
    "ray, repeated": lambda line: f"(SGLangEngine pid=23902) {line} [repeated 2x across cluster]" if line else line,
    "mpi": lambda line: f"[1,0]<stderr>:{line}",
    "torchrun": lambda line: f"[rank0]: {line}",
    "numbered": lambda line: f"12:{line}" if line.startswith("[") else line,
    "harness": lambda line: f"[2026-03-01 10:00:01] [framework.core.server] [INFO] [worker_0] {line}",
    "pod and ray": lambda line: f"[2026-03-01T10:00:01+08:00] llama-8b-s3-56-cfcd2 >> (SGLangEngine pid=31) {line}",
    "docker json": lambda line: json.dumps({"log": f"{line}\n", "stream": "stderr", "time": f"{ISO}Z"}),
    "json logs": lambda line: json.dumps({"timestamp": f"{ISO}Z", "level": "info", "message": line}),
    "carriage returns": lambda line: f"{line}\r",
    "nuls": lambda line: f"\x00\x00{line}",
}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_failure_is_read_behind_any_prefix(prefix: str) -> None:
    data = "".join(f"{PREFIXES[prefix](line)}\n" for line in LINES).encode()
    log = StartupLog().feed(data)
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert (diagnosis.code, log.reading.phase, log.reading.has_failed) == (
        Code.JIT_COMPILE_FAILURE,
        Phase.CAPTURING_GRAPHS,
        True,
    )
    assert "Ninja is required" in diagnosis.evidence[0].text
    error_line = next(number for number, line in enumerate(LINES, 1) if line.startswith("Exception: "))
    assert diagnosis.evidence[0].line == error_line
    assert [span.phase for span in log.reading.phases][-3:] == [
        Phase.LOADING_WEIGHTS,
        Phase.ALLOCATING_KV_CACHE,
        Phase.CAPTURING_GRAPHS,
    ]


def test_windows_redirects_in_utf_16() -> None:
    log = StartupLog().feed(("\n".join(LINES) + "\n").encode("utf-16-le"))
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert diagnosis.code is Code.JIT_COMPILE_FAILURE


def test_a_bar_and_an_exception_share_a_line() -> None:
    bar = "Multi-thread loading shards:   0% Completed | 0/1 [00:00<?, ?it/s]"
    head, *rest = hit(f"{SRT}/models/llama.py load_weights", error="KeyError: 'lm_head.weight'", rank="TP1")
    log = StartupLog().feed("\n".join((*LINES[:6], bar + head, *rest)).encode())
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert (diagnosis.code, log.reading.phase) == (Code.CHECKPOINT_MISMATCH, Phase.LOADING_WEIGHTS)


def test_another_rank_writes_into_the_middle_of_a_traceback() -> None:
    lines = list(hit(*STACK, error="RuntimeError: CUDA error: invalid device ordinal"))
    lines.insert(4, stamped(50, "Received sigquit from a child process. It usually means the child failed."))
    lines.insert(6, stamped(50, "Load weight begin. avail mem=1 GB", rank="TP7"))
    diagnosis = diagnose(StartupLog().feed("\n".join(lines).encode()))
    assert diagnosis is not None
    assert diagnosis.code is Code.GPU_COUNT_MISMATCH


def test_a_text_without_indentation_is_still_a_traceback() -> None:
    """Copied through an issue tracker, or read from a picture."""
    lines = [line.strip() for line in hit(*STACK, error="Exception: Capture cuda graph failed: CUDA out of memory.")]
    diagnosis = diagnose(StartupLog().feed("\n".join(lines).encode()))
    assert diagnosis is not None
    assert diagnosis.code is Code.CUDA_OOM_GRAPH_CAPTURE
