"""Rules for want of memory: of the GPU by phase, of the KV pool, of the host, of /dev/shm and of disks.

Facts: SGLang §5 #4-#9, #34, #35, #49, #56; GPU node §6.1. The same words have opposite remedies in different phases.
"""

from service.sglang.failures.codes import Code
from service.sglang.failures.rule import Confidence, Role, Rule
from service.sglang.faults import FaultKind
from service.sglang.patterns import any_of
from service.sglang.phases import Phase
from service.sglang.versions import Version

_ANY = frozenset(FaultKind)
_NOTICE = frozenset({FaultKind.NOTICE})
_LOUD = frozenset({FaultKind.EXCEPTION, FaultKind.NATIVE})

_GPU_OOM = any_of(
    r"(?:CUDA|HIP|NPU|XPU|MUSA|GPU)(?: error:)? out of memory",
    r"OutOfMemoryError",
    r"CUDA (?:driver )?error: out of memory",
    r"Cuda failure.{0,12}out of memory",
    r"cudaErrorMemoryAllocation|hipErrorOutOfMemory|CUDA_ERROR_OUT_OF_MEMORY",
    r"Error \[(?:CUDA|HIP)\]: out of memory",
    r"Failed to allocate memory for \w+ with size .{0,80}AlignedAllocator",
    r"Memory_Allocation_Failure\(EL0004\)",
    r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED",
    r"[Ff]ailed to (?:CUDA )?(?:calloc|malloc|allocate) .{0,60}(?:device|GPU|CUDA) memory",
)
_SHM = r"/dev/shm"  # noqa: S108 - a pattern, no file of ours
_BEFORE_POOL = frozenset(
    {
        Phase.PARSING_ARGUMENTS,
        Phase.RESOLVING_CONFIG,
        Phase.SPAWNING,
        Phase.DISTRIBUTED_INIT,
        Phase.LOADING_WEIGHTS,
        Phase.LOADING_DRAFT_WEIGHTS,
    }
)
_POOL_OR_GRAPHS = frozenset({Phase.ALLOCATING_KV_CACHE, Phase.CAPTURING_GRAPHS, Phase.COMPILING_KERNELS})
_LOADING = frozenset({Phase.LOADING_WEIGHTS, Phase.LOADING_DRAFT_WEIGHTS})

HOST_KILL_RULES = (
    Rule(
        Code.HOST_OOM_KILLED,
        any_of(
            r"Out of memory: Kill(?:ed)? process",
            r"oom-kill:constraint",
            r"cgroup out of memory: Kill",
            r"oom_reaper: reaped process",
            r"killed by the OOM killer",
            r"\bOOMKilled\b",
            r"systemd-oomd.{0,40} [Kk]illed",
        ),
        kinds=_ANY,
        example="Memory cgroup out of memory: Killed process 23793 (sglang::schedul) total-vm:262371212kB",
    ),
    Rule(
        Code.HOST_MEMORY_PRESSURE,
        any_of(
            r"Killed signal terminated program",
            r"\b(?:cc1plus|cicc|ptxas|nvcc|cudafe\+\+)\b.{0,60}\b[Kk]illed",
            r"[Kk]illed\b.{0,60}\b(?:cc1plus|cicc|ptxas|nvcc)\b",
            r"'?(?:cicc|ptxas|cudafe\+\+|cc1plus)'? died due to signal 9",
            r"DefaultCPUAllocator: (?:can't|not enough)",
            r"std::bad_alloc",
            r"Cannot allocate memory",
            r"^MemoryError\b",
            r"\[Errno 12\]",
            r"can't start new thread|pthread_create failed",
        ),
        kinds=_LOUD,
        example="g++: fatal error: Killed signal terminated program cc1plus",
    ),
    Rule(
        Code.HOST_MEMORY_PRESSURE,
        any_of(
            r"Killed signal terminated program",
            r"'?(?:cicc|ptxas|cudafe\+\+|cc1plus)'? died due to signal 9",
            r"[Aa]vailable (?:system |host )?memory is (?:low|critical)",
            r"[Mm]emory pressure",
        ),
        kinds=_NOTICE,
        confidence=Confidence.MEDIUM,
    ),
)

