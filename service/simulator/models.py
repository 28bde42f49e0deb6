"""Model directories: a plausible config.json, safetensors files with true headers and sparse bodies, an index."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

from service.simulator.specs import ModelSpec

BYTES_PER_VALUE = 2
"""bfloat16, and what four-bit experts are packed into."""

Shapes = Mapping[str, tuple[int, ...]]


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
    for name, shapes in shards.items():
        write_safetensors(directory / name, shapes)
    if len(shards) > 1:
        sizes = sum(_size(shape) for shapes in shards.values() for shape in shapes.values())
        weight_map = {tensor: name for name, shapes in shards.items() for tensor in shapes}
        index = {"metadata": {"total_size": sizes}, "weight_map": weight_map}
        _write_json(directory / "model.safetensors.index.json", index)
    _write_json(directory / "config.json", _config(spec))


def write_safetensors(path: Path, shapes: Shapes) -> None:
    """Write a safetensors file: its header in full, its body as a hole of the right length."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        end = offset + _size(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
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


def _shards(spec: ModelSpec) -> dict[str, dict[str, tuple[int, ...]]]:
    tensors = _draft_tensors(spec) if spec.draft_layer_prefix is not None else _target_tensors(spec)
    if spec.shard_count == 1:
        return {"model.safetensors": tensors}
    names = [f"model-{i:05d}-of-{spec.shard_count:05d}.safetensors" for i in range(1, spec.shard_count + 1)]
    shards: dict[str, dict[str, tuple[int, ...]]] = {name: {} for name in names}
    for position, (tensor, shape) in enumerate(tensors.items()):
        shards[names[position * spec.shard_count // len(tensors)]][tensor] = shape
    return shards


def _target_tensors(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    hidden, kv_width = spec.hidden_size, spec.hidden_size * spec.kv_head_count // spec.head_count
    experts = spec.extra_config.get("n_routed_experts")
    tensors: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (spec.vocab_size, hidden)}
    for number in range(spec.layer_count):
        layer = f"model.layers.{number}."
        tensors[f"{layer}input_layernorm.weight"] = (hidden,)
        tensors[f"{layer}self_attn.q_proj.weight"] = (hidden, hidden)
        tensors[f"{layer}self_attn.k_proj.weight"] = (kv_width, hidden)
        tensors[f"{layer}self_attn.v_proj.weight"] = (kv_width, hidden)
        tensors[f"{layer}self_attn.o_proj.weight"] = (hidden, hidden)
        tensors[f"{layer}post_attention_layernorm.weight"] = (hidden,)
        if isinstance(experts, int):
            tensors[f"{layer}mlp.experts.gate_up_proj.weight_packed"] = (experts, 4096, hidden // 4)
            tensors[f"{layer}mlp.experts.down_proj.weight_packed"] = (experts, hidden, 2048 // 4)
        else:
            tensors[f"{layer}mlp.gate_proj.weight"] = (spec.intermediate_size, hidden)
            tensors[f"{layer}mlp.up_proj.weight"] = (spec.intermediate_size, hidden)
            tensors[f"{layer}mlp.down_proj.weight"] = (hidden, spec.intermediate_size)
    tensors["model.norm.weight"] = (hidden,)
    tensors["lm_head.weight"] = (spec.vocab_size, hidden)
    return tensors


def _draft_tensors(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Return an EAGLE-3 draft: one layer that takes embedding and hidden state side by side, `fc`, norm, head."""
    layer, hidden = spec.draft_layer_prefix, spec.hidden_size
    kv_width = hidden * spec.kv_head_count // spec.head_count
    draft_vocab = spec.extra_config.get("draft_vocab_size", spec.vocab_size)
    if not isinstance(draft_vocab, int):
        raise TypeError("draft_vocab_size is a number")
    return {
        "fc.weight": (hidden, spec.draft_target_hidden_size * spec.draft_aux_layer_count),
        f"{layer}input_layernorm.weight": (hidden,),
        f"{layer}hidden_norm.weight": (hidden,),
        f"{layer}self_attn.q_proj.weight": (hidden, 2 * hidden),
        f"{layer}self_attn.k_proj.weight": (kv_width, 2 * hidden),
        f"{layer}self_attn.v_proj.weight": (kv_width, 2 * hidden),
        f"{layer}self_attn.o_proj.weight": (hidden, hidden),
        f"{layer}post_attention_layernorm.weight": (hidden,),
        f"{layer}mlp.gate_proj.weight": (spec.intermediate_size, hidden),
        f"{layer}mlp.up_proj.weight": (spec.intermediate_size, hidden),
        f"{layer}mlp.down_proj.weight": (hidden, spec.intermediate_size),
        "norm.weight": (hidden,),
        "lm_head.weight": (draft_vocab, hidden),
        "d2t": (draft_vocab,),
    }


def _size(shape: tuple[int, ...]) -> int:
    size = BYTES_PER_VALUE
    for extent in shape:
        size *= extent
    return size


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
