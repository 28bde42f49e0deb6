"""What a model directory holds, as the node found it: config.json, index, file sizes, the headers of the weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from service.sglang.model_config import ConfigInvalid, ModelConfig, parse_config

ALL_TENSORS = None
"""Ask the node for the names of all tensors: for a draft, which has few."""
DRAFT_LAYER_TENSORS = ("mtp", "eh_proj", "enorm", "hnorm", "model.layers.{layers}.", "model.layers.{last}.")
"""Ask the node only for tensors whose name holds one of these: of a target, whose draft layer may lie among them.

The node puts the number of layers, and one less, in place of the braces.
"""
INDEX_NAME = "model.safetensors.index.json"
QUANTIZATION_FILE = "hf_quant_config.json"
"""Where one trainer says how the weights are quantised, beside or instead of config.json."""
PACKED_TYPES = frozenset({"F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4", "U8", "I8", "I32"})
"""Types that only quantised weights have."""
PICKLES = (".bin", ".pt")
NOT_WEIGHTS = frozenset({"training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt"})
"""Pickles that the loader passes over (facts: drafts §1.3)."""


class PathProblem(StrEnum):
    """Why there is no directory to look into."""

    ABSENT = "absent"
    NOT_A_DIRECTORY = "not_a_directory"
    UNREADABLE = "unreadable"
    NOT_IN_CACHE = "not_in_cache"
    """It is a hub id, and the node's cache does not have it: the engine would download it."""


class FileProblem(StrEnum):
    """Why a file is none that the engine could load."""

    ABSENT = "absent"
    UNREADABLE = "unreadable"
    DANGLING_LINK = "dangling_link"
    LFS_POINTER = "lfs_pointer"
    TOO_SMALL = "too_small"
    TOO_LARGE = "too_large"
    NOT_TEXT = "not_text"
    NOT_JSON = "not_json"
    HEADER_CUT_OFF = "header_cut_off"
    HEADER_TOO_LARGE = "header_too_large"
    HEADER_NOT_JSON = "header_not_json"
    TOO_MANY_TENSORS = "too_many_tensors"
    NAME_INVALID = "name_invalid"
    ENTRY_INVALID = "entry_invalid"
    DTYPE_UNKNOWN = "dtype_unknown"
    OFFSET_INVALID = "offset_invalid"
    SIZE_MISMATCH = "size_mismatch"
    FILE_CUT_OFF = "file_cut_off"
    TRAILING_BYTES = "trailing_bytes"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checkpoint, by the name in its file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str


@dataclass(frozen=True, slots=True)
class WeightFile:
    """One safetensors file; without a problem its size fits its header, so it is whole."""

    name: str
    problem: FileProblem | None = None
    detail: str | None = None
    tensor_count: int = 0
    bytes_by_dtype: Mapping[str, int] = field(default_factory=dict)
    duplicates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Named:
    """How many tensors something is true of, with a few of their names."""

    count: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightIndex:
    """What the index file says, and where the headers say otherwise."""

    problem: FileProblem | None = None
    detail: str | None = None
    files: tuple[str, ...] = ()
    absent: Named = Named()
    """In the index, in no header."""
    unlisted: Named = Named()
    """In a listed file, not in the index; the loader takes them all the same."""
    misplaced: Named = Named()
    """In another file than the index says."""


@dataclass(frozen=True, slots=True)
class TokenMap:
    """What the values of `d2t` or `t2d` are like. A target id is a value of d2t plus its place."""

    count: int
    lowest: int
    highest: int
    nonzero_count: int
    fall_count: int
    """How often a value is smaller than the one before."""
    highest_target: int
    distinct_target_count: int
    distinct_value_count: int