SEGMENT_RULES = (
    Rule(
        Code.SHM_TOO_SMALL,
        any_of(
            r"[Ee]rror while creating shared memory segment",
            r"insufficient shared memory",
            rf"{_SHM}\S{{0,120}}.{{0,80}}(?:No space left|failed|Cannot allocate)",
            rf"No space left on device.{{0,120}}{_SHM}",
            r"unable to (?:open|write to|mmap|allocate) .{0,40}(?:shared memory|</torch_)",
            r"Failed to (?:open|create|allocate|mmap|attach).{0,40}shared memory segment",
            r"(?:shm_open|shmget|shmat|posix_fallocate).{0,40}(?:failed|No space|error)",
        ),
        kinds=_ANY,
        example="NCCL WARN Error while creating shared memory segment /dev/shm/nccl-XXXX (size 9637888)",
    ),
    Rule(
        Code.DISK_FULL,
        any_of(r"No space left on device", r"\[Errno 28\]", r"[Dd]isk quota exceeded", r"\[Errno 122\]"),
        kinds=_LOUD,
        example="OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/hub'",
    ),
    Rule(
        Code.DISK_FULL,
        any_of(r"No space left on device", r"[Dd]isk quota exceeded", r"not enough free disk space"),
        kinds=_NOTICE,
        confidence=Confidence.MEDIUM,
        unless=any_of(r"UserWarning"),
    ),
)

GPU_MEMORY_RULES = (
    Rule(
        Code.GPU_OCCUPIED,
        any_of(r"memory capacity is unbalanced"),
        example="ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
    ),
    Rule(
        Code.KV_CACHE_NO_MEMORY,
        any_of(
            r"Not enough memory\. Please try to increase --mem-fraction-static",
            r"No available memory for the (?:KV )?cache",
            r"max_running_requests? is zero",
            r"max_total_num_tokens.{0,40}(?:negative|-\d|<= ?0)",
            r"[Nn]ot enough (?:GPU )?memory (?:for|to allocate) (?:the )?KV",
        ),
        example="RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    Rule(
        Code.KV_CACHE_NO_MEMORY,
        any_of(r"leave no GPU memory for the KV cache"),
        since=Version(0, 5, 11),
        remedy="RAISE --mem-fraction-static above the value that the message names, use more GPUs (--tp-size), or a "
        "smaller draft.",
        example="RuntimeError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.8. "
        "Raise --mem-fraction-static above 0.86",
    ),
    Rule(
        Code.CUDA_OOM_WEIGHTS,
        _GPU_OOM,
        kinds=_ANY,
        phases=_BEFORE_POOL,
        example="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB.",
    ),
    Rule(
        Code.CUDA_OOM_GRAPH_CAPTURE,
        _GPU_OOM,
        kinds=_ANY,
        phases=_POOL_OR_GRAPHS,
        example="Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1.99 GiB.",
    ),
    Rule(
        Code.CUDA_OOM_RUNTIME,
        any_of(_GPU_OOM.pattern, r"(?:Prefill|Decode) out of memory\. Try to lower your batch size"),
        kinds=_LOUD,
        example="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 174.00 MiB.",
    ),
)

FILE_RULES = (
    Rule(
        Code.STORAGE_READ_FAULT,
        any_of(r"Bus error", r"SIGBUS"),
        kinds=frozenset({FaultKind.NATIVE}),
        within=any_of(
            r"weight_loader", r"load_weights", r"safetensors", r"model_loader", r"weight_utils", r"load_model"
        ),
        confidence=Confidence.MEDIUM,
        example="Fatal Python error: Bus error",
    ),
    Rule(
        Code.STORAGE_READ_FAULT,
        any_of(r"Bus error", r"SIGBUS"),
        kinds=frozenset({FaultKind.NATIVE}),
        phases=_LOADING,
        confidence=Confidence.LOW,
    ),
    Rule(
        Code.STORAGE_READ_FAULT,
        any_of(
            r"SafetensorError",
            r"[Ee]rror while deserializing header",
            r"MetadataIncompleteBuffer|InvalidHeader|HeaderTooLarge|HeaderTooSmall",
            r"invalid load key",
            r"PytorchStreamReader failed",
            r"\[Errno 5\]|Input/output error",
            r"\[Errno 116\]|Stale file handle",
            r"unexpected end of (?:file|data)",
        ),
        example="safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
    ),
    Rule(
        Code.STORAGE_READ_FAULT,
        any_of(r"^Exit code: -7\b", r"exit ?code[ =:]{1,3}-?(?:7|135)\b"),
        kinds=_NOTICE,
        role=Role.COLLATERAL,
        phases=_LOADING,
        confidence=Confidence.LOW,
    ),
    Rule(
        Code.SHM_TOO_SMALL,
        any_of(r"Bus error", r"SIGBUS", r"^Exit code: -7\b", r"exit code[ =:]{1,3}-?(?:7|135)\b"),
        kinds=frozenset({FaultKind.NATIVE, FaultKind.NOTICE}),
        role=Role.COLLATERAL,
        confidence=Confidence.LOW,
        summary="A process died of a bus error: most often /dev/shm is too small or full",
    ),
)

BUSY_RULES = (
    Rule(
        Code.GPU_OCCUPIED,
        any_of(r"device\(s\) is/are busy or unavailable"),
        role=Role.COLLATERAL,
        confidence=Confidence.MEDIUM,
        summary="A GPU refused the process: another one has it to itself, or has just broken it",
    ),
)
