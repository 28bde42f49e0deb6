"""The ways a rank fails, in the words of the engine and of the libraries below it."""

from __future__ import annotations

import signal
from typing import Callable, Dict, NamedTuple

from .tracebacks import SCHEDULER_FRAMES, Frame, traceback_text
from .versions import Version

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted:.2f} GiB. GPU {gpu} has a total capacity of "
    "{total:.2f} GiB of which {free:.2f} GiB is free. Including non-PyTorch memory, this process has {held:.2f} GiB "
    "memory in use. Of the allocated memory {held:.2f} GiB is allocated by PyTorch, and 120.21 MiB is reserved by "
    "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)
ASSERTS_ADVICE = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
WEIGHTS = Frame("sglang/srt/model_loader/loader.py", 1020, "load_model", "self.load_weights_and_postprocess(")
POOL = Frame("sglang/srt/model_executor/pool_configurator.py", 99, "__post_init__", "raise RuntimeError(msg)")
GRAPHS = Frame("sglang/srt/model_executor/runner/decode_cuda_graph_runner.py", 602, "__init__", "raise Exception(")
FORWARD = Frame(
    "sglang/srt/managers/scheduler.py", 3410, "run_batch", "batch_result = self.model_worker.forward_batch("
)
COLLECTIVE = Frame("torch/distributed/distributed_c10d.py", 4120, "barrier", "work = group.barrier(opts=opts)")


class Situation(NamedTuple):
    """What a failing rank knows of itself."""

    version: Version
    rank: int
    gpu: int
    total_gb: float
    held_gb: float
    mem_fraction: float
    architecture: str


class Failure(NamedTuple):
    """What a rank writes, and how it ends: by telling its parent with SIGQUIT, or by a signal to itself."""

    text: str
    signal: int = 0
    """0: the parent is told. Otherwise the rank dies by this signal, and the text is the native library's."""


def failure(name: str, situation: Situation) -> Failure:
    """Return a failure by its name. Raises KeyError for one that is not known."""
    return FAILURES[name](situation)


def raised(exception: str, *frames: Frame) -> Failure:
    """Return the failure that an exception in a scheduler is."""
    return Failure(f"Scheduler hit an exception: {traceback_text((*SCHEDULER_FRAMES, *frames), exception)}\n")


def _out_of_memory(situation: Situation, wanted_gb: float) -> str:
    return OUT_OF_MEMORY.format(
        wanted=wanted_gb,
        gpu=situation.gpu,
        total=situation.total_gb,
        free=max(situation.total_gb - situation.held_gb, 0.0) % 0.5,
        held=situation.held_gb,
    )


def _oom_weights(situation: Situation) -> Failure:
    return raised(_out_of_memory(situation, 1.5), WEIGHTS)


def _oom_graphs(situation: Situation) -> Failure:
    if situation.version.has_new_texts:
        smaller, off = "--cuda-graph-max-bs-decode", "disable decode CUDA graph by --cuda-graph-backend-decode=disabled"
    else:
        smaller, off = "--cuda-graph-max-bs", "disable CUDA graph by --disable-cuda-graph"
    memory = _out_of_memory(situation, 0.88).partition(": ")[2]
    text = (
        f"Exception: Capture cuda graph failed: {memory}\nPossible solutions:\n"
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
        f"2. set {smaller} to a smaller value (e.g., 16)\n"
        f"3. {off}. (Not recommended. Huge performance loss)\n"
    )
    return raised(text, GRAPHS)


def _no_kv_memory(situation: Situation) -> Failure:
    advice = "Not enough memory. Please try to increase --mem-fraction-static."
    if situation.version.has_new_texts:
        advice += f" Current value: mem_fraction_static={situation.mem_fraction}"
    return raised(f"RuntimeError: {advice}", POOL)


def _illegal_access(_: Situation) -> Failure:
    text = f"torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n{ASSERTS_ADVICE}"
    return raised(text, FORWARD)


