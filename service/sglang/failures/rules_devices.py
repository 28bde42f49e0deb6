"""Rules for GPUs, drivers, kernels that crash, and for what goes on between ranks.

Facts: SGLang §5 #36-#45; GPU node §4. The first rank that fails is the root; ranks that lose their peers only follow.
"""

from service.sglang.failures.codes import Code
from service.sglang.failures.rule import Confidence, Role, Rule
from service.sglang.faults import FaultKind
from service.sglang.patterns import any_of
from service.sglang.phases import Phase

_ANY = frozenset(FaultKind)
_NATIVE = frozenset({FaultKind.NATIVE})
_NOTICE = frozenset({FaultKind.NOTICE})
_CRASH = frozenset({FaultKind.NATIVE, FaultKind.NOTICE})

HARDWARE_RULES = (
    Rule(
        Code.GPU_HARDWARE_ERROR,
        any_of(
            r"[Uu]ncorrectable (?:ECC|NVLink|memory|hardware|double)",
            r"cudaErrorECCUncorrectable|hardware stack error",
            r"fallen off the bus",
            r"GPU is lost|GPU requires reset",
            r"Xid \(PCI:[0-9a-fA-F:.]+\): (?:48|61|62|64|74|79|92|94|95|109|119|120|136|140|143|14[4-9]|150|15[4-8])\b",
            r"\bRAS\b.{0,60}uncorrectable|HBM ECC|multi[- ]bit ECC",
        ),
        kinds=_ANY,
        example="RuntimeError: CUDA error: uncorrectable ECC error encountered",
    ),
)

DRIVER_RULES = (
    Rule(
        Code.DRIVER_LIBRARY_MISSING,
        any_of(
            r"lib(?:cuda|nvidia-ml|amdhip64|hsa-runtime64|ascendcl)\.so(?:\.\d+)*: cannot open",
            r"Found no NVIDIA driver",
            r"NVIDIA driver on your system is too old",
            r"CUDA driver version is insufficient",
            r"No CUDA GPUs are available|No CUDA devices found",
            r"No accelerator \(",
            r"no (?:CUDA|HIP|ROCm)-capable device",
            r"No HIP GPUs are available",
            r"Failed to infer device type",
            r"Torch not compiled with CUDA",
            r"[Dd]river/library version mismatch",
            r"NVML(?: Shared Library Not Found|Error_LibraryNotFound|Error_DriverNotLoaded)",
            r"system not yet initialized|system has unsupported display driver",
            r"CUDA initialization: CUDA unknown error",
        ),
        example="ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
    ),
    Rule(
        Code.GPU_COUNT_MISMATCH,
        any_of(
            r"invalid device ordinal",
            r"Duplicate GPU detected",
            r"device index .{0,30}out of range|Invalid device id",
            r"hipErrorInvalidDevice",
            r"only \d+ (?:GPUs?|devices?|NPUs?) (?:are|is) (?:available|visible)",
            r"[Nn]ot enough (?:visible )?(?:GPUs|devices)",
        ),
        kinds=_ANY,
        example="RuntimeError: CUDA error: invalid device ordinal",
    ),
    Rule(
        Code.UNSUPPORTED_GPU_ARCH,
        any_of(
            r"no kernel image is available",
            r"invalid device function",
            r"sm_\d+\w? is not compatible|not compatible with the current PyTorch installation",
            r"[Uu]nsupported gpu architecture",
            r"(?:requires|needs|only support(?:s|ed)?)[^.\n]{0,60}(?:SM\s?\d\d|sm_?\d\d|compute capability)",
            r"(?:requires|needs|only support(?:s|ed)?)[^.\n]{0,60}(?:Hopper|Blackwell|Ampere)",
            r"not supported (?:on|for) (?:sm_?\d+|compute capability|this GPU|gfx\w+|the current GPU arch)",
            r"(?:gfx\d\w+|sm_\d+)\b.{0,40}(?:not supported|unsupported)",
            r"hipErrorNoBinaryForGpu|Cannot read \S{0,200}TensileLibrary",
            r"fp8e4nv .{0,20}not supported|not supported in this architecture",
            r"PTX was compiled with an unsupported toolchain|was not compiled for (?:this|the) ",
            r"no suitable (?:kernel|algorithm) .{0,40}(?:gfx|sm_|arch)",
        ),
        example="RuntimeError: CUDA error: no kernel image is available for execution on the device",
        unless=any_of(r"quantization method .{0,80}is not supported for the current GPU"),
    ),
    Rule(
        Code.KERNEL_RESOURCES_EXCEEDED,
        any_of(
            r"OutOfResources",
            r"out of resource: shared memory",
            r"too many resources requested for launch",
            r"[Ss]hared memory .{0,60}exceed|exceeds .{0,40}shared memory",
            r"Required: \d+, Hardware limit: \d+",
        ),
        example="triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496, "
        "Hardware limit: 101376.",
    ),
)

