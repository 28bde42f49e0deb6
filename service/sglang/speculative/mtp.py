"""Which tensors a draft layer that comes with its target needs, by draft class (facts: drafts §2.6).

The loaders take what has the prefix of the class and drop the rest without a word; only Ernie's raises when nothing is
there. So a repackaged target whose draft layer was left out loads cleanly, and every draft token is refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.sglang.model_config import ModelConfig
from service.sglang.model_files import Tensor

_FLOATS = frozenset({"BF16", "F16", "F32"})
_EXPERT = re.compile(r"experts\.(\d+)\.")
_WEIGHT_ENDING = re.compile(r"\.(weight_packed|qweight|weight)$")


@dataclass(frozen=True, slots=True)
class Scheme:
    """The names of one class. `{layer}` is the number of layers, or 0 in a directory that holds nothing but the draft.

    `joints` are what joins the layer to the target, each with its shape in units of the hidden size; `body` are pieces
    of names that the layer itself has.
    """

    prefix: str
    joints: Mapping[str, tuple[int, ...]]
    body: tuple[str, ...] = ("self_attn.", "mlp.")
    is_like_last_layer: bool = False
    """The layer is built like the target's last one, so its tensors can be compared with that."""
    needs_layer_count: bool = False
    """The configuration must say `num_nextn_predict_layers: 1`."""


_VECTOR, _JOINT = (1,), (1, 2)
_LAYER = "model.layers.{layer}."
_DEEPSEEK = Scheme(
    _LAYER,
    {
        "eh_proj.weight": _JOINT,
        "enorm.weight": _VECTOR,
        "hnorm.weight": _VECTOR,
        "shared_head.norm.weight": _VECTOR,
    },
    is_like_last_layer=True,
    needs_layer_count=True,
)
_FINAL_NORM = {
    "eh_proj.weight": _JOINT,
    "enorm.weight": _VECTOR,
    "hnorm.weight": _VECTOR,
    "final_layernorm.weight": _VECTOR,
}
_QWEN = Scheme(
    "mtp.",
    {
        "fc.weight": _JOINT,
        "pre_fc_norm_embedding.weight": _VECTOR,
        "pre_fc_norm_hidden.weight": _VECTOR,
        "norm.weight": _VECTOR,
    },
)
SCHEMES: Mapping[str, Scheme] = {
    "DeepseekV3ForCausalLMNextN": _DEEPSEEK,
    "GlmMoeDsaForCausalLMNextN": _DEEPSEEK,
    "Glm4MoeForCausalLMNextN": _DEEPSEEK,
    "Glm4MoeLiteForCausalLMNextN": _DEEPSEEK,
    "BailingMoeForCausalLMNextN": Scheme(_LAYER, _FINAL_NORM, body=(), needs_layer_count=True),
    "HYV3ForCausalLMNextN": Scheme(_LAYER, _FINAL_NORM),
    "LongcatFlashForCausalLMNextN": Scheme(
        "model.mtp.",
        {
            "layers.0.eh_proj.weight": _JOINT,
            "layers.0.enorm.m.weight": _VECTOR,
            "layers.0.hnorm.m.weight": _VECTOR,
            "norm.weight": _VECTOR,
        },
    ),
    "MiMoMTP": Scheme(
        "model.mtp_layers.0.",
        {
            "input_proj.weight": _JOINT,
            "token_layernorm.weight": _VECTOR,
            "hidden_layernorm.weight": _VECTOR,
            "final_layernorm.weight": _VECTOR,
        },
    ),
    "MiMoV2MTP": Scheme("model.mtp.layers.", {}, body=()),
    "Ernie4_5_MoeForCausalLMMTP": Scheme(
        "model.mtp_",
        {"linear_proj.0.weight": _JOINT, "emb_norm.0.weight": _VECTOR, "hidden_norm.0.weight": _VECTOR},
        body=("block.0.self_attn.", "block.0.mlp."),
    ),
    "Qwen3NextForCausalLMMTP": _QWEN,
    "Qwen3_5ForCausalLMMTP": _QWEN,
    "Qwen3MoeForCausalLMMTP": _QWEN,
    "ExaoneMoEForCausalLMMTP": Scheme("mtp.", {}, body=()),
    "NemotronHForCausalLMMTP": Scheme("mtp.layers.", {}, body=()),
    "Step3p5MTP": Scheme(_LAYER, {}, body=()),
}
"""Classes that are not here were not read in detail."""


