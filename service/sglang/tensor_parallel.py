"""Whether a model's heads and widths can be split over the GPUs that the arguments give."""

from collections.abc import Iterator

from service.sglang.checks import Finding, fail
from service.sglang.model_config import ModelConfig
from service.sglang.serving_arguments import ServingArguments

EXPERT_COUNTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
"""A model with one of these splits its experts in other ways, and may have no dense layer at all."""


def split_findings(config: ModelConfig, arguments: ServingArguments, *, subject: str) -> Iterator[Finding]:
    """Yield what does not divide. Each is a bare AssertionError in the engine (facts: drafts §5).

    Heads divide by the attention's share of the GPUs. Key-value heads divide by it, or are repeated when there are
    fewer than GPUs, which then must divide by them. A dense inner width divides by all GPUs.
    """
    split, tp_size = arguments.attention_tp_size, arguments.tp_size
    heads, kv_heads = config.whole("num_attention_heads"), config.kv_heads
    has_experts = any(config.has(name) for name in EXPERT_COUNTS)
    inner = None if has_experts else config.whole("intermediate_size")
    if heads and heads % split:
        yield fail(f"{subject} has {heads} heads, which do not divide by {split} GPUs", _sizes(heads, kv_heads))
    elif kv_heads and not config.has("kv_lora_rank") and (kv_heads % split if kv_heads >= split else split % kv_heads):
        text = f"{subject} has {kv_heads} key-value heads, which can neither be split over {split} GPUs nor repeated"
        yield fail(text, _sizes(heads, kv_heads))
    if inner and inner % tp_size and not arguments.has_dp_attention:
        text = f"{subject} has an intermediate size of {inner}, which does not divide by {tp_size} GPUs"
        yield fail(text, "give another --tp-size")


def _sizes(heads: int | None, kv_heads: int | None) -> str:
    """Return the sizes up to 64 that would do."""
    fit = [
        size
        for size in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
        if (not heads or heads % size == 0)
        and (not kv_heads or (kv_heads % size if kv_heads >= size else size % kv_heads) == 0)
    ]
    return f"give a --tp-size of {', '.join(map(str, fit))}"
