"""Rules for arguments, installed packages, model files and the hub: what is wrong before a GPU does any work.

Facts: SGLang §5 #1-#3, #10-#33, #46-#48, #59-#61; [ext] texts of transformers, huggingface_hub and torch.
"""

from service.sglang.failures.codes import Code
from service.sglang.failures.rule import Confidence, Rule
from service.sglang.faults import FaultKind
from service.sglang.patterns import any_of
from service.sglang.phases import Phase

_ANY = frozenset(FaultKind)
_NOTICE = frozenset({FaultKind.NOTICE})
_ARGUMENT_CODE = any_of(
    r"(?:server_args\.py|arg_groups/\w+\.py|\w+_hook\.py|validation_hook\.py|server_args_config_parser\.py)[^\n/]*"
    r"(?:\n> [^\n]*)?\Z"
)
"""The innermost frame is the engine's own check of its arguments."""

PORT_RULES = (
    Rule(
        Code.PORT_IN_USE,
        any_of(
            r"error while attempting to bind on address",
            r"\[Errno 98\]|EADDRINUSE",
            r"[Aa]ddress already in use",
            r"[Pp]ort (?:\d+ )?is already in use",
            r"at \d+ is not available in \d+ seconds",
        ),
        kinds=_ANY,
        example="ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address "
        "already in use",
    ),
)

ARGUMENT_RULES = (
    Rule(
        Code.DRAFT_CONTEXT_MISMATCH,
        any_of(r"Target model's context_length \(\d+\) is greater than"),
        example="ValueError: Warning: Target model's context_length (262144) is greater than the derived "
        "context_length (131072).",
    ),
    Rule(
        Code.CONTEXT_LENGTH_TOO_LONG,
        any_of(
            r"User-specified context_length \(\d+\) is greater than",
            r"context[_ -]?length .{0,60}(?:exceeds|longer than)",
        ),
        example="ValueError: Warning: User-specified context_length (65536) is greater than the derived "
        "context_length (2048).",
    ),
    Rule(
        Code.SPECULATIVE_ARGS_INCOMPLETE,
        any_of(r"^AssertionError\s*\Z"),
        near=any_of(r"speculative_hook", r"_handle_eagle", r"_handle_spec\w*", r"> .{0,200}speculative_(?:num|eagle)"),
        example="AssertionError",
    ),
    Rule(
        Code.SPECULATIVE_ARGS_INCOMPLETE,
        any_of(r"'[<>]=?' not supported between instances of '(?:NoneType|int)' and '(?:NoneType|int)'"),
        near=any_of(r"speculative_hook", r"_handle_spec\w*", r"auto_choose_speculative", r"> .{0,200}speculative_"),
        example="TypeError: '>' not supported between instances of 'NoneType' and 'int'",
    ),
    Rule(
        Code.INVALID_ARGUMENT,
        any_of(r"(?:launch_server\.py|sglang serve|sglang): error: "),
        kinds=_NOTICE,
        example="sglang serve: error: unrecognized arguments: --num-speculative-tokens 5",
    ),
    Rule(
        Code.INVALID_ARGUMENT,
        any_of(
            r"Unknown speculative algorithm",
            r"Unsupported config option",
            r"Config file (?:not found|must be)|Multiple config files",
            r"must be divisible by number of nodes",
            r"served_model_name cannot contain",
            r"are not supported; use|rejected because|mutually exclusive",
            r"cannot be (?:used|combined|set) (?:together|with)",
        ),
        example="ValueError: Unknown speculative algorithm name: EAGLE5",
    ),
    Rule(
        Code.INVALID_ARGUMENT,
        any_of(r"^(?:\w+\.)*(?:ValueError|AssertionError|NotImplementedError|AttributeError|argparse\.\w+Error)\b"),
        near=_ARGUMENT_CODE,
        confidence=Confidence.MEDIUM,
    ),
)

