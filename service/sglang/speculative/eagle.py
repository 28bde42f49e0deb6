"""How the EAGLE-1 and -2 classes for Llama and Qwen2 take a draft, in every release (facts: drafts §2.5)."""

from collections.abc import Iterator

from service.sglang.model_config import ModelConfig
from service.sglang.speculative.eagle3 import COUNT_LIMIT
from service.sglang.speculative.naming import FUSED, dropped
from service.sglang.speculative.weights import Dropped, Expected, Kind, Left, Loader, Need, Place
from service.sglang.versions import Version

_QWEN = "Qwen2ForCausalLMEagle"
_SKIPPED = ("rotary_emb.inv_freq", "rotary_emb.cos_cached", "rotary_emb.sin_cached", "projector")


def eagle_loader(config: ModelConfig, release: Version, *, class_name: str) -> Loader:
    """Return how a draft of this class is loaded."""
    expected = tuple(_expected(config, has_qkv_bias=class_name == _QWEN or config.flag("attention_bias")))
    parameters = frozenset(item.parameter for item in expected)
    return Loader(class_name, release, expected, lambda name: _place(name, parameters))


def _place(name: str, parameters: frozenset[str]) -> Place | Dropped:
    """Follow the loader: the head is left out, `model.` goes before the rest, even where it is already."""
    if "lm_head" in name:
        return Dropped("the head is always the target's", is_harmless=True)
    if any(piece in name for piece in _SKIPPED):
        return Dropped("it is computed, not loaded", is_harmless=True)
    mapped = f"model.{name}"
    for piece, fused, part in FUSED:
        place = mapped.replace(piece, fused)
        if piece in mapped and place in parameters:
            return Place(place, part)
    return Place(mapped) if mapped in parameters else dropped(name)


def _expected(config: ModelConfig, *, has_qkv_bias: bool) -> Iterator[Expected]:
    hidden, inner = config.whole("hidden_size"), config.whole("intermediate_size")
    wide = None if hidden is None else 2 * hidden
    yield Expected("fc.weight", "model.fc.weight", (hidden, wide), Kind.PLAIN, Left.RANDOM)
    yield Expected("fc.bias", "model.fc.bias", (hidden,), Kind.PLAIN, Left.RANDOM, Need.TOLERATED)
    embedding = (config.whole("vocab_size"), hidden)
    name = "embed_tokens.weight"
    yield Expected(name, f"model.{name}", embedding, Kind.PLAIN, Left.UNINITIALISED, Need.OPTIONAL)
    for number in range(min(config.whole("num_hidden_layers") or 1, COUNT_LIMIT)):
        prefix = f"layers.{number}."
        yield from _attention(config, prefix, hidden, has_bias=has_qkv_bias)
        for part in ("gate", "up"):
            fused = f"model.{prefix}mlp.gate_up_proj.weight"
            shape = (inner, hidden)
            name = f"{prefix}mlp.{part}_proj.weight"
            yield Expected(name, fused, shape, Kind.PADDED_ROWS, Left.UNINITIALISED, part=part)
        name = f"{prefix}mlp.down_proj.weight"
        yield Expected(name, f"model.{name}", (hidden, inner), Kind.PADDED_COLUMNS, Left.UNINITIALISED)
        norms = ("post_attention_layernorm",) if number == 0 else ("input_layernorm", "post_attention_layernorm")
        for norm in norms:
            name = f"{prefix}{norm}.weight"
            yield Expected(name, f"model.{name}", (hidden,), Kind.PLAIN, Left.ONES)


def _attention(config: ModelConfig, prefix: str, hidden: int | None, *, has_bias: bool) -> Iterator[Expected]:
    heads, kv_heads, dim = config.whole("num_attention_heads"), config.kv_heads, config.head_dim
    q_rows = None if heads is None or dim is None else heads * dim
    kv_rows = None if kv_heads is None or dim is None else kv_heads * dim
    fused = f"model.{prefix}self_attn.qkv_proj"
    for part, rows in (("q", q_rows), ("k", kv_rows), ("v", kv_rows)):
        name = f"{prefix}self_attn.{part}_proj"
        weight, shape = f"{fused}.weight", (rows, hidden)
        yield Expected(f"{name}.weight", weight, shape, Kind.SLICED_ROWS, Left.UNINITIALISED, part=part)
        if has_bias:
            bias = f"{fused}.bias"
            yield Expected(f"{name}.bias", bias, (rows,), Kind.SLICED_ROWS, Left.UNINITIALISED, part=part)
    name = f"{prefix}self_attn.o_proj.weight"
    yield Expected(name, f"model.{name}", (hidden, q_rows), Kind.PADDED_COLUMNS, Left.UNINITIALISED)
