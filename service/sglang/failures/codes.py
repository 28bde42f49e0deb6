"""Every diagnosis there is: what each code means and what mends it, with flag names that fit the engine's version."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.sglang.versions import Version


class Code(StrEnum):
    """The root cause of a failure or of a bad way of serving; not its last line."""

    ATTENTION_BACKEND_UNSUPPORTED = "attention_backend_unsupported"
    CHECKPOINT_MISMATCH = "checkpoint_mismatch"
    CHILD_PROCESS_DIED = "child_process_died"
    CLIENT_SIDE_BUG = "client_side_bug"
    CONTEXT_LENGTH_TOO_LONG = "context_length_too_long"
    CUDA_OOM_GRAPH_CAPTURE = "cuda_oom_graph_capture"
    CUDA_OOM_RUNTIME = "cuda_oom_runtime"
    CUDA_OOM_WEIGHTS = "cuda_oom_weights"
    CUSTOM_ALLREDUCE_FAILURE = "custom_allreduce_failure"
    DEEPEP_INIT_FAILURE = "deepep_init_failure"
    DEPENDENCY_MISSING = "dependency_missing"
    DEPENDENCY_VERSION_MISMATCH = "dependency_version_mismatch"
    DISK_FULL = "disk_full"
    DRAFT_CONTEXT_MISMATCH = "draft_context_mismatch"
    DRAFT_MODEL_MISMATCH = "draft_model_mismatch"
    DRIVER_LIBRARY_MISSING = "driver_library_missing"
    GPU_COUNT_MISMATCH = "gpu_count_mismatch"
    GPU_HARDWARE_ERROR = "gpu_hardware_error"
    GPU_KERNEL_CRASH = "gpu_kernel_crash"
    GPU_OCCUPIED = "gpu_occupied"
    HF_GATED_OR_OFFLINE = "hf_gated_or_offline"
    HOST_MEMORY_PRESSURE = "host_memory_pressure"
    HOST_OOM_KILLED = "host_oom_killed"
    ILLEGAL_MEMORY_ACCESS = "illegal_memory_access"
    INVALID_ARGUMENT = "invalid_argument"
    JIT_COMPILE_FAILURE = "jit_compile_failure"
    JIT_COMPILE_SLOW_OR_STUCK = "jit_compile_slow_or_stuck"
    KERNEL_RESOURCES_EXCEEDED = "kernel_resources_exceeded"
    KV_CACHE_NO_MEMORY = "kv_cache_no_memory"
    KV_CACHE_RETRACT = "kv_cache_retract"
    MISSING_WEIGHTS = "missing_weights"
    NCCL_INIT_FAILURE = "nccl_init_failure"
    NCCL_INIT_HANG = "nccl_init_hang"
    NCCL_SEGFAULT = "nccl_segfault"
    NCCL_TIMEOUT = "nccl_timeout"
    PD_TRANSFER_FAILURE = "pd_transfer_failure"
    PEER_DISCONNECTED = "peer_disconnected"
    PORT_IN_USE = "port_in_use"
    RENDEZVOUS_TIMEOUT = "rendezvous_timeout"
    SERVING_HANG = "serving_hang"
    SHM_TOO_SMALL = "shm_too_small"
    SOFTWARE_BUG = "software_bug"
    SPECULATION_BELOW_FLOOR = "speculation_below_floor"
    SPECULATION_INEFFECTIVE = "speculation_ineffective"
    SPECULATIVE_ARGS_INCOMPLETE = "speculative_args_incomplete"
    SPECULATIVE_RUNTIME_BUG = "speculative_runtime_bug"
    SPECULATIVE_SLOW = "speculative_slow"
    STORAGE_READ_FAULT = "storage_read_fault"
    TOKENIZER_ERROR = "tokenizer_error"
    TORCH_COMPILE_FAILURE = "torch_compile_failure"
    TP_NOT_DIVISIBLE = "tp_not_divisible"
    TRUST_REMOTE_CODE_REQUIRED = "trust_remote_code_required"
    UNKNOWN = "unknown"
    UNSUPPORTED_ARCHITECTURE = "unsupported_architecture"
    UNSUPPORTED_GPU_ARCH = "unsupported_gpu_arch"
    UNSUPPORTED_QUANTIZATION = "unsupported_quantization"
    WARMUP_FAILED = "warmup_failed"
    WARMUP_HTTP_PROXY = "warmup_http_proxy"
    WATCHDOG_TIMEOUT = "watchdog_timeout"


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """What a code means in one sentence, and what mends it. `{flag}` stands for a name of FLAGS."""

    meaning: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How a flag is spelt from a version on; "" where it does not exist."""

    since: Version
    text: str


FLAGS: Mapping[str, tuple[_Spelling, ...]] = {
    "graph_max_bs": (
        _Spelling(Version(0, 0, 0), "--cuda-graph-max-bs"),
        _Spelling(Version(0, 5, 17), "--cuda-graph-max-bs-decode"),
    ),
    "no_graphs": (
        _Spelling(Version(0, 0, 0), "--disable-cuda-graph"),
        _Spelling(Version(0, 5, 17), "--cuda-graph-backend-decode=disabled"),
    ),
    "no_prefill_graphs": (
        _Spelling(Version(0, 0, 0), "--disable-cuda-graph"),
        _Spelling(Version(0, 5, 10), "--disable-piecewise-cuda-graph"),
        _Spelling(Version(0, 5, 17), "--cuda-graph-backend-prefill=disabled"),
    ),
    "all_to_all": (
        _Spelling(Version(0, 0, 0), "--enable-deepep-moe"),
        _Spelling(Version(0, 5, 3), "--moe-a2a-backend"),
    ),
}
"""Facts: SGLang §2. Where the version is not known the last spelling is given, with the older ones behind it."""


def remedy_text(template: str, version: Version | None) -> str:
    """Return a remedy with its flags spelt as the version wants them."""
    return template.format(**{name: _spelt(spellings, version) for name, spellings in FLAGS.items()})


def _spelt(spellings: tuple[_Spelling, ...], version: Version | None) -> str:
    if version is None:
        *older, newest = spellings
        return f"{newest.text} (before {newest.since}: {older[-1].text})"
    return [spelling.text for spelling in spellings if spelling.since <= version][-1]
