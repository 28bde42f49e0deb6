"""What exit codes, counters, clocks and GPUs add to a log."""

import pytest

from service.sglang.failures import Circumstances, Code, Diagnosis, GpuFact, diagnose
from service.sglang.startup_log import StartupLog
from tests.sglang.lines import CAPTURING, INIT, JOINING, LOADING, SERVING, SRT, WARMING, as_log, hit

STACK = (*INIT, f"{SRT}/model_executor/model_runner.py load_model")
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB."


def judged(*parts: tuple[str, ...], **around: object) -> Diagnosis | None:
    return diagnose(StartupLog().feed(as_log(*parts)), Circumstances(**around))  # type: ignore[arg-type]


def test_an_end_without_a_word_is_quoted_by_its_exit_code() -> None:
    diagnosis = judged(LOADING, has_exited=True, exit_code=137)
    assert diagnosis is not None
    assert diagnosis.code is Code.UNKNOWN
    assert "SIGKILL" in diagnosis.summary
    assert "Load weight begin" in diagnosis.evidence[0].text


def test_a_rise_of_the_hosts_counter_proves_the_kernels_kill() -> None:
    diagnosis = judged(LOADING, has_exited=True, exit_code=137, oom_kills=1)
    assert diagnosis is not None
    assert (diagnosis.code, diagnosis.confidence) == (Code.HOST_OOM_KILLED, "high")


def test_an_exception_in_the_log_is_believed_before_the_counter() -> None:
    diagnosis = judged(LOADING, hit(*STACK, error=OOM), has_exited=True, exit_code=137, oom_kills=1)
    assert diagnosis is not None
    assert diagnosis.code is Code.CUDA_OOM_WEIGHTS


def test_a_gpu_that_needs_a_reset_explains_an_end_without_a_word() -> None:
    gpus = (GpuFact("GPU-a", needs_reset=False), GpuFact("GPU-b", needs_reset=True))
    diagnosis = judged(SERVING, has_exited=True, exit_code=137, gpus=gpus)
    assert diagnosis is not None
    assert diagnosis.code is Code.GPU_HARDWARE_ERROR


def test_memory_held_by_others_is_named_in_the_remedy() -> None:
    gpus = (GpuFact("GPU-a", foreign_memory_mib=41_000), GpuFact("GPU-b", foreign_memory_mib=0), GpuFact("GPU-c"))
    diagnosis = judged(LOADING, hit(*STACK, error=OOM), gpus=gpus)
    assert diagnosis is not None
    assert "GPU-a: 41000 MiB" in diagnosis.remedy
    assert "GPU-b" not in diagnosis.remedy


@pytest.mark.parametrize("exit_code", [0, 137, 143])
def test_an_end_on_request_is_no_failure(exit_code: int) -> None:
    assert judged(SERVING, has_exited=True, exit_code=exit_code, was_asked_to_stop=True) is None


def test_an_end_with_code_0_is_no_failure() -> None:
    assert judged(SERVING, has_exited=True, exit_code=0) is None


@pytest.mark.parametrize(
    ("start", "code"),
    [
        (JOINING, Code.NCCL_INIT_HANG),
        (CAPTURING[:-1], Code.JIT_COMPILE_SLOW_OR_STUCK),
        (SERVING, Code.SERVING_HANG),
        (CAPTURING, None),
        (LOADING, None),
        (WARMING, None),
    ],
)
def test_only_a_clock_tells_a_hang(start: tuple[str, ...], code: Code | None) -> None:
    """Graphs that were drawn before the stall rule a compiler out: then nothing is claimed."""
    assert judged(start) is None
    diagnosis = judged(start, is_stalled=True)
    assert (diagnosis.code if diagnosis else None) == code


def test_flags_in_a_remedy_fit_the_engine_that_failed() -> None:
    frames = (*INIT, f"{SRT}/model_executor/cuda_graph_runner.py capture")
    texts = {}
    for version in ("0.5.2", "0.5.12", "0.5.23"):
        diagnosis = judged(CAPTURING, hit(*frames, error=OOM), engine_version=version)
        assert diagnosis is not None
        texts[version] = diagnosis.remedy
    assert "--cuda-graph-max-bs," in texts["0.5.2"]
    assert "--disable-piecewise-cuda-graph" not in texts["0.5.2"]
    assert "--disable-piecewise-cuda-graph" in texts["0.5.12"]
    assert "--cuda-graph-max-bs-decode" in texts["0.5.23"]
    assert "--disable-cuda-graph" not in texts["0.5.23"]


def test_the_way_the_arguments_are_printed_tells_old_from_new() -> None:
    frames = (*INIT, f"{SRT}/model_executor/cuda_graph_runner.py capture")
    new = [line.replace("ServerArgs(model_path='/models/m'", "{'model_path': '/models/m'") for line in CAPTURING]
    diagnosis = judged(tuple(new), hit(*frames, error=OOM))
    assert diagnosis is not None
    assert "--cuda-graph-backend-decode=disabled" in diagnosis.remedy
    assert "before 0.5.17" not in diagnosis.remedy


def test_a_line_that_is_too_long_for_a_summary_is_seen_to_be_cut() -> None:
    long = judged(LOADING, hit(*STACK, error=f"{OOM} {'x' * 400}"), has_exited=True, exit_code=1)
    short = judged(LOADING, hit(*STACK, error=OOM), has_exited=True, exit_code=1)
    assert long is not None
    assert short is not None
    assert long.summary.endswith("xxx …")
    assert short.summary.endswith("256.00 MiB.")
