"""Each kind of failure, told in the words of the engine and its libraries, gets its code, phase and proof."""

from dataclasses import dataclass

import pytest

from service.sglang.failures import Code, diagnose
from service.sglang.phases import Phase
from service.sglang.startup_log import StartupLog
from tests.sglang.lines import INIT, LOAD, LOOP, MAIN, SITE, SRT, STARTS, as_log, hit, sigquit, stamped, traceback

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


def _died(code: Code, phase: Phase, frames: tuple[str, ...], error: str, *, source: str = "call()") -> Kind:
    return Kind(code, phase, hit(*frames, error=error, code=source), error.split("\n", maxsplit=1)[0][:80])


def _said(code: Code, phase: Phase, *lines: str) -> Kind:
    return Kind(code, phase, (*lines, sigquit()), lines[0][-60:])


def _ended(code: Code, phase: Phase, frames: tuple[str, ...], error: str, *, source: str = "call()") -> Kind:
    lines = traceback(*frames, error=error, code=source)
    return Kind(code, phase, lines, error.split("\n", maxsplit=1)[0][:80])


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 31.86 GiB"
)
KINDS = (
    _died(Code.CUDA_OOM_WEIGHTS, Phase.LOADING_WEIGHTS, LOAD, OOM),
    _died(Code.CUDA_OOM_WEIGHTS, Phase.LOADING_DRAFT_WEIGHTS, DRAFT, OOM),
    _died(Code.CUDA_OOM_WEIGHTS, Phase.LOADING_WEIGHTS, LOAD, "torch.cuda.OutOfMemoryError: HIP out of memory."),
    _died(
        Code.CUDA_OOM_WEIGHTS, Phase.LOADING_WEIGHTS, LOAD, "RuntimeError: NPU out of memory. Tried to allocate 2 GiB"
    ),
    _died(Code.CUDA_OOM_GRAPH_CAPTURE, Phase.CAPTURING_GRAPHS, CAPTURE, GRAPHS.format("CUDA out of memory. Tried to")),
    _died(Code.CUDA_OOM_RUNTIME, Phase.SERVING, LOOP, OOM),
    _died(Code.CUDA_OOM_RUNTIME, Phase.WARMING_UP, LOOP, "RuntimeError: CUDA error: out of memory\nCUDA kernel errors"),
    _died(
        Code.KV_CACHE_NO_MEMORY,
        Phase.ALLOCATING_KV_CACHE,
        (*INIT, f"{SRT}/model_executor/model_runner.py init_memory_pool"),
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    _died(
        Code.GPU_OCCUPIED,
        Phase.DISTRIBUTED_INIT,
        DIST,
        "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. "
        "pre_model_load_mem",
    ),
    _died(Code.HOST_MEMORY_PRESSURE, Phase.LOADING_WEIGHTS, LOAD, "MemoryError"),
    _died(
        Code.HOST_MEMORY_PRESSURE,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        "RuntimeError: Ninja build failed. Ninja output:\nnvcc error   : 'cicc' died due to signal 9 (Kill signal)",
    ),
    _ended(
        Code.HOST_MEMORY_PRESSURE,
        Phase.SPAWNING,
        (f"{SRT}/managers/scheduler.py run_scheduler_process",),
        "OSError: [Errno 12] Cannot allocate memory",
    ),
    _said(
        Code.HOST_OOM_KILLED,
        Phase.LOADING_WEIGHTS,
        "kernel: Memory cgroup out of memory: Killed process 23793 (sglang::schedul) total-vm:2623712kB, anon-rss:1kB",
    ),
    _died(
        Code.DISK_FULL, Phase.SPAWNING, INIT, "OSError: [Errno 28] No space left on device: '/root/.cache/huggingface'"
    ),
    Kind(
        Code.SHM_TOO_SMALL,
        Phase.DISTRIBUTED_INIT,
        (
            "host:1:2 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9637892 bytes, "
            "error: "
            "No space left on device (28)",
            *hit(
                *DIST, error="RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
            ),
        ),
        "/dev/shm/nccl-x",
    ),
    _died(
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
    _died(
        Code.GPU_HARDWARE_ERROR, Phase.SERVING, LOOP, "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    ),
    _died(
        Code.ILLEGAL_MEMORY_ACCESS, Phase.SERVING, LOOP, "RuntimeError: CUDA error: an illegal memory access was enc"
    ),
    _died(
        Code.ILLEGAL_MEMORY_ACCESS,
        Phase.SERVING,
        LOOP,
        "RuntimeError: Triton Error [CUDA]: device-side assert triggered",
    ),
    _said(
        Code.ILLEGAL_MEMORY_ACCESS,
        Phase.SERVING,
        "Memory access fault by GPU node-1 (Agent handle: 0x5) on address 0x7f",
    ),
    _died(Code.GPU_COUNT_MISMATCH, Phase.DISTRIBUTED_INIT, DIST, "RuntimeError: CUDA error: invalid device ordinal"),
    _died(Code.UNSUPPORTED_GPU_ARCH, Phase.LOADING_WEIGHTS, LOAD, "RuntimeError: HIP error: invalid device function"),
    _died(
        Code.UNSUPPORTED_GPU_ARCH,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        GRAPHS.format("RMSNorm failed with error code no kernel image is available for execution on the device"),
    ),
    _died(
        Code.KERNEL_RESOURCES_EXCEEDED,
        Phase.SERVING,
        LOOP,
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496, Hardware limit: "
        "101376.",
    ),
    _ended(
        Code.DRIVER_LIBRARY_MISSING,
        Phase.SPAWNING,
        (f"{SITE}/sgl_kernel/__init__.py <module>",),
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
    ),
    _ended(
        Code.DRIVER_LIBRARY_MISSING,
        Phase.PARSING_ARGUMENTS,
        MAIN,
        "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) or platform plugin is available.",
    ),
    _died(
        Code.NCCL_INIT_FAILURE,
        Phase.DISTRIBUTED_INIT,
        DIST,
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    ),
    _died(
        Code.RENDEZVOUS_TIMEOUT,
        Phase.DISTRIBUTED_INIT,
        DIST,
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined.",
    ),
    _died(
        Code.RENDEZVOUS_TIMEOUT,
        Phase.DISTRIBUTED_INIT,
        DIST,
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to "
        "connect to (a, 1)",
    ),
    _died(
        Code.PEER_DISCONNECTED,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:45492",
    ),
    _said(
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
    _died(
        Code.CUSTOM_ALLREDUCE_FAILURE,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        GRAPHS.format("custom_all_reduce.cuh:455 CUDA error: invalid argument"),
    ),
    _died(
        Code.DEEPEP_INIT_FAILURE,
        Phase.DISTRIBUTED_INIT,
        (*LOAD, f"{SITE}/deep_ep/buffer.py __init__"),
        "RuntimeError: Failed: Assertion error /DeepEP/csrc/kernels/runtime.cu:56 'nvshmem_team_split_strided('",
    ),
    _said(
        Code.PORT_IN_USE, Phase.BINDING_HTTP, "ERROR:    [Errno 98] error while attempting to bind on address ('', 1)"
    ),
    _ended(
        Code.DRAFT_CONTEXT_MISMATCH,
        Phase.LOADING_DRAFT_WEIGHTS,
        (f"{SRT}/configs/model_config.py __init__",),
        "ValueError: Warning: Target model's context_length (262144) is greater than the derived context_length "
        "(131072).",
    ),
    _ended(
        Code.CONTEXT_LENGTH_TOO_LONG,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "ValueError: Warning: User-specified context_length (65536) is greater than the derived context_length (2048).",
    ),
    _ended(
        Code.SPECULATIVE_ARGS_INCOMPLETE,
        Phase.PARSING_ARGUMENTS,
        (*MAIN, f"{SRT}/arg_groups/speculative_hook.py _handle_eagle_family"),
        "AssertionError",
        source="and cfg.speculative_num_draft_tokens is None",
    ),
    _ended(
        Code.SPECULATIVE_ARGS_INCOMPLETE,
        Phase.PARSING_ARGUMENTS,
        (*MAIN, f"{SRT}/server_args.py __post_init__"),
        "AssertionError",
        source="self.speculative_eagle_topk is None",
    ),
    _ended(
        Code.SPECULATIVE_ARGS_INCOMPLETE,
        Phase.PARSING_ARGUMENTS,
        (*MAIN, f"{SRT}/arg_groups/speculative_hook.py _handle_eagle_family"),
        "TypeError: '>' not supported between instances of 'NoneType' and 'int'",
    ),
    _said(
        Code.INVALID_ARGUMENT,
        Phase.PARSING_ARGUMENTS,
        "sglang serve: error: unrecognized arguments: --num-speculative-tokens 5",
    ),
    _ended(
        Code.INVALID_ARGUMENT,
        Phase.PARSING_ARGUMENTS,
        (*MAIN, f"{SRT}/server_args.py check_server_args"),
        "AssertionError: tp_size must be divisible by number of nodes",
    ),
    _died(
        Code.INVALID_ARGUMENT,
        Phase.SPAWNING,
        INIT,
        "ValueError: Hierarchical cache cannot run here, please drop --enable-hierarchical-cache",
    ),
    _ended(
        Code.DEPENDENCY_MISSING,
        Phase.SPAWNING,
        (f"{SRT}/models/qwen2_vl.py <module>",),
        "ModuleNotFoundError: No module named 'decord'",
    ),
    _ended(
        Code.DEPENDENCY_VERSION_MISMATCH,
        Phase.SPAWNING,
        (f"{SRT}/layers/quantization/awq.py <module>", f"{SITE}/sgl_kernel/__init__.py <module>"),
        "ImportError: /env/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSsb",
    ),
    _ended(
        Code.DEPENDENCY_VERSION_MISMATCH,
        Phase.SPAWNING,
        (f"{SRT}/utils/hf_transformers_utils.py <module>",),
        "ImportError: cannot import name 'AutoProcessor' from 'transformers' (/env/transformers/__init__.py)",
    ),
    _ended(
        Code.DEPENDENCY_VERSION_MISMATCH,
        Phase.SPAWNING,
        (*MAIN, f"{SRT}/entrypoints/engine.py _set_envs_and_config", f"{SRT}/utils.py assert_pkg_version"),
        "Exception: flashinfer_python is installed with version 0.2.0, which is less than the minimum required "
        "version 0.2.5",
    ),
    _died(
        Code.TOKENIZER_ERROR,
        Phase.SPAWNING,
        (*INIT, f"{SRT}/utils/hf_transformers_utils.py get_tokenizer"),
        "RuntimeError: Failed to load the tokenizer. If the tokenizer is a custom tokenizer, consider setting "
        "`trust_remote_code=True`",
    ),
    _ended(
        Code.TRUST_REMOTE_CODE_REQUIRED,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__", f"{SITE}/transformers/dynamic_module_utils.py resolve"),
        "ValueError: The repository /models/m contains custom code which must be executed to correctly load the model. "
        "Please pass the argument `trust_remote_code=True`",
    ),
    _ended(
        Code.HF_GATED_OR_OFFLINE,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "OSError: You are trying to access a gated repo.\nMake sure to have access to it at "
        "https://huggingface.co/x/y.\n"
        "401 Client Error. (Request ID: Root=1)",
    ),
    _ended(
        Code.HF_GATED_OR_OFFLINE,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the "
        "cached files",
    ),
    _ended(
        Code.MISSING_WEIGHTS,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "OSError: /models/m does not appear to have a file named config.json. Checkout "
        "'https://huggingface.co//models/m'",
    ),
    _died(
        Code.MISSING_WEIGHTS,
        Phase.LOADING_WEIGHTS,
        LOAD,
        "RuntimeError: Cannot find any model weights with `/models/m`",
    ),
    _ended(
        Code.MISSING_WEIGHTS,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "OSError: x/y is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'\n"
        "If this is a private repository, make sure to pass a token having permission to this repo",
    ),
    _died(
        Code.UNSUPPORTED_ARCHITECTURE,
        Phase.LOADING_WEIGHTS,
        LOAD,
        "ValueError: Model architectures ['DeciLMForCausalLM'] are not supported for now. Supported architectures: "
        "dict_keys",
    ),
    _ended(
        Code.UNSUPPORTED_ARCHITECTURE,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "AttributeError: 'Qwen9Config' object has no attribute 'hidden_size'",
    ),
    _died(
        Code.UNSUPPORTED_QUANTIZATION,
        Phase.CAPTURING_GRAPHS,
        (*CAPTURE, f"{QUANT} apply"),
        "AttributeError: '_OpNamespace' 'sgl_kernel' object has no attribute 'awq_dequantize'",
    ),
    _died(
        Code.UNSUPPORTED_QUANTIZATION,
        Phase.LOADING_WEIGHTS,
        (*LOAD, f"{SRT}/layers/quantization/compressed_tensors/schemes.py get_scheme"),
        "NotImplementedError: No compressed-tensors compatible scheme was found.",
    ),
    _died(
        Code.UNSUPPORTED_QUANTIZATION,
        Phase.LOADING_WEIGHTS,
        LOAD,
        "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 80.",
    ),
    _died(
        Code.TP_NOT_DIVISIBLE,
        Phase.LOADING_WEIGHTS,
        LOAD,
        "ValueError: Weight input_size_per_partition = 14784 is not divisible by min_thread_k = 128.",
    ),
    _died(
        Code.TP_NOT_DIVISIBLE,
        Phase.LOADING_WEIGHTS,
        (*LOAD, f"{SRT}/models/llama.py __init__"),
        "AssertionError",
        source="assert self.total_num_heads % tp_size == 0",
    ),
    _died(
        Code.ATTENTION_BACKEND_UNSUPPORTED,
        Phase.CAPTURING_GRAPHS,
        (*CAPTURE, "/opt/aiter/aiter/mla.py get_meta_param"),
        "AssertionError: nhead=8 not supported",
    ),
    _died(
        Code.ATTENTION_BACKEND_UNSUPPORTED,
        Phase.WARMING_UP,
        LOOP,
        "RuntimeError: BatchPrefillWithPagedKVCachePyTorchWrapper::Forward(at::Tensor) failed to dispatch head_dim 80",
    ),
    _died(
        Code.CHECKPOINT_MISMATCH,
        Phase.LOADING_WEIGHTS,
        (*LOAD, f"{SRT}/models/llama.py load_weights"),
        "KeyError: 'lm_head.weight'",
    ),
    _died(
        Code.CHECKPOINT_MISMATCH,
        Phase.LOADING_WEIGHTS,
        (*LOAD, f"{SRT}/layers/linear.py weight_loader"),
        "AssertionError",
        source="assert param_data.shape == loaded_weight.shape",
    ),
    _died(
        Code.DRAFT_MODEL_MISMATCH,
        Phase.LOADING_DRAFT_WEIGHTS,
        (*DRAFT, f"{SRT}/models/qwen2.py load_weights"),
        "KeyError: 'layers.0.self_attn.qkv_proj.weight'",
    ),
    _died(
        Code.DRAFT_MODEL_MISMATCH,
        Phase.LOADING_DRAFT_WEIGHTS,
        (*LOAD, f"{SRT}/models/deepseek_nextn.py load_weights"),
        "RuntimeError: The size of tensor a (3584) must match the size of tensor b (7168) at non-singleton dimension 1",
    ),
    _died(
        Code.DRAFT_MODEL_MISMATCH,
        Phase.CAPTURING_GRAPHS,
        INIT,
        "AttributeError: 'GptOssForCausalLM' object has no attribute 'set_eagle3_layers_to_capture'",
    ),
    _died(
        Code.SPECULATIVE_RUNTIME_BUG,
        Phase.SERVING,
        (*LOOP, f"{SRT}/speculative/eagle_worker.py verify"),
        "RuntimeError: CUDA error: an illegal instruction was encountered",
    ),
    _died(
        Code.JIT_COMPILE_FAILURE,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        GRAPHS.format("Ninja is required to load C++ extensions"),
    ),
    _died(
        Code.JIT_COMPILE_FAILURE,
        Phase.CAPTURING_GRAPHS,
        (*CAPTURE, f"{SITE}/torch/utils/cpp_extension.py _run_ninja_build"),
        "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.",
    ),
    _died(
        Code.TORCH_COMPILE_FAILURE,
        Phase.CAPTURING_GRAPHS,
        (*CAPTURE, f"{SITE}/torch/_dynamo/output_graph.py call_user_compiler"),
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nLoweringException: AssertionError: x",
    ),
    Kind(
        Code.WARMUP_HTTP_PROXY,
        Phase.WARMING_UP,
        (
            stamped(55, "Initialization failed. warmup error: Traceback (most recent call last):"),
            f'  File "{SRT}/entrypoints/http_server.py", line 548, in _wait_and_warmup',
            "    assert res.status_code == 200",
            "AssertionError: res=<Response [503]>, res.text='<!DOCTYPE html PUBLIC ...squid'",
            "Killed",
        ),
        "Response [503]",
    ),
    Kind(
        Code.WARMUP_FAILED,
        Phase.WARMING_UP,
        (
            stamped(55, "Initialization failed. warmup error: Traceback (most recent call last):"),
            f'  File "{SRT}/entrypoints/http_server.py", line 548, in _wait_and_warmup',
            "requests.exceptions.ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port=30000): Read timed out.",
        ),
        "ReadTimeout",
    ),
    _said(
        Code.WATCHDOG_TIMEOUT,
        Phase.SERVING,
        stamped(55, "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", rank="TP1"),
    ),
    Kind(
        Code.JIT_COMPILE_SLOW_OR_STUCK,
        Phase.WARMING_UP,
        (
            stamped(55, "Watchdog timeout (self.watchdog_timeout=300)", rank="TP1"),
            'Thread 114788 (idle): "Thread-4 (forward_thread_func)"',
            "    acquire (filelock/_api.py:344)",
            "    load_cuda_ops (flashinfer/jit/core.py:122)",
            sigquit(56),
        ),
        "Watchdog timeout",
    ),
    _died(
        Code.SOFTWARE_BUG, Phase.SERVING, LOOP, "AttributeError: 'Scheduler' object has no attribute 'token_to_kv_pool'"
    ),
    _died(Code.SOFTWARE_BUG, Phase.SERVING, LOOP, "ValueError: token_to_kv_pool_allocator memory leak detected!"),
    _died(Code.UNKNOWN, Phase.SERVING, LOOP, "RuntimeError: the flux capacitor lost its flux"),
    _said(
        Code.CHILD_PROCESS_DIED,
        Phase.SERVING,
        stamped(55, "Subprocess scheduler_0 (pid=27306) crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
    ),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.code}-{kind.proof[:24]}")
def test_every_kind_gets_its_code_phase_and_proof(kind: Kind) -> None:
    start = STARTS[kind.phase] if kind.phase in STARTS else STARTS[Phase.SPAWNING][:1]
    log = StartupLog().feed(as_log(start, kind.lines))
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert (diagnosis.code, log.reading.phase, log.reading.has_failed) == (kind.code, kind.phase, True)
    assert any(kind.proof in evidence.text for evidence in diagnosis.evidence)
    assert diagnosis.summary
    assert diagnosis.remedy


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.code}-{kind.proof[:24]}")
def test_a_log_that_begins_with_the_failure_is_read_too(kind: Kind) -> None:
    """Issue reports often quote nothing else; only what depends on the phase may be named otherwise."""
    diagnosis = diagnose(StartupLog().feed(as_log(kind.lines)))
    assert diagnosis is not None
    oom = {Code.CUDA_OOM_WEIGHTS, Code.CUDA_OOM_GRAPH_CAPTURE, Code.CUDA_OOM_RUNTIME}
    assert diagnosis.code == kind.code or {diagnosis.code, kind.code} <= oom
