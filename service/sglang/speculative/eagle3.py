"""How `LlamaForCausalLMEagle3` of each release takes an EAGLE-3 draft (facts: drafts §2.3)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.sglang.model_config import ModelConfig
from service.sglang.releases import V0_4_9, V0_5_10, V0_5_16, V0_5_23
from service.sglang.speculative.naming import FUSED, dropped
from service.sglang.speculative.weights import TOKEN_MAP, Dropped, Expected, Kind, Left, Loader, Need, Place
from service.sglang.versions import Version

CLASS_NAME = "LlamaForCausalLMEagle3"
MANY_LAYERS_SINCE = V0_5_16
DEFAULT_AUX_COUNT = 3
COUNT_LIMIT = 256
"""More layers or hidden states than this are not gone through: no draft has them, but a configuration may say so."""
LEGACY_NAMES: Mapping[str, str] = {
    "midlayer": "layers.0",
    "aux_norm_low": "fc_norm.0",
    "aux_norm_mid": "fc_norm.1",
    "aux_norm_high": "fc_norm.2",
}
"""Replaced anywhere in a name, from 0.5.16 on."""


@dataclass(frozen=True, slots=True)
class Eagle3Sizes:
    """The sizes of a draft by its configuration; None for one that is not stated."""

    config: ModelConfig
    release: Version

    @property
    def hidden(self) -> int | None:
        """Return the draft's own width."""
        return self.config.whole("hidden_size")

    @property
    def target_hidden(self) -> int | None:
        """Return the width of one hidden state of the target."""
        return self.config.whole("target_hidden_size") if self.config.has("target_hidden_size") else self.hidden

    @property
    def aux_count(self) -> int:
        """Return how many hidden states `fc` takes: always three before 0.5.16."""
        if self.release < V0_5_16:
            return DEFAULT_AUX_COUNT
        stated = self.config.whole("num_aux_hidden_states")
        if stated is not None:
            return min(stated, COUNT_LIMIT)
        return len(layer_ids(self.config) or ()) or DEFAULT_AUX_COUNT

    @property
    def draft_vocabulary(self) -> int | None:
        """Return the rows of the draft's head: the whole vocabulary when the key is null."""
        if self.config.values.get("draft_vocab_size") is None:
            return self.config.whole("vocab_size")
        return self.config.whole("draft_vocab_size")

    @property
    def layer_count(self) -> int:
        """Return the number of layers, one when it is not stated, and before 0.5.16, which has no more."""
        stated = self.config.whole("num_hidden_layers") or 1
        return min(stated, COUNT_LIMIT) if self.release >= MANY_LAYERS_SINCE else 1

    @property
    def uses_aux(self) -> bool:
        """Tell whether `fc` is used: `use_aux_hidden_state: false` is honoured from 0.5.10 on."""
        eagle = self.config.section("eagle_config")
        is_off = eagle is not None and eagle.has("use_aux_hidden_state") and not eagle.flag("use_aux_hidden_state")
        return not is_off or self.release < V0_5_10

    @property
    def normalises_before_fc(self) -> bool:
        """Tell whether there is an `input_norm`: read from `eagle_config` first, in 0.5.23 and later."""
        eagle = self.config.section("eagle_config")
        source = eagle if eagle is not None and eagle.has("norm_before_fc") else self.config
        return self.release >= V0_5_23 and source.flag("norm_before_fc")

    @property
    def has_fc_norm(self) -> bool:
        """Tell whether there is one norm for each hidden state, from 0.5.16 on."""
        return self.release >= V0_5_16 and (self.config.flag("fc_norm") or self.config.flag("use_aux_norm"))

    @property
    def shares_embedding(self) -> bool:
        """Tell whether the target's embedding replaces the draft's."""
        return not self.config.has("target_hidden_size") or self.target_hidden == self.hidden


def layer_ids(config: ModelConfig) -> tuple[int, ...] | None:
    """Return the layers that the target captures: only `eagle_config` counts, a list at the top level is ignored."""
    eagle = config.section("eagle_config")
    return eagle.whole_list("eagle_aux_hidden_state_layer_ids") if eagle else None


def eagle3_loader(config: ModelConfig, release: Version) -> Loader:
    """Return how this release loads a draft with this configuration."""
    expected = tuple(_expected(Eagle3Sizes(config, release)))
    parameters = frozenset(item.parameter for item in expected)
    return Loader(CLASS_NAME, release, expected, lambda name: _place(name, parameters, release))


def _place(name: str, parameters: frozenset[str], release: Version) -> Place | Dropped:
    """Follow the steps of the loader: legacy names, token maps, fused parts, then the name with or without `model.`."""
    new = name
    if release >= V0_5_16:
        for legacy, modern in LEGACY_NAMES.items():
            new = new.replace(legacy, modern)
    if "d2t" in new:
        return TOKEN_MAP
    if "t2d" in new:
        return Dropped("no release uses t2d", is_harmless=True)
    for piece, fused, part in FUSED:
        if piece in new:
            place = _find(new.replace(piece, fused), parameters)
            return Place(place, part) if place else dropped(name)
    place = _find(new, parameters)
    return Place(place) if place else dropped(name)