def _nccl_timeout(situation: Situation) -> Failure:
    where = "ProcessGroupNCCL.cpp"
    work = "WorkNCCL(SeqNum=8841, OpType=ALLREDUCE, NumelIn=917504, NumelOut=917504, Timeout(ms)=600000)"
    stamp = f"[rank{situation.rank}]:[E1129 03:12:44.107221905 {where}"
    text = (
        f"{stamp}:685] [Rank {situation.rank}] Watchdog caught collective operation timeout: {work} ran for 600041 "
        f"milliseconds before timing out.\n{stamp}:739] [Rank {situation.rank}] Some NCCL operations have failed or "
        "timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on "
        f"corrupted/incomplete data.\n{stamp}:745] [Rank {situation.rank}] To avoid data inconsistency, we are taking "
        "the entire process down.\nterminate called after throwing an instance of 'c10::DistBackendError'\n"
    )
    return Failure(text, signal.SIGABRT)


def _nccl_init(_: Situation) -> Failure:
    text = (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error (run "
        "with NCCL_DEBUG=INFO for details), NCCL version 2.29.3\nncclSystemError: System call (e.g. socket, malloc) or "
        "external library call failed or device error.\nLast error:\nError while creating shared memory segment "
        "/dev/shm/nccl-1QhVTA (size 9637888), error: No space left on device (28)"
    )
    return raised(text, COLLECTIVE)


def _watchdog(_: Situation) -> Failure:
    return Failure("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)")


def _no_architecture(situation: Situation) -> Failure:
    known = "dict_keys(['LlamaForCausalLM', 'Qwen3ForCausalLM', 'DeepseekV3ForCausalLM', 'GptOssForCausalLM'])"
    text = (
        f"Model architectures ['{situation.architecture}'] are not supported for now. Supported architectures: {known}"
    )
    return raised(
        f"ValueError: {text}", Frame("sglang/srt/models/registry.py", 63, "_raise_for_unsupported", "raise ValueError(")
    )


def _text_failure(exception: str, *frames: Frame) -> Callable[[Situation], Failure]:
    return lambda _: raised(exception, *frames)


def _signal_failure(number: int, text: str = "") -> Callable[[Situation], Failure]:
    return lambda _: Failure(text, number)


SHAPE = "AssertionError: Attempted to load weight (torch.Size([7168, 7168])) into parameter (torch.Size([7168, 21504]))"
FAILURES: Dict[str, Callable[[Situation], Failure]] = {
    "cuda_oom_weights": _oom_weights,
    "cuda_oom_graph_capture": _oom_graphs,
    "cuda_oom_runtime": lambda situation: raised(_out_of_memory(situation, 3.5), FORWARD),
    "kv_cache_no_memory": _no_kv_memory,
    "illegal_memory_access": _illegal_access,
    "nccl_timeout": _nccl_timeout,
    "nccl_init_failure": _nccl_init,
    "watchdog_timeout": _watchdog,
    "unsupported_architecture": _no_architecture,
    "checkpoint_mismatch": _text_failure("KeyError: 'model.layers.0.mlp.experts.w13_weight_scale'", WEIGHTS),
    "draft_model_mismatch": _text_failure(
        SHAPE,
        WEIGHTS,
        Frame("sglang/srt/model_loader/weight_utils.py", 1582, "default_weight_loader", "assert param.size()"),
    ),
    "jit_compile_failure": _text_failure(
        "RuntimeError: Ninja build failed. Ninja output:\nninja: build stopped: subcommand failed.\n"
        "fatal error: cuda_fp8.h: No such file or directory",
        Frame("flashinfer/jit/cpp_ext.py", 340, "run_ninja", "raise RuntimeError(msg) from e"),
    ),
    "disk_full": _text_failure(
        "OSError: [Errno 28] No space left on device",
        Frame("triton/runtime/cache.py", 121, "put", "with open(temp_path, mode) as f:"),
    ),
    "software_bug": _text_failure(
        "AttributeError: 'NoneType' object has no attribute 'seq_lens'",
        Frame("sglang/srt/managers/schedule_batch.py", 2212, "prepare_for_decode", "self.seq_lens.add_(1)"),
    ),
    "gpu_count_mismatch": _text_failure(
        f"torch.AcceleratorError: CUDA error: invalid device ordinal\n{ASSERTS_ADVICE}",
        Frame("torch/cuda/__init__.py", 582, "set_device", "torch._C._cuda_setDevice(device)"),
    ),
    "storage_read_fault": _signal_failure(signal.SIGBUS),
    "gpu_kernel_crash": _signal_failure(
        signal.SIGSEGV,
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f31a2ffd740 (most recent call first):\n",
    ),
    "host_oom_killed": _signal_failure(signal.SIGKILL),
    "child_process_died": _signal_failure(signal.SIGABRT),
}
"""By the code of the diagnosis that fits."""
