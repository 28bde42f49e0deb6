"""Names of tensors: the parts that the engine fuses, and why a name that it does not know is dropped."""

import re

from service.sglang.speculative.weights import Dropped

FUSED = (
    (".q_proj", ".qkv_proj", "q"),
    (".k_proj", ".qkv_proj", "k"),
    (".v_proj", ".qkv_proj", "v"),
    (".gate_proj", ".gate_up_proj", "gate"),
    (".up_proj", ".gate_up_proj", "up"),
)
"""Piece of a name, what it becomes, and which part of the fused parameter it is; the first that fits counts."""

_REASONS = (
    (re.compile(r"\.[qk]_norm\."), "the class does not normalise q and k"),
    (re.compile(r"(rotary_emb|inv_freq)"), ""),
    (re.compile(r"^(draft_model|module)\."), "it has the prefix of a trainer's state"),
    (re.compile(r"(^|\.)verifier_"), "it is a copy from the target"),
    (re.compile(r"parallel_draft_heads"), "the class has no parallel heads"),
    (re.compile(r"(^|\.)input_norm\."), "needs norm_before_fc in the configuration and SGLang 0.5.23 or later"),
    (re.compile(r"(^|\.)(fc_norm|aux_norm)"), "needs fc_norm in the configuration and SGLang 0.5.16 or later"),
    (re.compile(r"scale"), "a scale has no place in a layer that is not quantised"),
    (re.compile(r"\.bias$"), "the class has no bias there"),
)


def dropped(name: str) -> Dropped:
    """Return why a tensor of this name is dropped, as far as its name tells."""
    for pattern, why in _REASONS:
        if pattern.search(name):
            return Dropped(why or "it is computed, not loaded", is_harmless=not why)
    return Dropped("the class has no parameter of this name")
