"""Which renaming of a checkpoint's tensors would let a release load them, found by what the names have in common."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from service.sglang.model_files import Tensor
from service.sglang.speculative.weights import Expected, Loader, Match, match

_WRAPPERS = re.compile(r"^(?:model|module|draft_model|eagle_module|eagle_layer|ea_layer|_orig_mod)\.")
"""What trainers and wrappers put in front of a name."""
_ONE_LAYER = re.compile(r"^midlayer\.(?!\d)")
_MANY_LAYERS = re.compile(r"^(?:midlayer|layers|eagle_layers|draft_layers)\.(\d+)\.")
_AUX_NORMS = {"aux_norm_low": "fc_norm.0", "aux_norm_mid": "fc_norm.1", "aux_norm_high": "fc_norm.2"}


@dataclass(frozen=True, slots=True)
class Renaming:
    """A renaming that mends: old name to new name, and what it leaves unmended."""

    names: Mapping[str, str]
    still_missing: tuple[str, ...]

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return the renaming in short: `layers.0.* -> midlayer.* (10)`."""
        counted = Counter(_pattern(old, new) for old, new in self.names.items())
        return tuple(f"{old} -> {new} ({count})" for (old, new), count in counted.items())


def find_renaming(found: Match, tensors: Sequence[Tensor]) -> Renaming | None:
    """Return how to rename dropped tensors so that required parameters get them; None when that is not possible.

    A tensor fits a parameter when the names are equal but for the wrappers and the spelling of the layer, and the shape
    is right. It is tried out: a renaming counts only when fewer parameters stay empty and nothing that loaded is lost.
    """
    lost = {item.name for item in found.unexpected}
    by_meaning: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.name in lost:
            by_meaning.setdefault(meaning(tensor.name), []).append(tensor)
    names: dict[str, str] = {}
    for expected in found.missing:
        candidates = [t for t in by_meaning.get(meaning(expected.name), ()) if _fits(t, expected)]
        if len(candidates) == 1:
            names[candidates[0].name] = expected.name
    taken = {tensor.name for tensor in tensors if tensor.name not in names}
    names = {old: new for old, new in names.items() if new not in taken}
    if not names:
        return None
    after = match([replace(tensor, name=names.get(tensor.name, tensor.name)) for tensor in tensors], found.loader)
    if len(after.required_missing) >= len(found.required_missing) or len(after.overwritten) > len(found.overwritten):
        return None
    return Renaming(names, tuple(item.name for item in after.required_missing))


def releases_that_load(tensors: Iterable[Tensor], loaders: Iterable[Loader]) -> tuple[Loader, ...]:
    """Return the loaders that leave no required parameter empty and take every shape."""
    kept = list(tensors)
    matches = [(loader, match(kept, loader)) for loader in loaders]
    return tuple(loader for loader, found in matches if not found.required_missing and not found.wrong_shapes)


def meaning(name: str) -> str:
    """Return a name without wrappers, its layer spelt `layers.N.`."""
    while _WRAPPERS.match(name):
        name = _WRAPPERS.sub("", name)
    name = _ONE_LAYER.sub("layers.0.", name)
    name = _MANY_LAYERS.sub(r"layers.\1.", name)
    for old, new in _AUX_NORMS.items():
        name = name.replace(old, new)
    return name


def _fits(tensor: Tensor, expected: Expected) -> bool:
    if len(tensor.shape) != len(expected.shape):
        return False
    return all(wanted in (None, extent) for extent, wanted in zip(tensor.shape, expected.shape, strict=True))


def _pattern(old: str, new: str) -> tuple[str, str]:
    """Return both names with the end that they share replaced by a star."""
    ends = old.split("."), new.split(".")
    shared = 0
    while shared < min(map(len, ends)) and ends[0][-1 - shared] == ends[1][-1 - shared]:
        shared += 1
    return _starred(ends[0], shared), _starred(ends[1], shared)


def _starred(words: Sequence[str], shared: int) -> str:
    return ".".join([*words[: len(words) - shared], "*"]) if shared else ".".join(words)