@dataclass(frozen=True, slots=True)
class MtpLayer:
    """What was found of a draft layer. `missing` are names, or beginnings of names that end in a star."""

    prefix: str
    found: tuple[Tensor, ...]
    missing: tuple[str, ...]
    wrong_shapes: tuple[tuple[Tensor, tuple[int, ...]], ...]

    @property
    def is_plain(self) -> bool:
        """Tell whether all of it is in floating point, so not quantised."""
        return all(tensor.dtype in _FLOATS for tensor in self.found)


def find_layer(tensors: Sequence[Tensor], config: ModelConfig, scheme: Scheme) -> MtpLayer:
    """Return what the tensors of a draft, or of the target that carries it, hold of the layer."""
    count = config.text.whole("num_hidden_layers")
    number = 0 if count == 1 else count
    prefix = scheme.prefix.replace("{layer}", "?" if number is None else str(number))
    found = tuple(tensor for tensor in tensors if tensor.name.startswith(prefix))
    if not found:
        return MtpLayer(prefix, (), (f"{prefix}*",), ())
    names = {tensor.name: tensor for tensor in found}
    missing = [f"{prefix}{joint}" for joint in scheme.joints if not _has(names, f"{prefix}{joint}")]
    missing += [f"{prefix}*{piece}*" for piece in scheme.body if not any(piece in name for name in names)]
    if scheme.is_like_last_layer and number:
        last = f"model.layers.{number - 1}."
        missing += _lacking(found, prefix, [t for t in tensors if t.name.startswith(last)], last)
    wrong = tuple(_wrong_shapes(names, prefix, scheme, config.text.whole("hidden_size")))
    return MtpLayer(prefix, found, tuple(dict.fromkeys(missing)), wrong)


def _has(names: Mapping[str, Tensor], name: str) -> bool:
    """Tell whether a weight is there, plain or packed by a quantization."""
    base = name.removesuffix(".weight")
    return any(f"{base}.{ending}" in names for ending in ("weight", "weight_packed", "qweight"))


def _lacking(found: Sequence[Tensor], prefix: str, last: Sequence[Tensor], last_prefix: str) -> Iterator[str]:
    """Yield what the target's last layer has and the draft layer has not; experts count by their number."""
    here, there = _weights(found, prefix), _weights(last, last_prefix)
    for base, experts in there.items():
        if base not in here:
            yield f"{prefix}{base}.weight"
        elif len(here[base]) < len(experts):
            yield f"{prefix}{base}.weight ({len(here[base])} of {len(experts)} experts)"


def _weights(tensors: Sequence[Tensor], prefix: str) -> dict[str, set[str]]:
    """Return the weights by name without prefix and kind, with the experts' numbers; scales are not weights."""
    grouped: dict[str, set[str]] = {}
    for tensor in tensors:
        name = tensor.name.removeprefix(prefix)
        if not _WEIGHT_ENDING.search(name):
            continue
        expert = _EXPERT.search(name)
        base = _EXPERT.sub("experts.*.", _WEIGHT_ENDING.sub("", name))
        grouped.setdefault(base, set()).add(expert[1] if expert else "")
    return grouped


def _wrong_shapes(
    names: Mapping[str, Tensor], prefix: str, scheme: Scheme, hidden: int | None
) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
    for joint, units in scheme.joints.items():
        tensor = names.get(f"{prefix}{joint}")
        if tensor is None or hidden is None or tensor.dtype not in _FLOATS:
            continue
        wanted = tuple(unit * hidden for unit in units)
        if tensor.shape != wanted:
            yield tensor, wanted