def _find(name: str, parameters: frozenset[str]) -> str | None:
    return next((found for found in (name, f"model.{name}") if found in parameters), None)


def _expected(sizes: Eagle3Sizes) -> Iterator[Expected]:
    config, hidden, target = sizes.config, sizes.hidden, sizes.target_hidden
    wide = None if target is None else target * sizes.aux_count
    fc_need = Need.REQUIRED if sizes.uses_aux else Need.OPTIONAL
    yield _tensor("fc.weight", (hidden, wide), left=Left.RANDOM, need=fc_need)
    if config.flag("bias"):
        yield _tensor("fc.bias", (hidden,), left=Left.RANDOM, need=fc_need)
    if sizes.normalises_before_fc:
        yield _tensor("input_norm.weight", (wide,), left=Left.ONES)
    if sizes.has_fc_norm:
        for number in range(sizes.aux_count):
            yield _tensor(f"fc_norm.{number}.weight", (target,), left=Left.ONES)
    for number in range(sizes.layer_count):
        yield from _layer(sizes, number)
    yield _tensor("norm.weight", (hidden,), left=Left.ONES)
    embedding_need = Need.OPTIONAL if sizes.shares_embedding else Need.REQUIRED
    yield _tensor("embed_tokens.weight", (config.whole("vocab_size"), hidden), need=embedding_need)
    if not config.flag("tie_word_embeddings"):
        is_borrowed = config.values.get("draft_vocab_size") is None and sizes.release > V0_4_9
        head_need = Need.OPTIONAL if is_borrowed else Need.REQUIRED
        head_shape = (sizes.draft_vocabulary, hidden)
        yield Expected("lm_head.weight", "lm_head.weight", head_shape, Kind.PLAIN, Left.UNINITIALISED, head_need)


def _layer(sizes: Eagle3Sizes, number: int) -> Iterator[Expected]:
    """Yield a layer: the first takes embedding and hidden state side by side, so it is twice as wide."""
    config, hidden = sizes.config, sizes.hidden
    prefix, model = _layer_names(sizes, number)
    heads, kv_heads, dim = config.whole("num_attention_heads"), config.kv_heads, config.head_dim
    width = None if hidden is None else hidden * (2 if number == 0 else 1)
    is_llama4 = config.values.get("model_type") == "llama4_text"
    inner = config.whole("intermediate_size_mlp" if is_llama4 else "intermediate_size")
    q_rows, kv_rows = _product(heads, dim), _product(kv_heads, dim)
    attention = f"{model}self_attn."
    for part, rows in (("q", q_rows), ("k", kv_rows), ("v", kv_rows)):
        name = f"{prefix}self_attn.{part}_proj.weight"
        fused = f"{attention}qkv_proj.weight"
        yield Expected(name, fused, (rows, width), Kind.SLICED_ROWS, Left.UNINITIALISED, part=part)
    yield _named(prefix, model, "self_attn.o_proj.weight", (hidden, q_rows), Kind.PADDED_COLUMNS)
    if config.flag("attention_bias") or config.flag("bias"):
        name = f"{prefix}self_attn.o_proj.bias"
        left, need = Left.UNINITIALISED, Need.TOLERATED
        yield Expected(name, f"{attention}o_proj.bias", (hidden,), Kind.PLAIN, left, need)
    for part in ("gate", "up"):
        name, fused = f"{prefix}mlp.{part}_proj.weight", f"{model}mlp.gate_up_proj.weight"
        yield Expected(name, fused, (inner, hidden), Kind.PADDED_ROWS, Left.UNINITIALISED, part=part)
    yield _named(prefix, model, "mlp.down_proj.weight", (hidden, inner), Kind.PADDED_COLUMNS)
    for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        unused = "hidden_norm" if number == 0 and not sizes.uses_aux else "input_layernorm" if number > 0 else ""
        need = Need.OPTIONAL if norm == unused else Need.REQUIRED
        yield Expected(f"{prefix}{norm}.weight", f"{model}{norm}.weight", (hidden,), Kind.PLAIN, Left.ONES, need)


def _layer_names(sizes: Eagle3Sizes, number: int) -> tuple[str, str]:
    """Return the prefix of a layer in files and in the model. `midlayer` loads in every release, for one layer."""
    in_file = "midlayer." if sizes.layer_count == 1 else f"layers.{number}."
    return in_file, "model.midlayer." if sizes.release < V0_5_16 else f"model.layers.{number}."


def _tensor(
    name: str, shape: tuple[int | None, ...], *, left: Left = Left.UNINITIALISED, need: Need = Need.REQUIRED
) -> Expected:
    return Expected(name, f"model.{name}", shape, Kind.PLAIN, left, need)


def _named(prefix: str, model: str, name: str, shape: tuple[int | None, ...], kind: Kind) -> Expected:
    return Expected(f"{prefix}{name}", f"{model}{name}", shape, kind, Left.UNINITIALISED)


def _product(count: int | None, size: int | None) -> int | None:
    return None if count is None or size is None else count * size
