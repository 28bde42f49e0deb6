"""All rules in the order in which they are tried: what is precise and deep comes before what is general."""

from service.sglang.failures.rule import Rule
from service.sglang.failures.rules_devices import (
    DRIVER_RULES,
    HARDWARE_RULES,
    NATIVE_RULES,
    RANK_RULES,
    TRANSFER_RULES,
)
from service.sglang.failures.rules_memory import (
    BUSY_RULES,
    FILE_RULES,
    GPU_MEMORY_RULES,
    HOST_KILL_RULES,
    SEGMENT_RULES,
)
from service.sglang.failures.rules_model import (
    BUG_RULES,
    CHECKPOINT_RULES,
    COMPILER_RULES,
    CONSEQUENCE_RULES,
    DRAFT_RULES,
    FLAG_RULES,
    QUANTIZATION_RULES,
    SHAPE_RULES,
    TOOLCHAIN_RULES,
    WARMUP_RULES,
)
from service.sglang.failures.rules_setup import (
    ABI_RULES,
    ARGUMENT_RULES,
    HUB_RULES,
    MODEL_RULES,
    NAMED_TOKENIZER_RULES,
    PACKAGE_RULES,
    PORT_RULES,
    REMOTE_CODE_RULES,
    TOKENIZER_RULES,
)

RULES: tuple[Rule, ...] = (
    *PORT_RULES,
    *HARDWARE_RULES,
    *HOST_KILL_RULES,
    *SEGMENT_RULES,
    *GPU_MEMORY_RULES,
    *ARGUMENT_RULES,
    *DRIVER_RULES,
    *TRANSFER_RULES,
    *RANK_RULES,
    *FILE_RULES,
    *TOOLCHAIN_RULES,
    *NAMED_TOKENIZER_RULES,
    *REMOTE_CODE_RULES,
    *ABI_RULES,
    *DRAFT_RULES,
    *NATIVE_RULES,
    *SHAPE_RULES,
    *QUANTIZATION_RULES,
    *PACKAGE_RULES,
    *HUB_RULES,
    *MODEL_RULES,
    *TOKENIZER_RULES,
    *COMPILER_RULES,
    *CHECKPOINT_RULES,
    *BUSY_RULES,
    *WARMUP_RULES,
    *CONSEQUENCE_RULES,
    *FLAG_RULES,
    *BUG_RULES,
)
