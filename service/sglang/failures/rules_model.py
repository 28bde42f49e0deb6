"""Rules for what a model asks of the engine: weights that fit, kernels for its shapes and quantization, compilers.

Facts: SGLang §5 #8, #14-#26, #48; drafts §0. Weights of a draft are told from the target's by phase and stack.
"""

from service.sglang.failures.codes import Code
from service.sglang.failures.rule import Confidence, Role, Rule
from service.sglang.faults import FaultKind
from service.sglang.patterns import any_of
from service.sglang.phases import Phase

_NOTICE = frozenset({FaultKind.NOTICE})
_LOUD = frozenset({FaultKind.EXCEPTION, FaultKind.NATIVE})

_DOES_NOT_FIT = any_of(
    r"^KeyError: ",
    r"^AssertionError\s*\Z",
    r"[Ss]ize mismatch|shape mismatch|[Ss]hapes? .{0,40}do(?:es)? not match",
    r"must match the (?:size|existing size) (?:of tensor|\()",
    r"exceeds dimension size",
    r"Attempted to load weight",
    r"not found in params_dict",
    r"(?:[Mm]issing|[Uu]nexpected) keys?\b",
    r"expanded size of the tensor",
    r"loaded_weight|param\.shape|param_data\.shape|org_vocab_size",
    r"(?:Module|parameter) named .{0,80}(?:not|no)|no module or parameter named|does not have (?:a )?parameter",
    r"shape '\[[\d, -]+\]' is invalid for input",
    r"'NoneType' object has no attribute 'weight_loader'",
    r"some but not all shards of",
)
_NAMES_A_TENSOR = any_of(
    r"^KeyError: '[\w.]*(?:layers\.\d+\.|weight|qzeros|scales|\bbias|lm_head|embed_tokens)[\w.]*'",
    r"Attempted to load weight",
    r"not found in params_dict",
    r"exceeds dimension size",
    r"some but not all shards of",
)
"""Told by its words alone, where the frames are missing."""
_LOADS = any_of(
    r"load_weights",
    r"weight_loader",
    r"weight_utils\.py",
    r"load_model\b",
    r"model_loader/",
    r"process_weights_after_loading",
    r"load_(?:column|row|merged|qkv)\w*",
)
_DRAFT = any_of(r"speculative/", r"models/\w*(?:eagle3?|nextn|mtp)\.py", r"draft_worker|draft_model")

DRAFT_RULES = (
    Rule(
        Code.DRAFT_MODEL_MISMATCH,
        any_of(
            r"set_eagle3_layers_to_capture",
            r"has no attribute '(?:set_embed|hot_token_id|[gs]et_embed_and_head|lm_head|draft_vocab_size)'",
            r"draft_vocab_size|\bd2t\b",
            r"[Dd]raft model.{0,80}(?:vocab|hidden|mismatch|not match|incompatible)",
        ),
        unless=any_of(r"No module named"),
        example="AttributeError: 'GptOssForCausalLM' object has no attribute 'set_eagle3_layers_to_capture'",
    ),
    Rule(
        Code.DRAFT_MODEL_MISMATCH,
        _DOES_NOT_FIT,
        within=_DRAFT,
        also=_LOADS,
        example="KeyError: 'layers.0.self_attn.qkv_proj.weight'",
    ),
    Rule(
        Code.DRAFT_MODEL_MISMATCH,
        _DOES_NOT_FIT,
        within=_LOADS,
        phases=frozenset({Phase.LOADING_DRAFT_WEIGHTS}),
    ),
    Rule(
        Code.DRAFT_MODEL_MISMATCH,
        _NAMES_A_TENSOR,
        phases=frozenset({Phase.LOADING_DRAFT_WEIGHTS}),
    ),
    Rule(
        Code.DRAFT_MODEL_MISMATCH,
        any_of(r"mat1 and mat2 shapes cannot be multiplied", r"must match the size of tensor"),
        near=any_of(r"models/\w*(?:eagle3?|nextn|mtp)\.py"),
        confidence=Confidence.MEDIUM,
    ),
    Rule(
        Code.SPECULATIVE_RUNTIME_BUG,
        any_of(r"."),
        within=any_of(r"event_loop", r"forward_thread_func"),
        also=any_of(r"speculative/"),
        kinds=frozenset({FaultKind.EXCEPTION}),
        unless=any_of(r"NCCL|gloo|HCCL", r"memory leak detected", r"[Oo]ut of memory"),
        confidence=Confidence.MEDIUM,
        example="RuntimeError: CUDA error: an illegal instruction was encountered",
    ),
)