@dataclass(frozen=True)
class ModelFiles:
    """A model directory. `tensors` are those that were asked for; `has_all_tensors` tells whether none is left out."""

    path: str
    directory: str | None
    problem: PathProblem | None = None
    config: ModelConfig | None = None
    config_problem: str | None = None
    """Why there is no `config`, in words."""
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    """Every file of the directory with its size in bytes; None for one that cannot be looked at."""
    index: WeightIndex | None = None
    weights: tuple[WeightFile, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    has_all_tensors: bool = True
    incomplete_download_count: int = 0
    tokenizer_sha256: str | None = None
    """The digest of tokenizer.json, None when there is none."""
    d2t: TokenMap | None = None
    t2d: TokenMap | None = None

    @cached_property
    def loaded_files(self) -> tuple[WeightFile, ...]:
        """Return the safetensors files that the loader reads: those that the index names, all without an index.

        Of tensors in the index only the file names count (facts: drafts §1.3).
        """
        if self.index is None or self.index.problem:
            return self.weights
        listed = set(self.index.files)
        return tuple(file for file in self.weights if file.name in listed)

    @cached_property
    def loaded_tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors of the files that the loader reads."""
        read = {file.name for file in self.loaded_files}
        return tuple(tensor for tensor in self.tensors if tensor.file in read)

    @cached_property
    def absent_files(self) -> tuple[str, ...]:
        """Return the files that the index names and the directory does not hold."""
        if self.index is None:
            return ()
        return tuple(name for name in self.index.files if self.sizes.get(name) is None)

    @cached_property
    def pickles(self) -> tuple[str, ...]:
        """Return files whose weights are in a pickle, which nobody can list without running it."""
        return tuple(name for name in self.sizes if name.endswith(PICKLES) and name not in NOT_WEIGHTS)

    @cached_property
    def weight_bytes(self) -> int:
        """Return the bytes of all tensors that the loader reads."""
        return sum(sum(file.bytes_by_dtype.values()) for file in self.loaded_files)

    @cached_property
    def bytes_by_dtype(self) -> Mapping[str, int]:
        """Return the bytes of the tensors that the loader reads, by their type."""
        sums: dict[str, int] = {}
        for file in self.loaded_files:
            for dtype, size in file.bytes_by_dtype.items():
                sums[dtype] = sums.get(dtype, 0) + size
        return sums


def parse_model_files(answer: Mapping[str, Any]) -> ModelFiles:
    """Return one of the `models` that the node's verb answered.

    What a file holds may be anything; the shape of the answer is ours, and another raises KeyError, TypeError or
    ValueError.
    """
    path, directory = str(answer["path"]), answer["directory"]
    if answer["problem"] is not None:
        return ModelFiles(path, directory, PathProblem(answer["problem"]))
    config, config_problem = _config(answer["config"])
    weights = tuple(_weight_file(row) for row in answer["weights"])
    return ModelFiles(
        path=path,
        directory=str(directory),
        config=config,
        config_problem=config_problem,
        sizes={str(row["name"]): row["size"] for row in answer["files"] if not row["is_directory"]},
        index=None if answer["index"] is None else _index(answer["index"]),
        weights=weights,
        tensors=tuple(
            Tensor(str(name), str(dtype), tuple(int(extent) for extent in shape), weights[place].name)
            for name, dtype, shape, place in answer["tensors"]
        ),
        has_all_tensors=answer["has_all_tensors"] is True,
        incomplete_download_count=int(answer["incomplete_downloads"]),
        tokenizer_sha256=None if answer["tokenizer_sha256"] is None else str(answer["tokenizer_sha256"]),
        d2t=_token_map(answer["d2t"]),
        t2d=_token_map(answer["t2d"]),
    )


def _config(answer: Mapping[str, Any]) -> tuple[ModelConfig | None, str | None]:
    if answer["text"] is None:
        return None, str(answer["detail"])
    try:
        return parse_config(answer["text"]), None
    except ConfigInvalid as invalid:
        return None, str(invalid)


def _weight_file(row: Mapping[str, Any]) -> WeightFile:
    if row["problem"] is not None:
        return WeightFile(str(row["name"]), FileProblem(row["problem"]), str(row["detail"]))
    return WeightFile(
        name=str(row["name"]),
        tensor_count=int(row["tensor_count"]),
        bytes_by_dtype={str(dtype): int(size) for dtype, size in row["bytes_by_dtype"].items()},
        duplicates=tuple(map(str, row["duplicates"])),
    )


def _index(row: Mapping[str, Any]) -> WeightIndex:
    if row["problem"] is not None:
        return WeightIndex(FileProblem(row["problem"]), str(row["detail"]))
    return WeightIndex(
        files=tuple(map(str, row["files"])),
        absent=_named(row["absent"]),
        unlisted=_named(row["unlisted"]),
        misplaced=_named(row["misplaced"]),
    )


def _named(row: Mapping[str, Any]) -> Named:
    return Named(int(row["count"]), tuple(map(str, row["examples"])))


def _token_map(row: Mapping[str, Any] | None) -> TokenMap | None:
    if row is None:
        return None
    return TokenMap(
        count=int(row["count"]),
        lowest=int(row["lowest"]),
        highest=int(row["highest"]),
        nonzero_count=int(row["nonzero"]),
        fall_count=int(row["falls"]),
        highest_target=int(row["highest_target"]),
        distinct_target_count=int(row["distinct_targets"]),
        distinct_value_count=int(row["distinct_values"]),
    )
