"""Model directories: a plausible config.json, safetensors files with true headers and sparse bodies, an index."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import NamedTuple

from service.simulator.specs import ModelSpec

BYTES = {"BF16": 2, "I32": 4, "I64": 8}
EXPERT_WIDTH = 2048
PACKED_PER_VALUE = 8
"""Four-bit weights lie by eight in one I32."""
SCALE_GROUP = 32
"""So many four-bit weights share one scale."""


class Form(NamedTuple):
    """Shape and type of a tensor."""

    shape: tuple[int, ...]
    dtype: str = "BF16"

    @property
    def size(self) -> int:
        """Its bytes in a file."""
        return BYTES[self.dtype] * prod(self.shape)


Forms = Mapping[str, Form]


def write_model(spec: ModelSpec, directory: Path) -> None:
    """Create a model directory; one that has a config.json already is left as it is."""
    if (directory / "config.json").exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    _write_json(
        directory / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": spec.max_position_embeddings},
    )
    _write_json(directory / "tokenizer.json", {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}})
    _write_json(directory / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})
    shards = _shards(spec)
    for name, forms in shards.items():
        write_safetensors(directory / name, forms)
    if len(shards) > 1:
        sizes = sum(form.size for forms in shards.values() for form in forms.values())
        weight_map = {tensor: name for name, forms in shards.items() for tensor in forms}
        index = {"metadata": {"total_size": sizes}, "weight_map": weight_map}
        _write_json(directory / "model.safetensors.index.json", index)
    _write_json(directory / "config.json", _config(spec))


def write_safetensors(path: Path, forms: Forms) -> None:
    """Write a safetensors file: its header in full, its body as a hole of the right length."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, form in forms.items():
        end = offset + form.size
        header[name] = {"dtype": form.dtype, "shape": list(form.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)


def _config(spec: ModelSpec) -> dict[str, object]:
    config: dict[str, object] = {
        "architectures": [spec.architecture],
        "model_type": spec.model_type,
        "hidden_size": spec.hidden_size,
        "intermediate_size": spec.intermediate_size,
        "num_hidden_layers": spec.layer_count,
        "num_attention_heads": spec.head_count,
        "num_key_value_heads": spec.kv_head_count,
        "vocab_size": spec.vocab_size,
        "max_position_embeddings": spec.max_position_embeddings,
        "torch_dtype": "bfloat16",
        "rms_norm_eps": 1e-05,
        "rope_theta": 500000.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
    }
    if spec.draft_layer_prefix is not None and spec.draft_target_hidden_size != spec.hidden_size:
        config["target_hidden_size"] = spec.draft_target_hidden_size
    return {**config, **spec.extra_config}


def _shards(spec: ModelSpec) -> dict[str, dict[str, Form]]:
    tensors = _draft_tensors(spec) if spec.draft_layer_prefix is not None else _target_tensors(spec)
    if spec.shard_count == 1:
        return {"model.safetensors": tensors}
    names = [f"model-{i:05d}-of-{spec.shard_count:05d}.safetensors" for i in range(1, spec.shard_count + 1)]
    shards: dict[str, dict[str, Form]] = {name: {} for name in names}
    for position, (tensor, form) in enumerate(tensors.items()):
        shards[names[position * spec.shard_count // len(tensors)]][tensor] = form
    return shards


def _target_tensors(spec: ModelSpec) -> dict[str, Form]:
    hidden, kv_width = spec.hidden_size, spec.hidden_size * spec.kv_head_count // spec.head_count
    tensors = {"model.embed_tokens.weight": Form((spec.vocab_size, hidden))}
    for number in range(spec.layer_count):
        layer = f"model.layers.{number}."
        tensors |= {
            f"{layer}input_layernorm.weight": Form((hidden,)),
            f"{layer}self_attn.q_proj.weight": Form((hidden, hidden)),
            f"{layer}self_attn.k_proj.weight": Form((kv_width, hidden)),
            f"{layer}self_attn.v_proj.weight": Form((kv_width, hidden)),
            f"{layer}self_attn.o_proj.weight": Form((hidden, hidden)),
            f"{layer}post_attention_layernorm.weight": Form((hidden,)),
            **_feed_forward(spec, f"{layer}mlp."),
        }
    tensors["model.norm.weight"] = Form((hidden,))
    tensors["lm_head.weight"] = Form((spec.vocab_size, hidden))
    return tensors


def _feed_forward(spec: ModelSpec, prefix: str) -> dict[str, Form]:
    """Return a dense layer, or the experts of one: four-bit weights packed into I32, with their scales.

    A true checkpoint has three tensors for each expert; here they lie in one, which keeps the headers short.
    """
    hidden, experts = spec.hidden_size, spec.extra_config.get("n_routed_experts")
    if not isinstance(experts, int):
        return {
            f"{prefix}gate_proj.weight": Form((spec.intermediate_size, hidden)),
            f"{prefix}up_proj.weight": Form((spec.intermediate_size, hidden)),
            f"{prefix}down_proj.weight": Form((hidden, spec.intermediate_size)),
        }
    packed: dict[str, Form] = {}
    for name, rows, columns in (("gate_up_proj", 2 * EXPERT_WIDTH, hidden), ("down_proj", hidden, EXPERT_WIDTH)):
        packed[f"{prefix}experts.{name}.weight_packed"] = Form((experts, rows, columns // PACKED_PER_VALUE), "I32")
        packed[f"{prefix}experts.{name}.weight_scale"] = Form((experts, rows, columns // SCALE_GROUP))
    return packed


def _draft_tensors(spec: ModelSpec) -> dict[str, Form]:
    """Return an EAGLE-3 draft: one layer that takes embedding and hidden state side by side, `fc`, norm, head.

    Its d2t is a hole as all data is: the draft has the first tokens of the target.
    """
    layer, hidden = spec.draft_layer_prefix, spec.hidden_size
    kv_width = hidden * spec.kv_head_count // spec.head_count
    draft_vocab = spec.extra_config.get("draft_vocab_size", spec.vocab_size)
    if not isinstance(draft_vocab, int):
        raise TypeError("draft_vocab_size is a number")
    return {
        "fc.weight": Form((hidden, spec.draft_target_hidden_size * spec.draft_aux_layer_count)),
        f"{layer}input_layernorm.weight": Form((hidden,)),
        f"{layer}hidden_norm.weight": Form((hidden,)),
        f"{layer}self_attn.q_proj.weight": Form((hidden, 2 * hidden)),
        f"{layer}self_attn.k_proj.weight": Form((kv_width, 2 * hidden)),
        f"{layer}self_attn.v_proj.weight": Form((kv_width, 2 * hidden)),
        f"{layer}self_attn.o_proj.weight": Form((hidden, hidden)),
        f"{layer}post_attention_layernorm.weight": Form((hidden,)),
        f"{layer}mlp.gate_proj.weight": Form((spec.intermediate_size, hidden)),
        f"{layer}mlp.up_proj.weight": Form((spec.intermediate_size, hidden)),
        f"{layer}mlp.down_proj.weight": Form((hidden, spec.intermediate_size)),
        "norm.weight": Form((hidden,)),
        "lm_head.weight": Form((draft_vocab, hidden)),
        "d2t": Form((draft_vocab,), "I64"),
    }


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