SHAPE_RULES = (
    Rule(
        Code.TP_NOT_DIVISIBLE,
        any_of(
            r"is not divisible by|not evenly divisible|not divisible\b",
            r"must be divisible by",
            r"cannot be (?:evenly )?(?:divided|split)",
            r"not a multiple of",
        ),
        unless=any_of(r"page[_ ]size|chunked_prefill_size|number of nodes|nnodes|dp_size|num_groups"),
        example="ValueError: Weight input_size_per_partition = 14784 is not divisible by min_thread_k = 128.",
    ),
    Rule(
        Code.TP_NOT_DIVISIBLE,
        any_of(r"^AssertionError\s*\Z"),
        near=any_of(r"> .{0,300}% (?:self\.)?\w*(?:tp_size|world_size|tp_rank|num_partitions|attn_tp)\w* == 0"),
    ),
    Rule(
        Code.ATTENTION_BACKEND_UNSUPPORTED,
        any_of(
            r"failed to dispatch|Dispatched'",
            r"Batch(?:Prefill|Decode|MLA)\w*.{0,300}(?:[Ii]nvalid|[Uu]nsupported|failed|not support)",
            r"(?:head_?dim|head size|head_size|nhead|num_heads|qo_heads|num_qo_heads|group size|gqa)\b.{0,60}"
            r"(?:not supported|unsupported|must be|is too large|invalid)",
            r"(?:[Uu]nsupported|[Ii]nvalid|only supports?).{0,40}(?:head[ _]?dim|head[ _]size|num_heads)",
            r"FlashAttention.{0,40}(?:only supports|requires|does not support|forward only)",
            r"[Aa]ttention backend.{0,80}(?:not supported|does not support|unsupported|not compatible)",
            r"(?:kv[-_ ]cache|KV cache) d?type.{0,60}(?:not supported|unsupported)",
        ),
        example="AssertionError: nhead=8 not supported",
    ),
)

QUANTIZATION_RULES = (
    Rule(
        Code.UNSUPPORTED_QUANTIZATION,
        any_of(
            r"Unknown quantization method|Invalid quantization method|[Uu]nsupported quantization",
            r"[Qq]uantization method .{0,200}(?:not supported|does not match|not available|is not implemented)",
            r"is not supported for (?:quantization method|the current GPU)",
            r"[Nn]o (?:compressed-tensors|quark|\w+) compatible scheme",
            r"_OpNamespace.{0,60}(?:awq|gptq|marlin|fp8|fp4|int8|int4|quant|gguf|ggml|bnb|scaled|cutlass)",
            r"(?:awq|gptq|marlin|bitsandbytes|gguf|nvfp4|mxfp4|fp4|fp8|int4|w4a\d+|w8a8)\b.{0,60}"
            r"(?:is not supported|not supported|unsupported|requires|is not available|not implemented|is not defined)",
            r"[Uu]nsupported .{0,40}(?:quant|scheme|bits|group_size|strategy)",
            r"weight_block_size|quant_method",
        ),
        example="AttributeError: '_OpNamespace' 'sgl_kernel' object has no attribute 'awq_dequantize'",
    ),
    Rule(
        Code.UNSUPPORTED_QUANTIZATION,
        any_of(r"^NotImplementedError\b", r"^NameError: name '\w+' is not defined"),
        near=any_of(r"layers/quantization/", r"quantization_config"),
        confidence=Confidence.MEDIUM,
        example="NameError: name 'check_marlin_supported' is not defined",
    ),
)