ABI_RULES = (
    Rule(
        Code.DEPENDENCY_VERSION_MISMATCH,
        any_of(
            r"undefined symbol",
            r"minimum required version",
            r"less than the minimum required",
            r"Could not load any common_ops",
            r"lib(?:cudart|cublas\w*|cudnn|nvrtc|nccl|cusparse\w*|nvJitLink|c10\w*|torch\w*)\.so\S*: cannot open",
            r"version `(?:GLIBC|GLIBCXX|CXXABI)_\S+' not found",
            r"numpy\.dtype size changed|numpy\.ndarray size changed|compiled using NumPy 1",
            r"VersionConflict|DistributionNotFound",
            r"detected CUDA version .{0,60}mismatches the version",
            r"is already used by a Transformers config",
            r"Auto\w+\.register\(\) got",
            r"(?:requires?d?|needs) (?:\w+ )?(?:version )?(?:transformers|torch|flashinfer|sgl[-_]kernel)\s?[<>=]=?",
            r"No module named '(?:transformers|torch|sgl_kernel|flashinfer|triton|vllm|numpy|xgrammar|torchao)\.",
            r"operator \S+ does not exist",
        ),
        example="ImportError: sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSsb",
    ),
)

PACKAGE_RULES = (
    Rule(
        Code.DEPENDENCY_VERSION_MISMATCH,
        any_of(
            r"cannot import name '?\w+",
            r"partially initialized module",
            r"^AttributeError: module '(?!sglang)[\w.]+' has no attribute",
        ),
        confidence=Confidence.MEDIUM,
        unless=any_of(r"quantization"),
        example="ImportError: cannot import name 'GlmAsrConfig' from 'transformers'",
    ),
    Rule(
        Code.DEPENDENCY_MISSING,
        any_of(
            r"No module named",
            r"ModuleNotFoundError",
            r"PackageNotFoundError",
            r"requires the following packages|[Pp]lease (?:pip )?install|is not installed",
        ),
        unless=any_of(r"[Nn]inja|nvcc|compiler", r"model type|architecture"),
        example="ModuleNotFoundError: No module named 'decord'",
    ),
    Rule(
        Code.DEPENDENCY_VERSION_MISMATCH,
        any_of(
            r"got (?:multiple values|an unexpected keyword)",
            r"takes \d+ positional|missing \d+ required",
            r"has no attribute",
        ),
        near=any_of(r"(?<!launch_server\.py )<module>(?:\n[^\n>]*)?\n> "),
        confidence=Confidence.MEDIUM,
        example="TypeError: AutoImageProcessor.register() got multiple values for argument 'exist_ok'",
    ),
)

NAMED_TOKENIZER_RULES = (
    Rule(
        Code.TOKENIZER_ERROR,
        any_of(
            r"Failed to load the tokenizer",
            r"Can't load tokenizer",
            r"Couldn't instantiate the backend tokenizer",
            r"Tokenizer class \S+ does not exist",
            r"data did not match any variant of untagged enum",
            r"(?:tokenizer\.json|tokenizer\.model|vocab\.json|merges\.txt|tokenizer_config\.json).{0,80}"
            r"(?:No such file|not found|does not exist)",
            r"No such file or directory: '[^']*(?:tokenizer|vocab|merges)[^']*'",
        ),
        example="RuntimeError: Failed to load the tokenizer.",
    ),
)

TOKENIZER_RULES = (
    Rule(
        Code.TOKENIZER_ERROR,
        any_of(r"."),
        near=any_of(r"tokenization_\w+\.py", r"tokenizers/", r"sentencepiece/", r"tokenizer\.py get_tokenizer"),
        confidence=Confidence.MEDIUM,
        unless=any_of(
            r"trust_remote_code",
            r"huggingface\.co",
            r"Repo id must",
            r"path_or_model_id",
            r"gated repo",
            r"No module named",
            r"model type",
        ),
    ),
)

REMOTE_CODE_RULES = (
    Rule(
        Code.TRUST_REMOTE_CODE_REQUIRED,
        any_of(
            r"contains custom code which must be executed",
            r"set the (?:option|argument) `trust_remote_code=True`",
            r"[Pp]lease pass the argument `trust_remote_code=True`",
            r"requires you to execute the .{0,60}file in that repo",
            r"add `?--trust-remote-code",
        ),
        example="ValueError: The repository contains custom code which must be executed to correctly load the model. "
        "Please pass the argument `trust_remote_code=True`",
    ),
)

