"""How `Eagle3DeepseekV2ForCausalLM` (0.5.16 and later) takes a draft with latent attention (facts: drafts §2.4)."""

import re
from collections.abc import Iterator

from service.sglang.model_config import ModelConfig
from service.sglang.speculative.eagle3 import COUNT_LIMIT, DEFAULT_AUX_COUNT, layer_ids
from service.sglang.speculative.naming import FUSED, dropped
from service.sglang.speculative.weights import TOKEN_MAP, Dropped, Expected, Kind, Left, Loader, Need, Place, Shape
from service.sglang.versions import Version

CLASS_NAME = "Eagle3DeepseekV2ForCausalLM"
_FIRST_LAYER = re.compile(r"^layers\.0\.")
_LATENT = {"q_a_proj": "q_a", "kv_a_proj_with_mqa": "kv_a"}
"""Two tensors that are only taken as a pair, into one parameter."""
_PAIR = "fused_qkv_a_proj_with_mqa"


def mla_aux_count(config: ModelConfig) -> int:
    """Return how many hidden states `fc` takes: here a list of layers at the top level counts too."""
    ids = layer_ids(config) or config.whole_list("eagle_aux_hidden_state_layer_ids")
    return min(len(ids), COUNT_LIMIT) if ids else DEFAULT_AUX_COUNT


def eagle3_mla_loader(config: ModelConfig, release: Version) -> Loader:
    """Return how a draft with this configuration is loaded; the releases that have the class do it alike."""
    expected = tuple(_expected(config))
    parameters = frozenset(item.parameter for item in expected)
    return Loader(CLASS_NAME, release, expected, lambda name: _place(name, parameters))


def _place(name: str, parameters: frozenset[str]) -> Place | Dropped:
    """Follow the loader: `model.` goes before everything but the head, so a name that has it already is lost."""
    if name == "d2t" or name.endswith(".d2t"):
        return TOKEN_MAP
    if name == "t2d" or name.endswith(".t2d"):
        return Dropped("no release uses t2d", is_harmless=True)
    mapped = _FIRST_LAYER.sub("midlayer.", name)
    mapped = mapped if mapped.startswith("lm_head.") else f"model.{mapped}"
    for piece, fused, part in FUSED:
        if fused == ".gate_up_proj" and piece in mapped and mapped.replace(piece, fused) in parameters:
            return Place(mapped.replace(piece, fused), part)
    for piece, part in _LATENT.items():
        if piece in mapped:
            place = mapped.replace(piece, _PAIR)
            return Place(place, part) if place in parameters else dropped(name)
    return Place(mapped) if mapped in parameters else dropped(name)


def _expected(config: ModelConfig) -> Iterator[Expected]:
    hidden = config.whole("hidden_size")
    target = config.whole("target_hidden_size") or hidden
    count = mla_aux_count(config)
    yield _tensor("fc.weight", (hidden, _product(target, count)), Kind.SLICED_ROWS)
    if config.flag("bias"):
        yield _tensor("fc.bias", (hidden,), Kind.SLICED_ROWS)
    if config.flag("fc_norm") or config.flag("use_aux_norm"):
        for number in range(count):
            yield _tensor(f"fc_norm.{number}.weight", (target,), left=Left.ONES)
    yield from _attention(config, hidden)
    inner = config.whole("intermediate_size")
    for part in ("gate", "up"):
        fused = "model.midlayer.mlp.gate_up_proj.weight"
        name = f"layers.0.mlp.{part}_proj.weight"
        yield Expected(name, fused, (inner, hidden), Kind.PADDED_ROWS, Left.UNINITIALISED, part=part)
    yield _layer_tensor("mlp.down_proj.weight", (hidden, inner), Kind.PADDED_COLUMNS)
    for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        yield _layer_tensor(f"{norm}.weight", (hidden,), left=Left.ONES)
    yield _tensor("norm.weight", (hidden,), left=Left.ONES)
    is_shared = target == hidden
    vocabulary = config.whole("vocab_size")
    embedding_need = Need.OPTIONAL if is_shared else Need.REQUIRED
    yield _tensor("embed_tokens.weight", (vocabulary, hidden), need=embedding_need)
    if not config.flag("tie_word_embeddings"):
        is_borrowed = config.values.get("draft_vocab_size") is None
        rows = vocabulary if is_borrowed else config.whole("draft_vocab_size")
        need = Need.OPTIONAL if is_borrowed else Need.REQUIRED
        yield Expected("lm_head.weight", "lm_head.weight", (rows, hidden), Kind.PLAIN, Left.UNINITIALISED, need)


def _attention(config: ModelConfig, hidden: int | None) -> Iterator[Expected]:
    heads, q_rank, kv_rank = (config.whole(key) for key in ("num_attention_heads", "q_lora_rank", "kv_lora_rank"))
    nope, rope, value = (config.whole(key) for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    pair = f"model.midlayer.self_attn.{_PAIR}.weight"
    rows = {"q_a_proj": q_rank, "kv_a_proj_with_mqa": _sum(kv_rank, rope)}
    for name, part in _LATENT.items():
        file_name = f"layers.0.self_attn.{name}.weight"
        shape = (rows[name], _product(hidden, 2))
        yield Expected(file_name, pair, shape, Kind.PLAIN, Left.UNINITIALISED, part=part)
    yield _layer_tensor("self_attn.q_a_layernorm.weight", (q_rank,), left=Left.ONES)
    yield _layer_tensor("self_attn.kv_a_layernorm.weight", (kv_rank,), left=Left.ONES)
    q_rows, kv_rows = _product(heads, _sum(nope, rope)), _product(heads, _sum(nope, value))
    yield _layer_tensor("self_attn.q_b_proj.weight", (q_rows, q_rank), Kind.SLICED_ROWS)
    yield _layer_tensor("self_attn.kv_b_proj.weight", (kv_rows, kv_rank), Kind.SLICED_ROWS)
    yield _layer_tensor("self_attn.o_proj.weight", (hidden, _product(heads, value)), Kind.PADDED_COLUMNS)


def _tensor(
    name: str,
    shape: Shape,
    kind: Kind = Kind.PLAIN,
    *,
    left: Left = Left.UNINITIALISED,
    need: Need = Need.REQUIRED,
) -> Expected:
    return Expected(name, f"model.{name}", shape, kind, left, need)


def _layer_tensor(name: str, shape: Shape, kind: Kind = Kind.PLAIN, *, left: Left = Left.UNINITIALISED) -> Expected:
    return Expected(f"layers.0.{name}", f"model.midlayer.{name}", shape, kind, left)


def _product(count: int | None, size: int | None) -> int | None:
    return None if count is None or size is None else count * size


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