TOOLCHAIN_RULES = (
    Rule(
        Code.JIT_COMPILE_FAILURE,
        any_of(
            r"[Nn]inja is required|[Nn]inja build failed|ninja: build stopped|\['ninja'",
            r"Error (?:building|compiling) (?:extension|objects)",
            r"Could not find nvcc|nvcc fatal|nvcc: (?:not found|command not found)",
            r"CUDA_HOME environment variable is not set",
            r"CompilationError|CppCompileError|PTXASError|NVRTCError|nvrtc: error|HIPRTC",
            r"(?:NVCC|nvcc|hipcc|kernel|JIT|ptxas|nvrtc|Triton|triton) (?:compilation|compile|build)\b.{0,20}[Ff]ail",
            r"[Ff]ailed to (?:JIT|build|compile)\b|failed jit build|build \[module_\w+\].{0,80}fail",
            r"fatal error: \S+\.(?:h|cuh|hpp)\b|Python\.h",
            r"Failed to find C compiler|C\+\+ compiler .{0,40}not (?:found|work)",
            r"No such file or directory: '(?:[^']*/)?(?:nvcc|ninja|gcc|g\+\+|cc|c\+\+|hipcc|clang\+*|ptxas)'",
            r"CalledProcessError: Command '.{0,200}(?:ninja|nvcc|gcc|g\+\+|clang|hipcc|/cc\b|cl\.exe)",
            r"ptxas (?:fatal|error)",
            r"assert.{0,60}\bnvcc\b",
        ),
        kinds=_LOUD,
        example="RuntimeError: Ninja is required to load C++ extensions",
    ),
)

COMPILER_RULES = (
    Rule(
        Code.JIT_COMPILE_FAILURE,
        any_of(r"^LLVM ERROR: ", r"/mlir/.{0,300}Assertion .{0,300}failed", r"failed jit build \["),
        kinds=_NOTICE,
        confidence=Confidence.MEDIUM,
        example="LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.shfl.sync.bfly.i32",
    ),
    Rule(
        Code.JIT_COMPILE_FAILURE,
        any_of(r"^(?:\w+\.)*(?:RuntimeError|AssertionError|FileNotFoundError|CalledProcessError|OSError)\b"),
        near=any_of(
            r"cpp_extension\.py", r"jit/(?:core|cpp_ext|compiler|env)\.py", r"deep_gemm/jit", r"triton/compiler/"
        ),
        confidence=Confidence.MEDIUM,
    ),
    Rule(
        Code.TORCH_COMPILE_FAILURE,
        any_of(
            r"torch\._dynamo\.exc|torch\._inductor\.exc|BackendCompilerFailed|InductorError|LoweringException",
            r"torch\.compile.{0,60}(?:fail|error)",
            r"backend='inductor' raised",
        ),
        example="torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
    ),
    Rule(
        Code.TORCH_COMPILE_FAILURE,
        any_of(r"."),
        near=any_of(r"torch/_dynamo/", r"torch/_inductor/", r"torch/fx/experimental/"),
        confidence=Confidence.MEDIUM,
    ),
)

CHECKPOINT_RULES = (
    Rule(
        Code.CHECKPOINT_MISMATCH,
        _DOES_NOT_FIT,
        within=_LOADS,
        confidence=Confidence.MEDIUM,
        example="KeyError: 'model.layers.0.mlp.experts.w2_qweight'",
    ),
    Rule(
        Code.CHECKPOINT_MISMATCH,
        _NAMES_A_TENSOR,
        confidence=Confidence.MEDIUM,
    ),
)

