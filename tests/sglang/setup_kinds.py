"""Kinds of failure of arguments, packages, models and compilers, told in the words of the engine and its libraries."""

from service.sglang.failures import Code
from service.sglang.phases import Phase
from tests.sglang.kinds import CAPTURE, DRAFT, GRAPHS, QUANT, Kind, died, ended, said
from tests.sglang.lines import INIT, LOAD, LOOP, MAIN, SITE, SRT, sigquit, stamped

SETUP_KINDS = (
    said(
        Code.PORT_IN_USE, Phase.BINDING_HTTP, "ERROR:    [Errno 98] error while attempting to bind on address ('', 1)"
    ),
    ended(
        Code.DRAFT_CONTEXT_MISMATCH,
        Phase.LOADING_DRAFT_WEIGHTS,
        (f"{SRT}/configs/model_config.py __init__",),
        "ValueError: Warning: Target model's context_length (262144) is greater than the derived context_length "
        "(131072).",
    ),
    ended(
        Code.CONTEXT_LENGTH_TOO_LONG,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "ValueError: Warning: User-specified context_length (65536) is greater than the derived context_length (2048).",
    ),
    ended(
        Code.SPECULATIVE_ARGS_INCOMPLETE,
        Phase.PARSING_ARGUMENTS,
        (*MAIN, f"{SRT}/arg_groups/speculative_hook.py _handle_eagle_family"),
        "AssertionError",
        source="and cfg.speculative_num_draft_tokens is None",
    ),
    ended(
        Code.SPECULATIVE_ARGS_INCOMPLETE,
        Phase.PARSING_ARGUMENTS,
        (*MAIN, f"{SRT}/server_args.py __post_init__"),
        "AssertionError",
        source="self.speculative_eagle_topk is None",
    ),
    ended(
        Code.SPECULATIVE_ARGS_INCOMPLETE,
        Phase.PARSING_ARGUMENTS,
        (*MAIN, f"{SRT}/arg_groups/speculative_hook.py _handle_eagle_family"),
        "TypeError: '>' not supported between instances of 'NoneType' and 'int'",
    ),
    said(
        Code.INVALID_ARGUMENT,
        Phase.PARSING_ARGUMENTS,
        "sglang serve: error: unrecognized arguments: --num-speculative-tokens 5",
    ),
    ended(
        Code.INVALID_ARGUMENT,
        Phase.PARSING_ARGUMENTS,
        (*MAIN, f"{SRT}/server_args.py check_server_args"),
        "AssertionError: tp_size must be divisible by number of nodes",
    ),
    died(
        Code.INVALID_ARGUMENT,
        Phase.SPAWNING,
        INIT,
        "ValueError: Hierarchical cache cannot run here, please drop --enable-hierarchical-cache",
    ),
    ended(
        Code.DEPENDENCY_MISSING,
        Phase.SPAWNING,
        (f"{SRT}/models/qwen2_vl.py <module>",),
        "ModuleNotFoundError: No module named 'decord'",
    ),
    ended(
        Code.DEPENDENCY_VERSION_MISMATCH,
        Phase.SPAWNING,
        (f"{SRT}/layers/quantization/awq.py <module>", f"{SITE}/sgl_kernel/__init__.py <module>"),
        "ImportError: /env/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSsb",
    ),
    ended(
        Code.DEPENDENCY_VERSION_MISMATCH,
        Phase.SPAWNING,
        (f"{SRT}/utils/hf_transformers_utils.py <module>",),
        "ImportError: cannot import name 'AutoProcessor' from 'transformers' (/env/transformers/__init__.py)",
    ),
    ended(
        Code.DEPENDENCY_VERSION_MISMATCH,
        Phase.SPAWNING,
        (*MAIN, f"{SRT}/entrypoints/engine.py _set_envs_and_config", f"{SRT}/utils.py assert_pkg_version"),
        "Exception: flashinfer_python is installed with version 0.2.0, which is less than the minimum required "
        "version 0.2.5",
    ),
    died(
        Code.TOKENIZER_ERROR,
        Phase.SPAWNING,
        (*INIT, f"{SRT}/utils/hf_transformers_utils.py get_tokenizer"),
        "RuntimeError: Failed to load the tokenizer. If the tokenizer is a custom tokenizer, consider setting "
        "`trust_remote_code=True`",
    ),
    ended(
        Code.TRUST_REMOTE_CODE_REQUIRED,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__", f"{SITE}/transformers/dynamic_module_utils.py resolve"),
        "ValueError: The repository /models/m contains custom code which must be executed to correctly load the model. "
        "Please pass the argument `trust_remote_code=True`",
    ),
    ended(
        Code.HF_GATED_OR_OFFLINE,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "OSError: You are trying to access a gated repo.\nMake sure to have access to it at "
        "https://huggingface.co/x/y.\n"
        "401 Client Error. (Request ID: Root=1)",
    ),
    ended(
        Code.HF_GATED_OR_OFFLINE,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the "
        "cached files",
    ),
    ended(
        Code.MISSING_WEIGHTS,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "OSError: /models/m does not appear to have a file named config.json. Checkout "
        "'https://huggingface.co//models/m'",
    ),
    died(
        Code.MISSING_WEIGHTS,
        Phase.LOADING_WEIGHTS,
        LOAD,
        "RuntimeError: Cannot find any model weights with `/models/m`",
    ),
    ended(
        Code.MISSING_WEIGHTS,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "OSError: x/y is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'\n"
        "If this is a private repository, make sure to pass a token having permission to this repo",
    ),
    died(
        Code.UNSUPPORTED_ARCHITECTURE,
        Phase.LOADING_WEIGHTS,
        LOAD,
        "ValueError: Model architectures ['DeciLMForCausalLM'] are not supported for now. Supported architectures: "
        "dict_keys",
    ),
    ended(
        Code.UNSUPPORTED_ARCHITECTURE,
        Phase.RESOLVING_CONFIG,
        (*MAIN, f"{SRT}/configs/model_config.py __init__"),
        "AttributeError: 'Qwen9Config' object has no attribute 'hidden_size'",
    ),
    died(
        Code.UNSUPPORTED_QUANTIZATION,
        Phase.CAPTURING_GRAPHS,
        (*CAPTURE, f"{QUANT} apply"),
        "AttributeError: '_OpNamespace' 'sgl_kernel' object has no attribute 'awq_dequantize'",
    ),
    died(
        Code.UNSUPPORTED_QUANTIZATION,
        Phase.LOADING_WEIGHTS,
        (*LOAD, f"{SRT}/layers/quantization/compressed_tensors/schemes.py get_scheme"),
        "NotImplementedError: No compressed-tensors compatible scheme was found.",
    ),
    died(
        Code.UNSUPPORTED_QUANTIZATION,
        Phase.LOADING_WEIGHTS,
        LOAD,
        "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 80.",
    ),
    died(
        Code.TP_NOT_DIVISIBLE,
        Phase.LOADING_WEIGHTS,
        LOAD,
        "ValueError: Weight input_size_per_partition = 14784 is not divisible by min_thread_k = 128.",
    ),
    died(
        Code.TP_NOT_DIVISIBLE,
        Phase.LOADING_WEIGHTS,
        (*LOAD, f"{SRT}/models/llama.py __init__"),
        "AssertionError",
        source="assert self.total_num_heads % tp_size == 0",
    ),
    died(
        Code.ATTENTION_BACKEND_UNSUPPORTED,
        Phase.CAPTURING_GRAPHS,
        (*CAPTURE, "/opt/aiter/aiter/mla.py get_meta_param"),
        "AssertionError: nhead=8 not supported",
    ),
    died(
        Code.ATTENTION_BACKEND_UNSUPPORTED,
        Phase.WARMING_UP,
        LOOP,
        "RuntimeError: BatchPrefillWithPagedKVCachePyTorchWrapper::Forward(at::Tensor) failed to dispatch head_dim 80",
    ),
    died(
        Code.CHECKPOINT_MISMATCH,
        Phase.LOADING_WEIGHTS,
        (*LOAD, f"{SRT}/models/llama.py load_weights"),
        "KeyError: 'lm_head.weight'",
    ),
    died(
        Code.CHECKPOINT_MISMATCH,
        Phase.LOADING_WEIGHTS,
        (*LOAD, f"{SRT}/layers/linear.py weight_loader"),
        "AssertionError",
        source="assert param_data.shape == loaded_weight.shape",
    ),
    died(
        Code.DRAFT_MODEL_MISMATCH,
        Phase.LOADING_DRAFT_WEIGHTS,
        (*DRAFT, f"{SRT}/models/qwen2.py load_weights"),
        "KeyError: 'layers.0.self_attn.qkv_proj.weight'",
    ),
    died(
        Code.DRAFT_MODEL_MISMATCH,
        Phase.LOADING_DRAFT_WEIGHTS,
        (*LOAD, f"{SRT}/models/deepseek_nextn.py load_weights"),
        "RuntimeError: The size of tensor a (3584) must match the size of tensor b (7168) at non-singleton dimension 1",
    ),
    died(
        Code.DRAFT_MODEL_MISMATCH,
        Phase.LOADING_DRAFT_WEIGHTS,
        (*LOAD, f"{SRT}/model_loader/weight_utils.py default_weight_loader"),
        "AssertionError: Attempted to load weight (torch.Size([2048, 6144])) into parameter (torch.Size([2048, 4096]))",
    ),
    died(
        Code.DRAFT_MODEL_MISMATCH,
        Phase.CAPTURING_GRAPHS,
        INIT,
        "AttributeError: 'GptOssForCausalLM' object has no attribute 'set_eagle3_layers_to_capture'",
    ),
    died(
        Code.SPECULATIVE_RUNTIME_BUG,
        Phase.SERVING,
        (*LOOP, f"{SRT}/speculative/eagle_worker.py verify"),
        "RuntimeError: CUDA error: an illegal instruction was encountered",
    ),
    died(
        Code.JIT_COMPILE_FAILURE,
        Phase.CAPTURING_GRAPHS,
        CAPTURE,
        GRAPHS.format("Ninja is required to load C++ extensions"),
    ),
    died(
        Code.JIT_COMPILE_FAILURE,
        Phase.CAPTURING_GRAPHS,
        (*CAPTURE, f"{SITE}/torch/utils/cpp_extension.py _run_ninja_build"),
        "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.",
    ),
    died(
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
    said(
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
    died(
        Code.SOFTWARE_BUG, Phase.SERVING, LOOP, "AttributeError: 'Scheduler' object has no attribute 'token_to_kv_pool'"
    ),
    died(Code.SOFTWARE_BUG, Phase.SERVING, LOOP, "ValueError: token_to_kv_pool_allocator memory leak detected!"),
    died(Code.UNKNOWN, Phase.SERVING, LOOP, "RuntimeError: the flux capacitor lost its flux"),
    said(
        Code.CHILD_PROCESS_DIED,
        Phase.SERVING,
        stamped(55, "Subprocess scheduler_0 (pid=27306) crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
    ),
)