HUB_RULES = (
    Rule(
        Code.HF_GATED_OR_OFFLINE,
        any_of(
            r"OfflineModeIsEnabled|offline mode is enabled",
            r"access(?:ing)? a gated repo|Cannot access gated repo|GatedRepoError|awaiting a review from the repo",
            r"couldn't connect to '?https?://",
            r"LocalEntryNotFoundError",
            r"Cannot reach https?://",
            r"Name or service not known|[Tt]emporary failure in name resolution|Network is unreachable",
            r"(?:Max retries exceeded|ConnectTimeout|ReadTimeout|ProxyError|SSLError|ConnectionError).{0,200}"
            r"(?:huggingface|hf-mirror|modelscope)",
            r"(?:huggingface|hf-mirror|modelscope).{0,200}(?:Max retries exceeded|timed out|[Cc]onnection refused)",
            r"Invalid (?:user )?token|403 Client Error|429 Client Error|40[13] Forbidden",
        ),
        unless=any_of(r"is not a local folder and is not a valid model identifier"),
        example="huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/...: offline mode "
        "is enabled",
    ),
    Rule(
        Code.MISSING_WEIGHTS,
        any_of(
            r"is not a local folder and is not a valid model identifier",
            r"Incorrect path_or_model_id",
            r"Repo id must (?:be|use|contain)|HFValidationError",
            r"Cannot find any model weights",
            r"does not appear to have (?:a file|files) named",
            r"Error no file named",
            r"Can't load (?:the )?config(?:uration)? (?:of|for)",
            r"RepositoryNotFoundError|Repository Not Found|EntryNotFoundError|RevisionNotFoundError",
            r"No such file or directory: .[^'\"]*(?:config\.json|\.safetensors|\.bin|\.gguf|index\.json|\.pth?)['\"]",
            r"[Mm]odel path .{0,200}(?:does not exist|not found)",
            r"No (?:safetensors|weight|model) files? (?:were |was )?found",
        ),
        example="OSError: Incorrect path_or_model_id: '/data/models/not-there'. Please provide either the path to a "
        "local folder or the repo_id of a model on the Hub.",
    ),
    Rule(
        Code.HF_GATED_OR_OFFLINE,
        any_of(r"401 Client Error|HfHubHTTPError"),
        confidence=Confidence.MEDIUM,
    ),
)

MODEL_RULES = (
    Rule(
        Code.UNSUPPORTED_ARCHITECTURE,
        any_of(
            r"Model architectures .{0,200}are not supported",
            r"Cannot find model module|is not a registered model in the Transformers",
            r"does not recognize this architecture",
            r"Unrecognized (?:model in|configuration class)",
            r"has no SGLang implementation|is not supported by SGLang",
            r"No processor registered for architecture",
            r"Unsupported (?:model )?architectures?\b",
            r"\w+ForCausalLM.{0,40}(?:is|are) not supported",
        ),
        example="ValueError: Model architectures ['DeciLMForCausalLM'] are not supported for now.",
    ),
    Rule(
        Code.UNSUPPORTED_ARCHITECTURE,
        any_of(r"Config' object has no attribute"),
        phases=frozenset(
            {None, Phase.PARSING_ARGUMENTS, Phase.RESOLVING_CONFIG, Phase.SPAWNING, Phase.LOADING_WEIGHTS}
        ),
        confidence=Confidence.MEDIUM,
        example="AttributeError: 'Qwen2_5OmniConfig' object has no attribute 'hidden_size'",
    ),
    Rule(
        Code.UNSUPPORTED_ARCHITECTURE,
        any_of(r"^KeyError: '[\w.-]+'"),
        near=any_of(r"model_config\.py", r"configuration_auto\.py", r"hf_transformers", r"configuration_utils\.py"),
        phases=frozenset({None, Phase.PARSING_ARGUMENTS, Phase.RESOLVING_CONFIG, Phase.SPAWNING}),
        confidence=Confidence.MEDIUM,
    ),
)