WARMUP_RULES = (
    Rule(
        Code.WARMUP_HTTP_PROXY,
        any_of(
            r"<!DOCTYPE|<html", r"[Ss]quid", r"ProxyError|Tunnel connection failed|Cannot connect to proxy|via proxy"
        ),
        within=any_of(r"warmup", r"http_server\.py", r"server\.py"),
        example="AssertionError: res=<Response [503]>, res.text='<!DOCTYPE html PUBLIC ...",
    ),
    Rule(
        Code.WARMUP_FAILED,
        any_of(r"."),
        within=any_of(r"_wait_and_warmup", r"_execute_server_warmup", r"_wait_warmup", r"warmup error"),
        role=Role.COLLATERAL,
        example="Initialization failed. warmup error: Traceback (most recent call last):",
    ),
    Rule(
        Code.WARMUP_FAILED,
        any_of(r"Initialization failed\. warmup error"),
        kinds=frozenset(FaultKind),
        role=Role.COLLATERAL,
    ),
    Rule(
        Code.WATCHDOG_TIMEOUT,
        any_of(r"[Ww]atchdog timeout \((?!.{0,120}soft=True)"),
        kinds=_NOTICE,
        role=Role.COLLATERAL,
        example="[2026-01-01 00:00:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    ),
)

FLAG_RULES = (
    Rule(
        Code.INVALID_ARGUMENT,
        any_of(r"^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError): .{0,400}(?<![\w-])--[a-z][a-z0-9-]{3,}"),
        confidence=Confidence.MEDIUM,
        example="ValueError: Please set --chunked-prefill-size to a multiple of the page size.",
    ),
)

BUG_RULES = (
    Rule(
        Code.SOFTWARE_BUG,
        any_of(
            r"memory leak detected",
            r"when stream is capturing",
            r"Inplace update to inference tensor",
            r"cannot unpack non-iterable",
        ),
        confidence=Confidence.MEDIUM,
        example="ValueError: token_to_kv_pool_allocator memory leak detected!",
    ),
    Rule(
        Code.SOFTWARE_BUG,
        any_of(
            r"^(?:\w+\.)*(?:AttributeError|TypeError|NameError|UnboundLocalError|IndexError|KeyError|AssertionError)\b",
            r"^(?:\w+\.)*(?:ZeroDivisionError|RecursionError|NotImplementedError)\b",
            r"shapes cannot be multiplied|must match the size of tensor",
            r"[Ee]xpected all tensors to be on the same device",
            r"index \S+ (?:is )?out of (?:range|bounds)|expected scalar type|shape '\[[\d, -]+\]' is invalid",
        ),
        confidence=Confidence.MEDIUM,
        example="AttributeError: 'Scheduler' object has no attribute 'token_to_kv_pool'",
    ),
)

CONSEQUENCE_RULES = (
    Rule(
        Code.CHILD_PROCESS_DIED,
        any_of(
            r"^Subprocess \S+ \(pid=\d+\) crashed with exit code",
            r"^Child process unexpectedly failed",
            r"scheduler died during initialization|^Rank \d+ scheduler is dead|^Exit code: -\d+",
            r"^Scheduler or DataParallelController \d+ terminated",
        ),
        kinds=_NOTICE,
        role=Role.CONSEQUENCE,
        example="Subprocess scheduler_0 (pid=27306) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
    ),
    Rule(
        Code.CHILD_PROCESS_DIED,
        any_of(r"^EOFError\b", r"^(?:\w+\.)*(?:BrokenPipeError|ConnectionResetError|SystemExit|KeyboardInterrupt)\b"),
        role=Role.CONSEQUENCE,
    ),
    Rule(
        Code.CHILD_PROCESS_DIED,
        any_of(r"scheduler died during initialization|Initialization failed\. Please see the error messages above"),
        role=Role.CONSEQUENCE,
    ),
    Rule(
        Code.CHILD_PROCESS_DIED,
        any_of(
            r"[Rr]eceived sigquit from a child|SIGQUIT received|^Killed$|\b(?:Killed|Aborted|Segmentation fault) {2,}"
        ),
        kinds=_NOTICE,
        role=Role.CONSEQUENCE,
        confidence=Confidence.LOW,
    ),
)
