"""What lies in a model directory: its config, and the headers of its safetensors files."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Dict, List, NamedTuple, Set

from .tracebacks import EngineError, Frame

LARGEST_HEADER = 100_000_000
LOADER_FRAMES = (
    Frame("sglang/srt/model_loader/loader.py", 1063, "load_weights_only", "model.load_weights(weights)"),
    Frame("sglang/srt/model_loader/loader.py", 616, "_get_weights_iterator", "hf_folder, hf_weights_files = ("),
)
HUB_FRAMES = (
    Frame(
        "sglang/srt/utils/hf_transformers/config.py", 387, "get_config", "meta = load_pointer_adapter(model, revision)"
    ),
    Frame("transformers/utils/hub.py", 595, "cached_files", 'raise OSError(f"{e}") from e'),
)


class ModelFiles(NamedTuple):
    """A model directory."""

    path: str
    config: Dict[str, Any]
    shards: List[str]

    @property
    def architecture(self) -> str:
        """The class that the engine would load."""
        return str(self.config.get("architectures", ["LlamaForCausalLM"])[0])

    @property
    def max_context(self) -> int:
        """The longest context that the config allows."""
        return int(self.config.get("max_position_embeddings", 2048))

    @property
    def size_mib(self) -> float:
        """What the weight files show, holes included."""
        return sum(os.path.getsize(shard) for shard in self.shards) / 2**20

    def tensor_names(self) -> Set[str]:
        """Return the names of all tensors. Raises EngineError as `check_weights` does."""
        return {name for shard in self.shards for name in _header(shard)}


def open_model(path: str) -> ModelFiles:
    """Return the model at a path. Raises EngineError, in the words of the libraries, where there is none."""
    if not os.path.isdir(path):
        if path.startswith(("/", ".")) or path.count("/") > 1:
            raise EngineError(
                "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
                f"'{path}'. Use `repo_type` argument if needed.",
                HUB_FRAMES,
            )
        raise EngineError(
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache and "
            "outgoing traffic has been disabled.",
            HUB_FRAMES,
        )
    config = os.path.join(path, "config.json")
    if not os.path.exists(config):
        raise EngineError(f"OSError: {path} does not appear to have a file named config.json.", HUB_FRAMES)
    with open(config, encoding="utf-8") as file:
        content: Dict[str, Any] = json.load(file)
    shards = sorted(name for name in os.listdir(path) if name.endswith(".safetensors"))
    return ModelFiles(path, content, [os.path.join(path, name) for name in shards])


def check_weights(model: ModelFiles) -> None:
    """Raise EngineError where the weights are missing, cut short, or only pointers to the real ones."""
    if not model.shards:
        raise EngineError(f"RuntimeError: Cannot find any model weights with `{model.path}`", LOADER_FRAMES)
    for shard in model.shards:
        _header(shard)


def _header(shard: str) -> Dict[str, Any]:
    """Return the tensors of a file: a length of eight bytes, then as much JSON, then the data."""
    with open(shard, "rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start.ljust(8, b"\0"))[0]
        if length > LARGEST_HEADER:
            raise _bad_header("header too large")
        text = file.read(length)
        size = os.fstat(file.fileno()).st_size
    if len(text) < length:
        raise _bad_header("incomplete metadata, file not fully covered")
    header: Dict[str, Any] = json.loads(text)
    header.pop("__metadata__", None)
    end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
    if size < 8 + length + end:
        raise _bad_header("incomplete metadata, file not fully covered")
    return header


def _bad_header(reason: str) -> EngineError:
    text = f"safetensors._safetensors_rust.SafetensorError: Error while deserializing header: {reason}"
    return EngineError(text, LOADER_FRAMES)
