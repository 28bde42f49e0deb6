"""The arguments of a start that the checks need, read as the engine's parser reads them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from service.sglang.arguments import ArgumentValue, plain_name
from service.sglang.releases import V0_4_9, V0_5_10
from service.sglang.versions import Version

LONGER_CONTEXT_VARIABLE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
"""Lets a model serve a longer context than its configuration says (facts: SGLang §5 #12)."""
_SPELLINGS: Mapping[str, str] = {
    "tensor-parallel-size": "tp-size",
    "tp": "tp-size",
    "pipeline-parallel-size": "pp-size",
    "pp": "pp-size",
    "data-parallel-size": "dp-size",
    "dp": "dp-size",
    "speculative-draft-model": "speculative-draft-model-path",
    "speculative-algo": "speculative-algorithm",
}
"""Aliases, and the abbreviations that are in use."""
_MULTIPLES: Mapping[str, int] = {
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_HUMAN_NUMBER = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(Ki|Mi|Gi|Ti|k|M|G|T)?")
_TRUE = frozenset({"1", "true"})
_ALSO_TRUE = frozenset({"yes", "y"})
"""What the newer releases take for true besides."""


@dataclass(frozen=True, slots=True)
class ServingArguments:
    """Arguments by their full names. What is absent, or of another kind than the engine takes, is None or false."""

    values: Mapping[str, ArgumentValue]

    @property
    def tp_size(self) -> int:
        """Return over how many GPUs a layer is split."""
        return self.whole("tp-size") or 1

    @property
    def pp_size(self) -> int:
        """Return over how many groups of GPUs the layers are dealt."""
        return self.whole("pp-size") or 1

    @property
    def attention_tp_size(self) -> int:
        """Return over how many GPUs the heads of attention are split: fewer than `tp_size` with attention in parallel.

        It is a flag beside `dp-size` in older versions and a number of its own in 0.5.23 (facts: SGLang §2).
        """
        parts = self.whole("attn-dp-size") or (self.whole("dp-size") or 1 if self.is_set("enable-dp-attention") else 1)
        return max(self.tp_size // max(parts, 1), 1)

    @property
    def has_dp_attention(self) -> bool:
        """Tell whether attention runs in parallel on whole requests."""
        return self.attention_tp_size < self.tp_size or self.is_set("enable-dp-attention")

    def text(self, name: str) -> str | None:
        """Return a value as its text."""
        value = self.values.get(name)
        return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None

    def whole(self, name: str) -> int | None:
        """Return a whole number; "32k" is 32000 and "32Ki" is 32768, as the engine has it."""
        match = _HUMAN_NUMBER.fullmatch((self.text(name) or "").strip())
        return int(Decimal(match[1]) * _MULTIPLES.get(match[2], 1)) if match else None

    def is_set(self, name: str) -> bool:
        """Tell whether a flag is given."""
        return self.values.get(name) not in (None, False)


def serving_arguments(arguments: Mapping[str, ArgumentValue]) -> ServingArguments:
    """Return the arguments under the names that the engine documents."""
    return ServingArguments({_SPELLINGS.get(plain_name(name), plain_name(name)): arguments[name] for name in arguments})


def allows_longer_context(environment: Mapping[str, str], release: Version) -> bool:
    """Tell whether the launch lets a context be longer than a model's configuration says.

    0.4.9 allows it unless told otherwise, with a warning.
    """
    default = "true" if release <= V0_4_9 else ""
    value = environment.get(LONGER_CONTEXT_VARIABLE, default).lower()
    return value in _TRUE or (value in _ALSO_TRUE and release >= V0_5_10)