TRANSFER_RULES = (
    Rule(
        Code.DEEPEP_INIT_FAILURE,
        any_of(r".", r"\n"),
        near=any_of(r"deep_ep/", r"/DeepEP/", r"nvshmem|rocshmem", r"/mori/"),
        example="RuntimeError: Failed: Assertion error /DeepEP/csrc/kernels/runtime.cu:56 'nvshmem_team_split_strided(",
    ),
    Rule(
        Code.DEEPEP_INIT_FAILURE,
        any_of(r"nvshmem\w*|NVSHMEM", r"\bIBGDA\b", r"DeepEP|deep_ep"),
        kinds=_ANY,
        unless=any_of(r"No module named", r"cannot import name", r"please install", r"not installed"),
        confidence=Confidence.MEDIUM,
        role=Role.COLLATERAL,
    ),
    Rule(
        Code.PD_TRANSFER_FAILURE,
        any_of(
            r"Mooncake (?:Transfer Engine|memory) .{0,40}(?:[Ee]rror|fail)",
            r"KVTransferError|KV transfer .{0,40}(?:fail|error)",
            r"(?:Prefill|Decode) (?:transfer|bootstrap|handshake) failed",
            r"[Ff]ail(?:ed)? to (?:register (?:local )?memory|send kv)",
            r"(?:Error|Could not|[Ff]ail(?:ed)? to) (?:fetch\w*|connect to|get) .{0,60}bootstrap",
            r"Losing connection with (?:prefill|decode)",
            r"NIXL_ERR|nixl\w*Error|NIXL .{0,40}(?:fail|error)",
            r"[Tt]ransfer [Ee]ngine .{0,60}(?:[Ee]rror|[Ff]ail)",
        ),
        kinds=_ANY,
        unless=any_of(r"No module named", r"cannot import name", r"not installed"),
        example="Decode transfer failed for request rank=0 decode_req.req.rid='...' with exception KVTransferError",
    ),
)

