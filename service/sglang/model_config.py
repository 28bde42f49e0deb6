"""A model's config.json as the engine reads it: sections, sizes, context length, quantization."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

CONTEXT_LENGTH_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)
"""Where the engine looks for the context length, in this order (facts: drafts §5)."""
DEFAULT_CONTEXT_LENGTH = 2048
_LARGEST = 2**53
_TEXT_LIMIT = 200
_TEXT_SECTIONS = ("thinker_config", "llm_config", "language_config", "text_config")
"""Sections that hold the language model of a multimodal one, in the order of the engine."""


class ConfigInvalid(ValueError):
    """The text is no model configuration."""


@dataclass(frozen=True)
class ModelConfig:
    """One configuration or a section of it. A value of another kind than asked for counts as absent."""

    values: Mapping[str, Any]

    @cached_property
    def text(self) -> "ModelConfig":
        """Return the section of the language model; itself where there is only one model."""
        for name in _TEXT_SECTIONS:
            section = self.section(name)
            if section is not None:
                return section.section("text_config") or section
        return self

    @property
    def architectures(self) -> tuple[str, ...]:
        """Return the names of the model's classes; the engine takes the first that it knows."""
        names = self.values.get("architectures")
        return tuple(_shown(name) for name in names if isinstance(name, str)) if isinstance(names, list) else ()

    @property
    def architecture(self) -> str | None:
        """Return the first class name."""
        return self.architectures[0] if self.architectures else None

    @property
    def head_dim(self) -> int | None:
        """Return the width of a head: as stated, else the hidden size over the heads."""
        stated, hidden, heads = self.whole("head_dim"), self.whole("hidden_size"), self.whole("num_attention_heads")
        if stated is not None:
            return stated
        return hidden // heads if hidden and heads else None

    @property
    def kv_heads(self) -> int | None:
        """Return the number of key-value heads: as many as heads when it is not stated."""
        return self.whole("num_key_value_heads") or self.whole("num_attention_heads")

    @property
    def dtype(self) -> str | None:
        """Return the type of the weights by its stated name, under the new key or the old."""
        found = self.values.get("dtype") or self.values.get("torch_dtype")
        return _shown(found.removeprefix("torch.")) if isinstance(found, str) else None

    @property
    def context_length(self) -> int:
        """Return the context length that the engine derives.

        The first of the known keys, times the factor of a stretched rope unless that has an original length or is of
        the kind llama3 (facts: drafts §5).
        """
        factor: float = 1
        rope = self.section("rope_scaling") or self.section("rope_parameters")
        if rope and not rope.has("original_max_position_embeddings") and rope.values.get("rope_type") != "llama3":
            factor = max(rope.number("factor") or 1, 0) or 1
        for key in CONTEXT_LENGTH_KEYS:
            length = self.number(key)
            if length is not None and length > 0:
                return int(factor * length)
        return DEFAULT_CONTEXT_LENGTH

    @property
    def quantization(self) -> str | None:
        """Return the quantization method that the configuration states, in lower case."""
        section = self.section("quantization_config") or self.text.section("quantization_config")
        section = section or self.section("compression_config")
        if section is None:
            return None
        method = section.values.get("quant_method") or section.values.get("quant_algo")
        return _shown(method.lower()) if isinstance(method, str) else "unnamed"

    def has(self, name: str) -> bool:
        """Tell whether a key is there at all, also with null."""
        return name in self.values

    def whole(self, name: str) -> int | None:
        """Return a whole number that is not negative."""
        value = self.values.get(name)
        return value if type(value) is int and 0 <= value <= _LARGEST else None

    def number(self, name: str) -> float | None:
        """Return a number; NaN and what no model could mean are none."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return value if -_LARGEST <= value <= _LARGEST else None

    def flag(self, name: str) -> bool:
        """Tell whether a value counts as true, as in Python."""
        return bool(self.values.get(name))

    def section(self, name: str) -> "ModelConfig | None":
        """Return an object inside of this one."""
        value = self.values.get(name)
        return ModelConfig(value) if isinstance(value, dict) else None

    def whole_list(self, name: str) -> tuple[int, ...] | None:
        """Return a list of whole numbers."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            return None
        return tuple(value)


def parse_config(text: str) -> ModelConfig:
    """Return the configuration that a config.json holds; ConfigInvalid when it holds none."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigInvalid(f"it is no JSON: {error}") from error
    if not isinstance(values, dict):
        raise ConfigInvalid("it is no JSON object")
    return ModelConfig(values)


def _shown(text: str) -> str:
    """Return a third party's text so that it can stand in a line of ours."""
    return text if text.isprintable() and len(text) <= _TEXT_LIMIT else ascii(text)[:_TEXT_LIMIT]
