"""What a rank finds wrong by itself: files, devices and combinations that no script needs to name."""

from __future__ import annotations

from .console import Console
from .model_files import check_weights
from .resolution import EAGLE_FAMILY, Plan, context_error, context_warning, is_override_allowed
from .tracebacks import EngineError, Frame

ARCHITECTURES = frozenset(
    {
        "LlamaForCausalLM",
        "LlamaForCausalLMEagle3",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "GptOssForCausalLM",
        "Glm4MoeForCausalLM",
        "KimiK25ForConditionalGeneration",
        "Gemma3ForCausalLM",
    }
)
"""Model classes that the stand-in takes for known; the real list has some two hundred."""
AUXILIARY_TARGETS = frozenset(
    {
        "LlamaForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "GptOssForCausalLM",
        "Glm4MoeForCausalLM",
        "KimiK25ForConditionalGeneration",
    }
)
"""Targets that can capture the hidden states an EAGLE-3 draft reads."""


def check_target(plan: Plan) -> None:
    """Raise EngineError when the target cannot be loaded: class, division among ranks, files."""
    architecture = plan.model.architecture
    if architecture not in ARCHITECTURES:
        known = sorted(ARCHITECTURES)
        frame = Frame("sglang/srt/models/registry.py", 63, "_raise_for_unsupported", "raise ValueError(")
        raise EngineError(
            f"ValueError: Model architectures ['{architecture}'] are not supported for now. "
            f"Supported architectures: dict_keys({known})",
            [frame],
        )
    heads, size = plan.model.config.get("num_attention_heads", 1), plan.arguments.tp_size
    if heads % size:
        frame = Frame(
            "sglang/srt/distributed/utils.py", 70, "ensure_divisibility", "assert numerator % denominator == 0"
        )
        raise EngineError(f"AssertionError: {heads} is not divisible by {size}", [frame])
    check_weights(plan.model)


def check_draft(plan: Plan, console: Console) -> None:
    """Raise EngineError when the draft cannot be loaded: none given, a context too short, files, the target's class."""
    if plan.algorithm not in EAGLE_FAMILY:
        return
    if plan.draft is None:
        frame = Frame(
            "sglang/srt/speculative/eagle_worker_v2.py", 363, "__init__", "self.draft_runner.model.set_embed(embed)"
        )
        raise EngineError(f"AttributeError: '{plan.model.architecture}' object has no attribute 'set_embed'", [frame])
    wanted, allowed = plan.context_length, plan.draft.max_context
    if wanted > allowed:
        if not is_override_allowed():
            raise context_error("Target model's", wanted, allowed)
        console.warning(context_warning("Target model's", wanted, allowed))
        console.info(f"Overriding the draft model's max_position_embeddings to {wanted}.")
    check_weights(plan.draft)
    architecture = plan.model.architecture
    if plan.algorithm == "EAGLE3" and architecture not in AUXILIARY_TARGETS:
        raise EngineError(_no_capture(plan, architecture), [_capture_frame(plan)])


def natural_acceptance(plan: Plan) -> float:
    """Return the accept length that the draft's files deserve; 1.0 when the engine would silently use random weights.

    Up to 0.5.10 the loader knows the one layer as `midlayer.*` and drops `layers.0.*` without a word; a draft with
    its own vocabulary and no lm_head keeps a random one; and EAGLE, not EAGLE3, skips the draft's `fc`.
    """
    if plan.algorithm is None:
        return 1.0
    if plan.draft is None or plan.draft.path == plan.model.path:
        return 2.4
    names = plan.draft.tensor_names()
    is_eagle3 = "Eagle3" in plan.draft.architecture
    has_lost_layer = not plan.version.has_new_texts and any(
        name.startswith(("layers.", "model.layers.")) for name in names
    )
    has_lost_head = plan.draft.config.get("draft_vocab_size") is not None and not any(
        "lm_head" in name for name in names
    )
    if is_eagle3 and (has_lost_layer or has_lost_head or plan.algorithm == "EAGLE"):
        return 1.0
    return min(2.85, float(plan.arguments.speculative_num_draft_tokens or 1))


def _no_capture(plan: Plan, architecture: str) -> str:
    if plan.version.has_new_texts:
        return (
            f"AttributeError: Model {architecture} does not implement set_eagle3_layers_to_capture, which EAGLE3 aux "
            "hidden-state capture requires."
        )
    return f"AttributeError: '{architecture}' object has no attribute 'set_eagle3_layers_to_capture'"


def _capture_frame(plan: Plan) -> Frame:
    if plan.version.has_new_texts:
        file = "sglang/srt/model_executor/model_runner_components/attention_backend_setup.py"
        return Frame(file, 57, "init_aux_hidden_state_capture", "raise AttributeError(")
    file = "sglang/srt/model_executor/model_runner.py"
    return Frame(file, 681, "initialize", "self.model.set_eagle3_layers_to_capture(layer_ids)")
