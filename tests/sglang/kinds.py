"""Kinds of failure of memory, GPUs and ranks, told in the words of the engine and its libraries."""

from dataclasses import dataclass

from service.sglang.failures import Code
from service.sglang.phases import Phase
from tests.sglang.lines import INIT, LOAD, LOOP, MAIN, SITE, SRT, hit, sigquit, stamped, traceback

DIST = (*INIT, f"{SRT}/model_executor/model_runner.py init_torch_distributed")
CAPTURE = (*INIT, f"{SRT}/model_executor/cuda_graph_runner.py capture")
DRAFT = (*INIT, f"{SRT}/speculative/eagle_worker.py __init__", f"{SRT}/model_loader/loader.py load_model")
QUANT = f"{SRT}/layers/quantization/awq.py"
GRAPHS = (
    "Exception: Capture cuda graph failed: {}\nPossible solutions:\n1. set --mem-fraction-static to a smaller value"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A failure: where the start was, what the log then says, and what must come of it."""

    code: Code
    phase: Phase
    lines: tuple[str, ...]
    proof: str


def died(code: Code, phase: Phase, frames: tuple[str, ...], error: str, *, source: str = "call()") -> Kind:
    """Return a failure in which a scheduler hit an exception."""
    return Kind(code, phase, hit(*frames, error=error, code=source), error.split("\n", maxsplit=1)[0][:80])


def said(code: Code, phase: Phase, *lines: str) -> Kind:
    """Return a failure told by lines that stand for themselves, and what the parent says to them."""
    return Kind(code, phase, (*lines, sigquit()), lines[0][-60:])


def ended(code: Code, phase: Phase, frames: tuple[str, ...], error: str, *, source: str = "call()") -> Kind:
    """Return a failure in which a process ended with a traceback that nobody announced."""
    lines = traceback(*frames, error=error, code=source)
    return Kind(code, phase, lines, error.split("\n", maxsplit=1)[0][:80])


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 31.86 GiB"
)
RESOURCE_KINDS = (
    died(Code.CUDA_OOM_WEIGHTS, Phase.LOADING_WEIGHTS, LOAD, OOM),
    died(Code.CUDA_OOM_WEIGHTS, Phase.LOADING_DRAFT_WEIGHTS, DRAFT, OOM),
    died(Code.CUDA_OOM_WEIGHTS, Phase.LOADING_WEIGHTS, LOAD, "torch.cuda.OutOfMemoryError: HIP out of memory."),
    died(
        Code.CUDA_OOM_WEIGHTS, Phase.LOADING_WEIGHTS, LOAD, "RuntimeError: NPU out of memory. Tried to allocate 2 GiB"
    ),
    died(Code.CUDA_OOM_GRAPH_CAPTURE, Phase.CAPTURING_GRAPHS, CAPTURE, GRAPHS.format("CUDA out of memory. Tried to")),
    died(Code.CUDA_OOM_RUNTIME, Phase.SERVING, LOOP, OOM),
    died(Code.CUDA_OOM_RUNTIME, Phase.WARMING_UP, LOOP, "RuntimeError: CUDA error: out of memory\nCUDA kernel errors"),
    died(
        Code.KV_CACHE_NO_MEMORY,
        Phase.ALLOCATING_KV_CACHE,
        (*INIT, f"{SRT}/model_executor/model_runner.py init_memory_pool"),
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    died(Code.CUDA_OOM_RUNTIME, Phase.SERVING, LOOP, "RuntimeError: Triton Error [CUDA]: out of memory"),
    died(
        Code.CUDA_OOM_RUNTIME,
        Phase.SERVING,
        LOOP,
        "RuntimeError: Error in function 'aligned_alloc' at allocator.h:49: Failed to allocate memory for "
        "batch_prefill_tmp_v with size 1090519040 and alignment 16 in AlignedAllocator",
    ),
    died(
        Code.KV_CACHE_NO_MEMORY,
        Phase.ALLOCATING_KV_CACHE,
        (*INIT, f"{SRT}/model_executor/model_runner.py init_memory_pool"),
        "RuntimeError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.8.",
    ),
    died(
        Code.GPU_OCCUPIED,
        Phase.DISTRIBUTED_INIT,
        DIST,
        "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        "pre_model_load_mem",
    ),
    died(Code.HOST_MEMORY_PRESSURE, Phase.LOADING_WEIGHTS, LOAD, "MemoryError"),
    died(
        Code.HOST_MEMORY_PRESSURE,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        "RuntimeError: Ninja build failed. Ninja output:\nnvcc error   : 'cicc' died due to signal 9 (Kill signal)",
    ),
    ended(
        Code.HOST_MEMORY_PRESSURE,
        Phase.SPAWNING,
        (f"{SRT}/managers/scheduler.py run_scheduler_process",),
        "OSError: [Errno 12] Cannot allocate memory",
    ),
    said(
        Code.HOST_OOM_KILLED,
        Phase.LOADING_WEIGHTS,
        "kernel: Memory cgroup out of memory: Killed process 23793 (sglang::schedul) total-vm:2623712kB, anon-rss:1kB",
    ),
    died(
        Code.DISK_FULL, Phase.SPAWNING, INIT, "OSError: [Errno 28] No space left on device: '/root/.cache/huggingface'"
    ),
    Kind(
        Code.SHM_TOO_SMALL,
        Phase.DISTRIBUTED_INIT,
        (
            "host:1:2 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9 bytes: No space left on device (28)",
            *hit(
                *DIST, error="RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
            ),
        ),
        "/dev/shm/nccl-x",
    ),
    died(
        Code.STORAGE_READ_FAULT,
        Phase.LOADING_WEIGHTS,
        LOAD,
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
    ),
    Kind(
        Code.STORAGE_READ_FAULT,
        Phase.LOADING_WEIGHTS,
        (
            "Fatal Python error: Bus error",
            "",
            "Current thread 0x000079795dbe4740 (most recent call first):",
            f'  File "{SRT}/layers/linear.py", line 1254 in weight_loader',
            f'  File "{SRT}/models/qwen3.py", line 318 in load_weights',
            "",
            "Extension modules: numpy.core._multiarray_umath (total: 168)",
            stamped(50, "Child process unexpectedly failed with an exit code 135. pid=430190"),
        ),
        "Bus error",
    ),
    died(Code.GPU_HARDWARE_ERROR, Phase.SERVING, LOOP, "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    died(Code.ILLEGAL_MEMORY_ACCESS, Phase.SERVING, LOOP, "RuntimeError: CUDA error: an illegal memory access was enc"),
    died(
        Code.ILLEGAL_MEMORY_ACCESS,
        Phase.SERVING,
        LOOP,
        "RuntimeError: Triton Error [CUDA]: device-side assert triggered",
    ),
    said(
        Code.ILLEGAL_MEMORY_ACCESS,
        Phase.SERVING,
        "Memory access fault by GPU node-1 (Agent handle: 0x5) on address 0x7f",
    ),
    died(Code.GPU_COUNT_MISMATCH, Phase.DISTRIBUTED_INIT, DIST, "RuntimeError: CUDA error: invalid device ordinal"),
    died(
        Code.UNSUPPORTED_GPU_ARCH,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        "triton.compiler.errors.CompilationError: at 90:20:\n    accumulator += tl.dot(a, b)\n"
        "ValueError(\"type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e5',)\")",
    ),
    died(Code.UNSUPPORTED_GPU_ARCH, Phase.LOADING_WEIGHTS, LOAD, "RuntimeError: HIP error: invalid device function"),
    died(
        Code.UNSUPPORTED_GPU_ARCH,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        GRAPHS.format("RMSNorm failed with error code no kernel image is available for execution on the device"),
    ),
    died(
        Code.KERNEL_RESOURCES_EXCEEDED,
        Phase.SERVING,
        LOOP,
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496, Hardware limit: "
        "101376.",
    ),
    ended(
        Code.DRIVER_LIBRARY_MISSING,
        Phase.SPAWNING,
        (f"{SITE}/sgl_kernel/__init__.py <module>",),
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
    ),
    ended(
        Code.DRIVER_LIBRARY_MISSING,
        Phase.PARSING_ARGUMENTS,
        MAIN,
        "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) or platform plugin is available.",
    ),
    died(
        Code.NCCL_INIT_FAILURE,
        Phase.DISTRIBUTED_INIT,
        DIST,
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    ),
    died(
        Code.RENDEZVOUS_TIMEOUT,
        Phase.DISTRIBUTED_INIT,
        DIST,
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined.",
    ),
    died(
        Code.RENDEZVOUS_TIMEOUT,
        Phase.DISTRIBUTED_INIT,
        DIST,
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to "
        "connect to (a, 1)",
    ),
    died(
        Code.PEER_DISCONNECTED,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:45492",
    ),
    said(
        Code.NCCL_TIMEOUT,
        Phase.SERVING,
        "[rank0]:[E308 10:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "  what():  [PG 0 Rank 0] Process group watchdog thread terminated with exception: [Rank 0] Watchdog "
        "caught coll",
    ),
    Kind(
        Code.NCCL_SEGFAULT,
        Phase.SERVING,
        (
            "Fatal Python error: Segmentation fault",
            "",
            "Thread 0x00007fb5735f7700 (most recent call first):",
            f'  File "{SRT}/managers/scheduler.py", line 462 in watchdog_thread',
            "",
            "Current thread 0x00007fb573df8700 (most recent call first):",
            f'  File "{SITE}/torch/distributed/distributed_c10d.py", line 2501 in all_reduce',
            f'  File "{SRT}/distributed/parallel_state.py", line 414 in _all_reduce_in_place',
            "",
            stamped(55, "Watchdog timeout (self.watchdog_timeout=300)", rank="TP2"),
            sigquit(56),
        ),
        "Segmentation fault",
    ),
    Kind(
        Code.GPU_KERNEL_CRASH,
        Phase.CAPTURING_GRAPHS,
        (
            "Fatal Python error: Aborted",
            "",
            "Current thread 0x00007f3f83e9f740 (most recent call first):",
            '  File "/opt/aiter/aiter/jit/core.py", line 368 in wrapper',
            f'  File "{SRT}/layers/layernorm.py", line 73 in forward_cuda',
            "Extension modules: numpy (total: 2)",
            sigquit(),
        ),
        "Aborted",
    ),
    died(
        Code.CUSTOM_ALLREDUCE_FAILURE,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        GRAPHS.format("custom_all_reduce.cuh:455 CUDA error: invalid argument"),
    ),
    died(
        Code.DEEPEP_INIT_FAILURE,
        Phase.DISTRIBUTED_INIT,
        (*LOAD, f"{SITE}/deep_ep/buffer.py __init__"),
        "RuntimeError: Failed: Assertion error /DeepEP/csrc/kernels/runtime.cu:56 'nvshmem_team_split_strided('",
    ),
)
