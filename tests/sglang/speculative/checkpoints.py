"""Small model directories with true safetensors headers, and how the node's verb reads them."""

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from service.remote.on_node.model_files import read_model_files
from service.sglang.checks import Check, CheckCode, Outcome
from service.sglang.model_files import ModelFiles, parse_model_files
from service.sglang.speculative.draft_checks import check_draft

RELEASES = ("0.4.9.post6", "0.5.2", "0.5.6.post2", "0.5.10.post1", "0.5.16", "0.5.23")
OLD, NEW = RELEASES[:4], RELEASES[4:]
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, VOCABULARY, DRAFT_VOCABULARY, LAYERS = 64, 4, 2, 16, 96, 500, 200, 32
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "BF16": 2, "F16": 2, "F32": 4, "I32": 4, "I64": 8}

Shapes = Mapping[str, tuple[int, ...]]

TARGET_CONFIG: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DRAFT_CONFIG: Mapping[str, Any] = {
    **TARGET_CONFIG,
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "draft_vocab_size": DRAFT_VOCABULARY,
    "tie_word_embeddings": False,
}
EAGLE3 = {"speculative-algorithm": "EAGLE3"}


def layer(prefix: str, *, width: int = 2 * HIDDEN) -> dict[str, tuple[int, ...]]:
    """Return the ten tensors of an EAGLE-3 layer."""
    return {
        f"{prefix}self_attn.q_proj.weight": (HEADS * HEAD_DIM, width),
        f"{prefix}self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, width),
        f"{prefix}self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, width),
        f"{prefix}self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
        f"{prefix}mlp.gate_proj.weight": (INNER, HIDDEN),
        f"{prefix}mlp.up_proj.weight": (INNER, HIDDEN),
        f"{prefix}mlp.down_proj.weight": (HIDDEN, INNER),
        f"{prefix}input_layernorm.weight": (HIDDEN,),
        f"{prefix}hidden_norm.weight": (HIDDEN,),
        f"{prefix}post_attention_layernorm.weight": (HIDDEN,),
    }


def ends(prefix: str = "", *, aux: int = 3) -> dict[str, tuple[int, ...]]:
    """Return what an EAGLE-3 draft has before and after its layer."""
    return {
        f"{prefix}fc.weight": (HIDDEN, aux * HIDDEN),
        f"{prefix}norm.weight": (HIDDEN,),
        "lm_head.weight": (DRAFT_VOCABULARY, HIDDEN),
    }


MAPS: Shapes = {"t2d": (VOCABULARY,), "d2t": (DRAFT_VOCABULARY,)}
SPECFORGE: Shapes = {**ends(), **layer("midlayer."), **MAPS}
MODELOPT: Shapes = {**ends(), **layer("layers.0."), "d2t": (DRAFT_VOCABULARY,)}


def differences() -> bytes:
    """Return a true d2t: the draft has every second token of the target."""
    return struct.pack(f"<{DRAFT_VOCABULARY}q", *range(DRAFT_VOCABULARY))


def mask() -> bytes:
    """Return the t2d that belongs to it."""
    marked = [1 if token % 2 == 0 and token < 2 * DRAFT_VOCABULARY else 0 for token in range(VOCABULARY)]
    return bytes(marked)


def write_safetensors(
    path: Path,
    shapes: Shapes,
    *,
    dtypes: Mapping[str, str] | None = None,
    data: Mapping[str, bytes] | None = None,
) -> None:
    """Write a file whose header is true; the data is a hole but for the token maps and what `data` says."""
    kinds = {"d2t": "I64", "t2d": "BOOL", **(dtypes or {})}
    contents = {"d2t": differences(), "t2d": mask(), **(data or {})}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        dtype = kinds.get(name, kinds.get("*", "BF16"))
        end = offset + SIZES[dtype] * prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)
        for name, content in contents.items():
            if name in header and header[name]["data_offsets"][1] - header[name]["data_offsets"][0] == len(content):
                file.seek(8 + len(text) + header[name]["data_offsets"][0])
                file.write(content)


def write_model(
    directory: Path,
    config: Mapping[str, Any],
    shapes: Shapes,
    *,
    shards: int = 1,
    dtypes: Mapping[str, str] | None = None,
    data: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a model directory, with an index when it has several shards. A config value of None removes the key."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    names = list(shapes)
    if shards == 1:
        write_safetensors(directory / "model.safetensors", shapes, dtypes=dtypes, data=data)
        return directory
    places: dict[str, str] = {}
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        mine = names[number::shards]
        write_safetensors(directory / file, {name: shapes[name] for name in mine}, dtypes=dtypes, data=data)
        places |= dict.fromkeys(mine, file)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory


def read(directory: Path | str, *, tensors: Sequence[str] | None = None, **environment: str) -> ModelFiles:
    """Return what the node's verb says of a directory, through the JSON that travels."""
    model = {"path": str(directory), "revision": None, "tensors": tensors}
    answer = read_model_files({"models": [model], "environment": environment})
    return parse_model_files(json.loads(json.dumps(answer))["models"][0])


class Workshop:
    """Writes a target and drafts into one directory and judges them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.target_config: dict[str, Any] = dict(TARGET_CONFIG)
        self.target_path = root / "target"
        self._made = 0

    def draft(self, shapes: Shapes = SPECFORGE, **options: Any) -> ModelFiles:
        """Write a draft and return it read; options that `write_model` does not know are keys of its config.json."""
        kept = {name: options.pop(name) for name in ("shards", "dtypes", "data") if name in options}
        config = {**DRAFT_CONFIG, **options}
        config = {name: value for name, value in config.items() if value is not ...}
        self._made += 1
        return read(write_model(self.root / f"draft{self._made}", config, shapes, **kept))

    def target(self, shapes: Shapes | None = None) -> ModelFiles:
        """Write the target, whose weights matter only when it carries its own draft."""
        shapes = shapes or {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
        return read(write_model(self.target_path, self.target_config, shapes))

    def judge(
        self,
        draft: ModelFiles,
        version: str | None = "0.5.23",
        arguments: Mapping[str, Any] | None = None,
        **environment: str,
    ) -> dict[CheckCode, Check]:
        """Return the checks of a draft by code."""
        checks = check_draft(self.target(), draft, arguments or EAGLE3, version, environment=environment)
        assert len({check.code for check in checks}) == len(checks)
        assert all(check.found for check in checks)
        assert all(json.dumps(check.facts) for check in checks)
        return {check.code: check for check in checks}


def bad(checks: Mapping[CheckCode, Check] | Iterable[Check]) -> dict[str, str]:
    """Return the outcomes of the checks that warn or fail."""
    listed = checks.values() if isinstance(checks, Mapping) else checks
    return {check.code: check.outcome.value for check in listed if check.outcome in {Outcome.WARN, Outcome.FAIL}}
