"""What every code means and what mends it: the text that an operator reads."""

from collections.abc import Mapping

from service.sglang.failures.codes import Code, CodeFacts

MEANINGS: Mapping[Code, CodeFacts] = {
    Code.ATTENTION_BACKEND_UNSUPPORTED: CodeFacts(
        "The attention backend cannot handle this model's head size, head count, dtype or mask",
        "Select another --attention-backend (triton supports the most shapes), or another --kv-cache-dtype.",
    ),
    Code.CHECKPOINT_MISMATCH: CodeFacts(
        "Names or shapes of the checkpoint's tensors do not fit the engine's model code",
        "Use a checkpoint made for this engine version, or mend its quantization ignore list; compare the tensor named "
        "in the evidence with the model's config.json.",
    ),
    Code.CHILD_PROCESS_DIED: CodeFacts(
        "A scheduler or detokenizer process ended without leaving an error of its own in the log",
        "Find who ended it: `dmesg -T | grep -iE 'oom|killed|segfault'` on the node, or an operator's kill; then "
        "launch again.",
    ),
    Code.CLIENT_SIDE_BUG: CodeFacts(
        "A client or test harness that writes into the same log failed; the server is healthy",
        "Nothing to do on the server; look at the program whose traceback this is.",
    ),
    Code.CONTEXT_LENGTH_TOO_LONG: CodeFacts(
        "--context-length is longer than the model's configuration allows",
        "Lower --context-length to the derived length, or set SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 if the model "
        "can really do it.",
    ),
    Code.CUDA_OOM_GRAPH_CAPTURE: CodeFacts(
        "GPU memory ran out after the weights, while the KV pool's neighbours and the CUDA graphs were made",
        "Lower --mem-fraction-static (for example by 0.05), lower {graph_max_bs}, or do without the graphs of the "
        "prefill ({no_prefill_graphs}) or of the decode ({no_graphs}).",
    ),
    Code.CUDA_OOM_RUNTIME: CodeFacts(
        "GPU memory ran out while serving: activations, images or logits took more than was left free",
        "Lower --mem-fraction-static or --chunked-prefill-size, or cap --max-running-requests and the request length.",
    ),
    Code.CUDA_OOM_WEIGHTS: CodeFacts(
        "GPU memory ran out while the model was built or its weights were loaded",
        "Use more GPUs (--tp-size) or a smaller or more heavily quantized checkpoint, and check that nothing else "
        "holds memory on these GPUs; a lower --mem-fraction-static does not help here.",
    ),
    Code.CUSTOM_ALLREDUCE_FAILURE: CodeFacts(
        "Custom all-reduce cannot be set up between these GPUs",
        "Launch with --disable-custom-all-reduce; without expandable segments and memory savers it may work again.",
    ),
    Code.DEEPEP_INIT_FAILURE: CodeFacts(
        "The library for expert-parallel communication (DeepEP, NVSHMEM) failed to initialise",
        "Check NVSHMEM, GPUDirect RDMA and IBGDA on every node, or choose another way with {all_to_all}.",
    ),
    Code.DEPENDENCY_MISSING: CodeFacts(
        "A Python package that the engine needs is not installed in its environment",
        "Install the package named in the evidence into the engine's environment.",
    ),
    Code.DEPENDENCY_VERSION_MISMATCH: CodeFacts(
        "Installed packages do not fit together: their API, ABI or minimum version differs",
        "Reinstall torch, sgl-kernel, flashinfer and transformers in the versions that this SGLang release pins, best "
        "in a fresh environment.",
    ),
    Code.DISK_FULL: CodeFacts(
        "A file system of the node is full",
        "Free space on the file system that the evidence names (weights, JIT caches under ~/.cache, /tmp, logs).",
    ),
    Code.DRAFT_CONTEXT_MISMATCH: CodeFacts(
        "The draft's max_position_embeddings is shorter than the target's context; the text says \"Warning:\" and is "
        "fatal all the same",
        "Set SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1, raise max_position_embeddings in the draft's config.json, or "
        "lower --context-length to the draft's.",
    ),
    Code.DRAFT_MODEL_MISMATCH: CodeFacts(
        "The draft's weights do not fit the target or the speculative algorithm",
        "Use the draft head trained for this exact target and algorithm (EAGLE3 drafts need "
        "--speculative-algorithm EAGLE3), and check its tensor names against the engine version.",
    ),
    Code.DRIVER_LIBRARY_MISSING: CodeFacts(
        "The GPU driver or its library is not visible to the process",
        "Run on a GPU node with a driver as new as the CUDA build wants; in a container, mount the driver "
        "(--gpus all).",
    ),
    Code.GPU_COUNT_MISMATCH: CodeFacts(
        "A rank asked for a GPU that does not exist on this node",
        "Make --tp-size, --pp-size, --dp-size, --nnodes and --base-gpu-id fit the GPUs visible on each node.",
    ),
    Code.GPU_HARDWARE_ERROR: CodeFacts(
        "A GPU reported a fault of its hardware",
        "Take the node out of service; reset or replace the GPU that the evidence names.",
    ),
    Code.GPU_KERNEL_CRASH: CodeFacts(
        "A GPU runtime library crashed natively, in a kernel or while capturing one",
        "Change the kernel or attention backend, or the image version for this GPU.",
    ),
    Code.GPU_OCCUPIED: CodeFacts(
        "Another process holds memory on a GPU that this server wants",
        "Find the holder with `nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv` and end it, or "
        "use other GPUs.",
    ),
    Code.HF_GATED_OR_OFFLINE: CodeFacts(
        "The engine asked the model hub and had no network or no permission",
        "Give the full path of a local snapshot, or a token with access (HF_TOKEN); offline, set HF_HUB_OFFLINE=1 and "
        "have every file in the snapshot.",
    ),
    Code.HOST_MEMORY_PRESSURE: CodeFacts(
        "The host's memory is nearly used up, often by compilers that run in parallel",
        "Set MAX_JOBS=1 for the compilers, leave more memory outside --mem-fraction-static on unified-memory machines, "
        "and load fewer servers at once.",
    ),
    Code.HOST_OOM_KILLED: CodeFacts(
        "The kernel killed a process of the engine because the host's memory ran out",
        "Load with fewer threads, give the host or container more memory, or run fewer servers on it; "
        "`dmesg -T | grep -i oom` names the victim.",
    ),
    Code.ILLEGAL_MEMORY_ACCESS: CodeFacts(
        "A GPU kernel touched memory that is not its own",
        "Upgrade, or switch --attention-backend or the feature in the traceback off; CUDA_LAUNCH_BLOCKING=1 shows the "
        "true place.",
    ),
    Code.INVALID_ARGUMENT: CodeFacts(
        "A flag, or a combination of flags, was refused when the arguments were checked",
        "Correct the flag that the message names; flags differ by engine version, "
        "`python -m sglang.launch_server --help` lists those of this one.",
    ),
    Code.JIT_COMPILE_FAILURE: CodeFacts(
        "A kernel could not be compiled at run time",
        "Install the compiler tools in the engine's environment (ninja, a CUDA toolkit with nvcc, gcc), or do without "
        "the feature that needs the compile; the text below the first error of the compiler says what it lacked.",
    ),
    Code.JIT_COMPILE_SLOW_OR_STUCK: CodeFacts(
        "A run-time compile of kernels, or its lock, holds the start up without any error line",
        "Wait with a longer deadline; remove stale lock files from the JIT caches under ~/.cache; limit the compilers "
        "with MAX_JOBS.",
    ),
    Code.KERNEL_RESOURCES_EXCEEDED: CodeFacts(
        "A kernel needs more on-chip shared memory than this GPU has",
        "Use another --attention-backend, or a release with smaller kernel tiles for this GPU.",
    ),
    Code.KV_CACHE_NO_MEMORY: CodeFacts(
        "After the weights no memory is left for the KV pool",
        "RAISE --mem-fraction-static, use more GPUs (--tp-size), or a smaller draft: the opposite of what helps when "
        "graph capture runs out of memory.",
    ),
    Code.KV_CACHE_RETRACT: CodeFacts(
        "The KV pool fills up while decoding, so running requests are taken back and tried again",
        "Raise the KV capacity (--mem-fraction-static, more GPUs) or lower --max-running-requests: it is slow, "
        "not dead.",
    ),
    Code.MISSING_WEIGHTS: CodeFacts(
        "The model path does not exist on this node or lacks files, so it was taken for a hub name and refused",
        "Check that the path is mounted and spelt right on this node and holds config.json and all weight files.",
    ),
    Code.NCCL_INIT_FAILURE: CodeFacts(
        "A NCCL communicator could not be created or used",
        "Launch with NCCL_DEBUG=INFO; check /dev/shm, NCCL_SOCKET_IFNAME, the visible GPUs and the links between them.",
    ),
    Code.NCCL_INIT_HANG: CodeFacts(
        "The set-up of the process groups began and nothing followed",
        "Check peer-to-peer access (IOMMU, ACS; try NCCL_P2P_DISABLE=1), NCCL_SOCKET_IFNAME, and that every node was "
        "started.",
    ),
    Code.NCCL_SEGFAULT: CodeFacts(
        "The NCCL library crashed natively",
        "Upgrade NCCL, or switch the transport off that it used (NCCL_P2P_DISABLE, NCCL_IB_DISABLE, "
        "NCCL_NVLS_ENABLE=0).",
    ),
    Code.NCCL_TIMEOUT: CodeFacts(
        "A collective operation never completed and its watchdog ended the process",
        "Look at the other ranks and the fabric first: one of them stalled or died; only then raise --dist-timeout.",
    ),
    Code.PD_TRANSFER_FAILURE: CodeFacts(
        "The transfer of the KV cache between prefill and decode server failed",
        "Check the transfer device (--disaggregation-ib-device), memory registration (ulimit -l, nvidia-peermem) and "
        "the network between the pair.",
    ),
    Code.PEER_DISCONNECTED: CodeFacts(
        "A rank elsewhere went away and its connections closed",
        "Look for the first error in the log of the other node or rank; this log only shows the consequence.",
    ),
    Code.PORT_IN_USE: CodeFacts(
        "The port could not be bound because another process listens on it",
        "Choose a free port, or stop the process that holds it (`ss -ltnp`) before launching.",
    ),
    Code.RENDEZVOUS_TIMEOUT: CodeFacts(
        "Ranks on another node never joined",
        "Start all nodes, check that --dist-init-addr is reachable from each (firewall, interface), and that all have "
        "the same --nnodes and --tp-size.",
    ),
    Code.SERVING_HANG: CodeFacts(
        "Requests have stopped finishing and there is no error",
        "Restart the server and report it; py-spy on the scheduler shows where it waits. Watch progress counters "
        "rather than process life.",
    ),
    Code.SHM_TOO_SMALL: CodeFacts(
        "A shared memory segment could not be created: /dev/shm is too small or full of what others left",
        "Give the container a larger /dev/shm (--shm-size, --ipc=host) and remove stale segments of dead servers.",
    ),
    Code.SOFTWARE_BUG: CodeFacts(
        "A Python error inside SGLang or a plug-in that no setting explains",
        "Upgrade, or pin a version without the regression; search the issues for the last line of the traceback.",
    ),
    Code.SPECULATION_BELOW_FLOOR: CodeFacts(
        "Speculation accepts fewer draft tokens than it should",
        "Ask whether the draft fits this workload, and check its weights and configuration against the engine version "
        "(a preflight does): a field that the engine does not know leaves it half right. Fewer draft tokens cost less; "
        "limits.min_accept_length in the profile says what is enough.",
    ),
    Code.SPECULATION_INEFFECTIVE: CodeFacts(
        "Speculation runs but no draft token is ever accepted (accept length 1.00)",
        "Check the draft's weight names, --speculative-algorithm (EAGLE against EAGLE3) and the target's auxiliary "
        "hidden states; or switch speculation off: as it is, it only costs.",
    ),
    Code.SPECULATIVE_ARGS_INCOMPLETE: CodeFacts(
        "Only some of --speculative-num-steps, --speculative-eagle-topk and --speculative-num-draft-tokens were given",
        "Give all three or none of them.",
    ),
    Code.SPECULATIVE_RUNTIME_BUG: CodeFacts(
        "The speculative decoding path raised an error of a kernel or an interface",
        "Upgrade, or start without speculative decoding.",
    ),
    Code.SPECULATIVE_SLOW: CodeFacts(
        "Speculation works, but its acceptance or throughput is poor",
        "Tune the number of steps and draft tokens for this workload, or switch speculation off.",
    ),
    Code.STORAGE_READ_FAULT: CodeFacts(
        "A weight file could not be read: the storage failed, or the file is cut short or damaged",
        "Check the disk and the file (size, checksum, a Git LFS pointer in its place), fetch it again; try "
        "--weight-loader-disable-mmap.",
    ),
    Code.TOKENIZER_ERROR: CodeFacts(
        "The tokenizer cannot be loaded",
        "Give --tokenizer-path a directory with a complete tokenizer, or mend the model's tokenizer files.",
    ),
    Code.TORCH_COMPILE_FAILURE: CodeFacts(
        "torch.compile failed while the model was captured",
        "Start without --enable-torch-compile.",
    ),
    Code.TP_NOT_DIVISIBLE: CodeFacts(
        "A dimension of the weights cannot be split by this tensor parallel size with this kernel",
        "Choose another --tp-size (or --ep-size), or a checkpoint whose quantization blocks divide.",
    ),
    Code.TRUST_REMOTE_CODE_REQUIRED: CodeFacts(
        "The model brings its own code",
        "Pass --trust-remote-code if you trust it.",
    ),
    Code.UNKNOWN: CodeFacts(
        "It failed, and no rule knows why",
        "Read the quoted exception, the first of the first rank that failed, and the lines above it.",
    ),
    Code.UNSUPPORTED_ARCHITECTURE: CodeFacts(
        "This model class is not known to the installed SGLang or transformers",
        "Use a release that supports the model, or upgrade transformers within what SGLang pins.",
    ),
    Code.UNSUPPORTED_GPU_ARCH: CodeFacts(
        "The compiled kernels hold no code for this GPU, or the feature needs another generation",
        "Use a build for this GPU's architecture, or another --attention-backend or kernel.",
    ),
    Code.UNSUPPORTED_QUANTIZATION: CodeFacts(
        "The quantization of this checkpoint, or its kernel, is not available in this build or on this GPU",
        "Use a checkpoint with a supported quantization, drop a --quantization that differs from the checkpoint's own, "
        "or install the kernels that the evidence names.",
    ),
    Code.WARMUP_FAILED: CodeFacts(
        "The server was bound, but its warm-up request failed",
        "Read the scheduler's error above the warm-up's; if it only took long, raise SGLANG_WARMUP_TIMEOUT.",
    ),
    Code.WARMUP_HTTP_PROXY: CodeFacts(
        "The warm-up request to the server itself went through an HTTP proxy",
        "Unset http_proxy and https_proxy for the engine, or add 127.0.0.1 and the bind address to no_proxy.",
    ),
    Code.WATCHDOG_TIMEOUT: CodeFacts(
        "A batch made no progress until the scheduler's watchdog ended the server",
        "Find the blocked call in the dump above the watchdog's line; check peer-to-peer and NCCL; raise "
        "--watchdog-timeout only for a step that is known to be slow.",
    ),
}
