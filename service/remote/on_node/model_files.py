"""What a model directory holds, without reading its weights: config.json, index, file sizes, safetensors headers."""

from __future__ import annotations

import array
import hashlib
import json
import os
import sys
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from .bounded_json import Garbled, Reader
from .hub_cache import incomplete_downloads, snapshot_of
from .safetensors import NAME_LIMIT, Header, Tensor, Unsound, fits_a_name, header_of, open_regular, read_at, read_header

CONFIG_LIMIT = 1 << 20
INDEX_LIMIT = 32 << 20
TOKENIZER_LIMIT = 64 << 20
INDEX_NAME = "model.safetensors.index.json"
FILES_LIMIT = 4000
TENSORS_LIMIT = 500000
"""So many of one model are kept in memory while it is read, about 400 bytes each; big true ones have half of that."""
LISTED_TENSORS_LIMIT = 20000
"""So many names of one model are answered; a big target asks for those of its draft layer only."""
EXAMPLES = 20
MAP_LIMIT = 4 << 20
"""The longest d2t or t2d that is read: a vocabulary of 500 000 in 64 bits."""
_MAP_TYPES = {"I64": "q", "I32": "i", "U8": "B", "BOOL": "B"}


def read_model_files(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer for each of `models` what its directory holds.

    A model is {path, revision, tensors}: `path` a directory or a hub id, `tensors` None for the names of all tensors or
    a list of texts of which a name must contain one; `{layers}` in them stands for the number of layers that
    config.json says, and `{last}` for one less. `environment` says where the hub's cache is.
    """
    return {"models": [_model(model, request["environment"]) for model in request["models"]]}


def parse_index(text: str) -> Tuple[Dict[str, str], Dict[str, Any]]:
    """Return an index's weight_map, tensor to file, and its metadata; ValueError when it is no index."""
    reader = Reader(text)
    places: Dict[str, str] = {}
    metadata: Any = None
    has_map = False
    for key in reader.members():
        if key != "weight_map":
            value = reader.value(CONFIG_LIMIT)
            metadata = value if key == "metadata" else metadata
            continue
        has_map = True
        for name in reader.members():
            file = reader.value(NAME_LIMIT)
            if not isinstance(file, str) or not file.isprintable() or not fits_a_name(name):
                raise Garbled("its weight_map holds something that is no name")
            places[name] = sys.intern(file)
    reader.end()
    if not has_map:
        raise Garbled("it has no weight_map")
    return places, metadata if isinstance(metadata, dict) else {}


def _model(model: Dict[str, Any], environment: Dict[str, str]) -> Dict[str, Any]:
    path = model["path"]
    directory = path if os.path.isabs(path) else snapshot_of(path, model["revision"], environment)
    if directory is None:
        return {"path": path, "directory": None, "problem": "not_in_cache"}
    if not os.path.isdir(directory):
        there = os.path.lexists(directory)
        return {"path": path, "directory": directory, "problem": "not_a_directory" if there else "absent"}
    try:
        names, left_out = _names(directory)
    except OSError:
        return {"path": path, "directory": directory, "problem": "unreadable"}
    config = _text_file(directory, "config.json", CONFIG_LIMIT)
    weights = _weights(directory, names)
    return {
        "path": path,
        "directory": directory,
        "problem": None,
        "config": config,
        "files": [_file(directory, name) for name in names],
        "files_left_out": left_out,
        "incomplete_downloads": incomplete_downloads(directory),
        "index": _index(directory, weights) if INDEX_NAME in names else None,
        "weights": [weight.answer for weight in weights],
        **_tensors(weights, _wanted(model["tensors"], config["text"])),
        "tokenizer_sha256": _digest(os.path.join(directory, "tokenizer.json")),
        "d2t": _map_facts(directory, weights, "d2t"),
        "t2d": _map_facts(directory, weights, "t2d"),
    }


class _Weight(NamedTuple):
    name: str
    header: Optional[Header]
    answer: Dict[str, Any]


def _names(directory: str) -> Tuple[List[str], int]:
    """Return the printable names in a directory, sorted, and how many more there are."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    fit = sorted(name for name in names if name.isprintable())
    return fit[:FILES_LIMIT], len(names) - len(fit[:FILES_LIMIT])


def _file(directory: str, name: str) -> Dict[str, Any]:
    path = os.path.join(directory, name)
    try:
        size = os.stat(path).st_size
    except OSError:
        return {"name": name, "size": None, "is_directory": False}
    return {"name": name, "size": size, "is_directory": os.path.isdir(path)}


def _text_file(directory: str, name: str, limit: int) -> Dict[str, Any]:
    """Return a file's text, or why there is none: absent, too_large, not_text, or any problem of opening it."""
    path = os.path.join(directory, name)
    if not os.path.lexists(path):
        return {"text": None, "problem": "absent", "detail": "there is no %s" % name}
    try:
        text = _read_limited(path, limit).decode("utf-8-sig")
    except Unsound as unsound:
        return {"text": None, "problem": unsound.problem, "detail": unsound.detail}
    except UnicodeDecodeError:
        return {"text": None, "problem": "not_text", "detail": "it is not UTF-8"}
    return {"text": text, "problem": None, "detail": None}


def _read_limited(path: str, limit: int) -> bytes:
    descriptor = open_regular(path)
    try:
        raw = read_at(descriptor, limit + 1, 0)
    finally:
        os.close(descriptor)
    if len(raw) > limit:
        raise Unsound("too_large", "it is longer than %d bytes" % limit)
    return raw


def _digest(path: str) -> Optional[str]:
    """Return a digest of a file, None when it cannot be read or is longer than any tokenizer."""
    try:
        return hashlib.sha256(_read_limited(path, TOKENIZER_LIMIT)).hexdigest()
    except Unsound:
        return None


def _weights(directory: str, names: Iterable[str]) -> List[_Weight]:
    """Read the headers; of the file with which the tensors become too many, and of those behind it, nothing is kept."""
    weights: List[_Weight] = []
    room = TENSORS_LIMIT
    for name in names:
        if name.endswith(".safetensors"):
            weight = _weight(directory, name, room)
            room -= len(weight.header.tensors) if weight.header else 0
            weights.append(weight)
    return weights


def _weight(directory: str, name: str, room: int) -> _Weight:
    answer: Dict[str, Any] = {"name": name, "problem": None, "detail": None}
    try:
        header = _header(os.path.join(directory, name), room)
    except Unsound as unsound:
        answer.update(problem=unsound.problem, detail=unsound.detail)
        return _Weight(name, None, answer)
    sums: Dict[str, int] = {}
    for tensor in header.tensors:
        sums[tensor.dtype] = sums.get(tensor.dtype, 0) + tensor.end - tensor.begin
    answer.update(
        tensor_count=len(header.tensors),
        header_bytes=header.data_at,
        bytes_by_dtype=sums,
        duplicates=header.duplicates[:EXAMPLES],
    )
    return _Weight(name, header, answer)


def _header(path: str, room: int) -> Header:
    header = read_header(path)
    if len(header.tensors) > room:
        raise Unsound("too_many_tensors", "with it the model has more than %d tensors" % TENSORS_LIMIT)
    return header


def _wanted(parts: Optional[Sequence[str]], config_text: Optional[str]) -> Optional[List[str]]:
    """Put the number of layers into the texts that names are chosen by; without a number such a text chooses none."""
    if parts is None:
        return None
    layers = _layer_count(config_text)
    chosen = [part for part in parts if layers is not None or "{" not in part]
    count = layers or 0
    return [part.replace("{layers}", str(count)).replace("{last}", str(count - 1)) for part in chosen]


def _layer_count(config_text: Optional[str]) -> Optional[int]:
    try:
        config = json.loads(config_text or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(config, dict):
        return None
    inner = [config.get(key) for key in ("text_config", "llm_config", "language_config")]
    for section in (config, *inner):
        count = section.get("num_hidden_layers") if isinstance(section, dict) else None
        if type(count) is int:
            return count
    return None


def _tensors(weights: Sequence[_Weight], wanted: Optional[Sequence[str]]) -> Dict[str, Any]:
    """Return the chosen tensors as [name, dtype, shape, place of its file in `weights`], and how many were left out."""
    listed: List[List[Any]] = []
    left_out = 0
    for place, weight in enumerate(weights):
        for tensor in weight.header.tensors if weight.header else ():
            if wanted is not None and not any(part in tensor.name for part in wanted):
                continue
            if len(listed) < LISTED_TENSORS_LIMIT:
                listed.append([tensor.name, tensor.dtype, list(tensor.shape), place])
            else:
                left_out += 1
    return {"tensors": listed, "tensors_left_out": left_out, "has_all_tensors": wanted is None and not left_out}


def _index(directory: str, weights: Sequence[_Weight]) -> Dict[str, Any]:
    """Return what the index says, and where it and the headers differ."""
    text = _text_file(directory, INDEX_NAME, INDEX_LIMIT)
    answer: Dict[str, Any] = {"problem": text["problem"], "detail": text["detail"], "files": []}
    if text["text"] is None:
        return answer
    try:
        places, metadata = parse_index(text["text"])
    except ValueError as error:
        answer.update(problem="not_json", detail=str(error))
        return answer
    files = sorted(set(places.values()))
    held = {tensor.name: weight.name for weight in weights if weight.header for tensor in weight.header.tensors}
    listed = set(files)
    answer.update(
        files=files[:FILES_LIMIT],
        tensor_count=len(places),
        total_size=metadata.get("total_size") if type(metadata.get("total_size")) is int else None,
        absent=_some(name for name in places if name not in held),
        unlisted=_some(name for name, file in held.items() if file in listed and name not in places),
        misplaced=_some(name for name, file in places.items() if held.get(name, file) != file),
    )
    return answer


def _some(names: Iterable[str]) -> Dict[str, Any]:
    """Return how many there are, with a few examples."""
    kept: List[str] = []
    count = 0
    for name in names:
        count += 1
        if len(kept) < EXAMPLES:
            kept.append(name)
    return {"count": count, "examples": kept}


def _map_facts(directory: str, weights: Sequence[_Weight], part: str) -> Optional[Dict[str, Any]]:
    """Return what can be said of the values of d2t or t2d, None when there is none or it cannot be read as numbers."""
    for weight in reversed(weights):
        tensors = weight.header.tensors if weight.header else []
        tensor = next((tensor for tensor in reversed(tensors) if part in tensor.name), None)
        if weight.header and tensor and len(tensor.shape) == 1 and tensor.dtype in _MAP_TYPES:
            return _read_map(os.path.join(directory, weight.name), tensor)
    return None


def _read_map(path: str, tensor: Tensor) -> Optional[Dict[str, Any]]:
    length = tensor.end - tensor.begin
    if not 0 < length <= MAP_LIMIT:
        return None
    try:
        descriptor = open_regular(path)
        try:
            raw = read_at(descriptor, length, header_of(descriptor).data_at + tensor.begin)
        finally:
            os.close(descriptor)
    except Unsound:
        return None
    values = array.array(_MAP_TYPES[tensor.dtype])
    if len(raw) != length:
        return None
    values.frombytes(raw)
    if sys.byteorder == "big":
        values.byteswap()
    targets = [value + place for place, value in enumerate(values)]
    return {
        "count": len(values),
        "lowest": min(values),
        "highest": max(values),
        "nonzero": len(values) - values.count(0),
        "falls": sum(1 for before, after in zip(values, values[1:]) if after < before),
        "highest_target": max(targets),
        "distinct_targets": len(set(targets)),
        "distinct_values": len(set(values)),
    }