RANK_RULES = (
    Rule(
        Code.CUSTOM_ALLREDUCE_FAILURE,
        any_of(r"custom_all_?reduce\w*\.(?:cuh|cu|hip)\S*"),
        example="RuntimeError: custom_all_reduce.cuh:455: CUDA error: invalid argument",
    ),
    Rule(
        Code.CUSTOM_ALLREDUCE_FAILURE,
        any_of(
            r"CUDA error: invalid argument", r"peer access is not supported", r"cudaIpc\w+", r"invalid resource handle"
        ),
        near=any_of(r"custom_all_?reduce", r"register_graph_buffers", r"create_shared_buffer"),
    ),
    Rule(
        Code.NCCL_TIMEOUT,
        any_of(
            r"[Ww]atchdog caught collective operation timeout",
            r"collective operation timeout",
            r"ran for \d+ milliseconds before timing out",
            r"Timeout at NCCL work",
            r"HCCL.{0,60}(?:timeout|timed out)|notify wait timeout",
        ),
        kinds=_ANY,
        example="[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, "
        "Timeout(ms)=600000)",
    ),
    Rule(
        Code.RENDEZVOUS_TIMEOUT,
        any_of(
            r"DistStoreError",
            r"[Tt]imed out after \d+ seconds waiting for clients",
            r"client socket has (?:timed out|failed)",
            r"wait timeout after \d+ ?ms",
            r"Wait timeout|wait\(\) timed out|Socket Timeout",
            r"DistNetworkError: .{0,80}(?:connect|timed out)",
            r"timed out .{0,60}(?:while trying to connect|rendezvous|TCPStore)",
        ),
        unless=any_of(r"EADDRINUSE|address already in use", r"[Cc]onnection (?:closed|reset) by peer|recvValue failed"),
        example="torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 joined.",
    ),
    Rule(
        Code.RENDEZVOUS_TIMEOUT,
        any_of(r"client socket has timed out after", r"waitForInput: .{0,200}timed out after"),
        kinds=_NOTICE,
        role=Role.COLLATERAL,
        confidence=Confidence.MEDIUM,
    ),
    Rule(
        Code.NCCL_INIT_FAILURE,
        any_of(r"NCCL error: remote process exited", r"ncclRemoteError"),
        phases=frozenset({Phase.DISTRIBUTED_INIT}),
        confidence=Confidence.MEDIUM,
    ),
    Rule(
        Code.CHILD_PROCESS_DIED,
        any_of(r"\[(?:127\.[\d.]+|::1)\]:\d+: [Cc]onnection (?:closed|reset) by peer"),
        role=Role.COLLATERAL,
        confidence=Confidence.MEDIUM,
        summary="Another rank on this node ended without leaving an error of its own in the log",
        example="RuntimeError: [gloo/transport/tcp/pair.cc:537] [127.0.0.1]:39582: Connection reset by peer.",
    ),
    Rule(
        Code.PEER_DISCONNECTED,
        any_of(
            r"(?:gloo|pair\.cc|c10d|TCPStore|ProcessGroup|NCCL|HCCL).{0,200}[Cc]onnection (?:closed|reset)",
            r"(?:gloo|pair\.cc|c10d|TCPStore|ProcessGroup|NCCL|HCCL).{0,200}[Bb]roken pipe",
            r"[Cc]onnection (?:closed|reset) by peer \[|\]:\d+: [Cc]onnection (?:closed|reset) by peer",
            r"Connection closed by peer",
            r"ncclRemoteError|remote process exited",
            r"recvValue failed|failed to recv, got 0 bytes",
            r"connectFullMesh failed",
            r"(?:lost connection to|disconnected from) (?:peer|rank|node)",
        ),
        kinds=_ANY,
        role=Role.COLLATERAL,
        example="RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:45492",
    ),
    Rule(
        Code.PEER_DISCONNECTED,
        any_of(r"[Cc]onnection reset by peer", r"[Bb]roken pipe"),
        within=any_of(r"torch/distributed", r"parallel_state", r"communication_op", r"srt/distributed"),
        role=Role.COLLATERAL,
        confidence=Confidence.MEDIUM,
    ),
    Rule(
        Code.NCCL_INIT_FAILURE,
        any_of(
            r"NCCL error",
            r"nccl(?:System|Internal|UnhandledCuda)Error|ncclInvalid(?:Usage|Argument)",
            r"DistBackendError",
            r"(?:RCCL|HCCL) (?:error|function error)|\bEI\d{4}:|hccl api failed|HcclCommInit\w* .{0,40}fail",
            r"NCCL .{0,40}(?:failed to init|initialization failed)",
        ),
        unless=any_of(r"illegal memory access", r"device-side assert", r"unspecified launch failure"),
        example="RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    ),
)

NATIVE_RULES = (
    Rule(
        Code.NCCL_SEGFAULT,
        any_of(r"Segmentation fault", r"[Ss]egfault", r"SIGSEGV", r"Aborted", r"SIGABRT"),
        kinds=_NATIVE,
        near=any_of(
            r"libnccl",
            r"\bnccl[A-Z]\w+",
            r"pynccl",
            r"distributed_c10d\.py",
            r"ProcessGroupNCCL",
            r"_all_reduce_in_place|_all_gather|communicator",
        ),
        confidence=Confidence.MEDIUM,
        example="Fatal Python error: Segmentation fault",
    ),
    Rule(
        Code.ILLEGAL_MEMORY_ACCESS,
        any_of(
            r"illegal memory access",
            r"cudaErrorIllegalAddress|hipErrorIllegalAddress",
            r"misaligned address",
            r"Memory access fault by GPU",
            r"device-side assert triggered",
            r"unspecified launch failure",
            r"Warp (?:Illegal|Out-of-range|Misaligned) \w+|CUDA_EXCEPTION_\d+",
        ),
        kinds=_ANY,
        example="RuntimeError: CUDA error: an illegal memory access was encountered",
    ),
    Rule(
        Code.GPU_KERNEL_CRASH,
        any_of(
            r"Fatal Python error: (?:Segmentation fault|Aborted|Illegal instruction|Floating)", r"[Ss]egfault", r"SIG"
        ),
        kinds=_NATIVE,
        confidence=Confidence.MEDIUM,
        example="Fatal Python error: Aborted",
    ),
    Rule(
        Code.GPU_KERNEL_CRASH,
        any_of(
            r"Cannot find Symbol with name",
            r"HSA_STATUS_ERROR",
            r"hip_\w+\.cpp:\d+.{0,80}(?:[Cc]annot|[Ff]ail)",
            r"HW Exception by GPU",
            r"\bEZ9999\b|(?:aicore|vector core|AICPU) (?:exception|timeout)",
            r"terminate called after throwing",
            r"(?:Segmentation fault|Aborted)\s{0,4}\(core dumped\)",
            r"^(?:Segmentation fault|Aborted)$",
        ),
        kinds=_NOTICE,
        role=Role.COLLATERAL,
        confidence=Confidence.MEDIUM,
    ),
    Rule(
        Code.GPU_KERNEL_CRASH,
        any_of(
            r"CUDA error: an illegal instruction",
            r"CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_SUPPORTED|INVALID_VALUE|NOT_INITIALIZED)",
            r"CUDNN_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR)",
            r"(?:CUDA|HIP) error: (?:invalid (?:configuration )?argument|operation failed|unknown error|launch)",
            r"rocblas_status|hipErrorLaunchFailure",
            r"Triton Error \[(?:CUDA|HIP)\]",
        ),
        confidence=Confidence.MEDIUM,
    ),
)
