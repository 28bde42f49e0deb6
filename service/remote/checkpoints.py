"""What a node is asked about model directories, and what it answers: their contents, and a draft written anew."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.sglang.model_files import DRAFT_LAYER_TENSORS, ModelFiles, parse_model_files


@dataclass(frozen=True, slots=True)
class ModelWish:
    """One model to look into: `path` is a directory or a hub id, which is looked for in the node's cache only.

    `tensors` are texts of which a tensor's name must hold one to be answered, ALL_TENSORS for every tensor (a draft);
    the default is right for a target, of which only the draft layer is of interest.
    """

    path: str
    revision: str | None = None
    tensors: tuple[str, ...] | None = DRAFT_LAYER_TENSORS

    @property
    def request(self) -> Mapping[str, object]:
        """Return this wish as the node's verb takes it."""
        tensors = None if self.tensors is None else list(self.tensors)
        return {"path": self.path, "revision": self.revision, "tensors": tensors}


@dataclass(frozen=True, slots=True)
class RenamedDraft:
    """A checkpoint that was written anew; `destination` is its directory without links.

    `left_out` are files of the source that no loader of safetensors reads, and folders.
    """

    destination: str
    weight_files: tuple[str, ...]
    renamed_count: int
    weight_bytes: int
    left_out: tuple[str, ...]


def model_files(answer: Mapping[str, Any]) -> tuple[ModelFiles, ...]:
    """Return what `read_model_files` found, in the order of the wishes."""
    return tuple(parse_model_files(model) for model in answer["models"])


def renamed_draft(answer: Mapping[str, Any]) -> RenamedDraft:
    """Return what came of `rename_draft`."""
    return RenamedDraft(
        destination=str(answer["destination"]),
        weight_files=tuple(map(str, answer["weight_files"])),
        renamed_count=int(answer["renamed"]),
        weight_bytes=int(answer["bytes"]),
        left_out=tuple(map(str, answer["left_out"])),
    )
