"""What a node says of model directories: true ones, broken ones, and ones that lie about themselves."""

import json
import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.remote.checkpoints import ModelWish
from service.remote.node import NodeSession
from service.remote.on_node import safetensors
from service.remote.on_node.model_files import read_model_files
from service.remote.on_node.safetensors import HEADER_LIMIT, Unsound, header_bytes, read_header
from service.sglang.model_files import ALL_TENSORS, FileProblem, ModelFiles, PathProblem
from tests.sglang.speculative.checkpoints import (
    DRAFT_CONFIG,
    SPECFORGE,
    TARGET_CONFIG,
    read,
    write_model,
    write_safetensors,
)

GOOD = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}


def raw(header: object, data: bytes = b"\0" * 12, *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": {**GOOD, **changes}}


LIES: Mapping[str, tuple[bytes, FileProblem]] = {
    "empty": (b"", FileProblem.TOO_SMALL),
    "seven bytes": (b"\0" * 7, FileProblem.TOO_SMALL),
    "a length of 2^63": (raw(b"{}", length=1 << 63), FileProblem.HEADER_CUT_OFF),
    "a length of 2^64-1": (raw(b"{}", length=(1 << 64) - 1), FileProblem.HEADER_CUT_OFF),
    "a length beyond the file": (raw(b"{}", b"", length=3), FileProblem.HEADER_CUT_OFF),
    "a length that cuts the header": (raw(entry(), length=20), FileProblem.HEADER_NOT_JSON),
    "a git LFS pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        FileProblem.LFS_POINTER,
    ),
    "no JSON": (raw(b"hello"), FileProblem.HEADER_NOT_JSON),
    "no UTF-8": (raw(b'{"\xff": 1}'), FileProblem.HEADER_NOT_JSON),
    "a list": (raw(b"[]", b""), FileProblem.HEADER_NOT_JSON),
    "text behind the object": (raw(b"{} {}", b""), FileProblem.HEADER_NOT_JSON),
    "NULs behind the object": (raw(b"{}\0\0", b""), FileProblem.HEADER_NOT_JSON),
    "nested without end": (raw(b'{"a":' + b"[" * 200_000), FileProblem.HEADER_NOT_JSON),
    "metadata of numbers": (raw({"__metadata__": {"a": 1}}, b""), FileProblem.ENTRY_INVALID),
    "an entry that is a number": (raw({"a": 3}), FileProblem.ENTRY_INVALID),
    "no shape": (raw({"a": {"dtype": "BF16", "data_offsets": [0, 12]}}), FileProblem.ENTRY_INVALID),
    "a negative extent": (raw(entry(shape=[-2, -3])), FileProblem.ENTRY_INVALID),
    "a fractional extent": (raw(entry(shape=[2.0, 3])), FileProblem.ENTRY_INVALID),
    "extents that are true": (raw(entry(shape=[True, 6])), FileProblem.ENTRY_INVALID),
    "sixty extents": (raw(entry(shape=[1] * 60)), FileProblem.ENTRY_INVALID),
    "a dtype of tomorrow": (raw(entry(dtype="F2")), FileProblem.DTYPE_UNKNOWN),
    "NaN offsets": (raw(b'{"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[NaN,12]}}'), FileProblem.HEADER_NOT_JSON),
    "infinite offsets": (
        raw(b'{"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,Infinity]}}'),
        FileProblem.HEADER_NOT_JSON,
    ),
    "offsets of 1e400": (
        raw(b'{"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,1e400]}}'),
        FileProblem.OFFSET_INVALID,
    ),
    "offsets of a hundred digits": (raw(entry(data_offsets=[0, 10**100])), FileProblem.OFFSET_INVALID),
    "offsets of five thousand digits": (
        raw(b'{"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,' + b"9" * 5000 + b"]}}"),
        FileProblem.HEADER_NOT_JSON,
    ),
    "one offset": (raw(entry(data_offsets=[12])), FileProblem.OFFSET_INVALID),
    "offsets as text": (raw(entry(data_offsets=["0", "12"])), FileProblem.OFFSET_INVALID),
    "offsets the wrong way": (raw(entry(data_offsets=[12, 0])), FileProblem.SIZE_MISMATCH),
    "more bytes than the shape": (raw(entry(data_offsets=[0, 14])), FileProblem.SIZE_MISMATCH),
    "a shape beyond all files": (raw(entry(shape=[2**60, 2**60])), FileProblem.SIZE_MISMATCH),
    "a hole at the start": (raw(entry(data_offsets=[4, 16]), b"\0" * 16), FileProblem.OFFSET_INVALID),
    "a hole between": (
        raw({**entry(), "b": {**GOOD, "data_offsets": [14, 26]}}, b"\0" * 26),
        FileProblem.OFFSET_INVALID,
    ),
    "an overlap": (raw({**entry(), "b": {**GOOD, "data_offsets": [6, 18]}}, b"\0" * 18), FileProblem.OFFSET_INVALID),
    "the same bytes twice": (raw({**entry(), "b": GOOD}), FileProblem.OFFSET_INVALID),
    "data cut off": (raw(entry(), b"\0" * 11), FileProblem.FILE_CUT_OFF),
    "data too long": (raw(entry(), b"\0" * 13), FileProblem.TRAILING_BYTES),
    "half a byte": (raw({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}}), FileProblem.SIZE_MISMATCH),
    "a name with an escape": (raw({"\x1b[2J": GOOD}), FileProblem.NAME_INVALID),
    "a name of a thousand": (raw({"a" * 1000: GOOD}), FileProblem.NAME_INVALID),
    "no name": (raw({"": GOOD}), FileProblem.NAME_INVALID),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_told_and_goes_no_further(tmp_path: Path, name: str) -> None:
    content, problem = LIES[name]
    write_model(tmp_path, DRAFT_CONFIG, SPECFORGE)
    (tmp_path / "lie.safetensors").write_bytes(content)
    (lie, good) = read(tmp_path).weights
    assert (lie.problem, good.problem) == (problem, None)
    assert lie.detail
    assert len(lie.detail) < 600
    assert lie.detail.isprintable()


TRUTHS: Mapping[str, bytes] = {
    "no tensors": raw({}, b""),
    "blanks around": raw(b'  {"a" : {"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]} } \n  '),
    "any order": raw({"b": {**GOOD, "data_offsets": [12, 24]}, **entry()}, b"\0" * 24),
    "a scalar": raw({"a": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}}, b"\0" * 8),
    "an empty tensor": raw({"a": {"dtype": "I64", "shape": [0, 5], "data_offsets": [0, 0]}}, b""),
    "an empty one before another": raw({"b": GOOD, "a": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}),
    "four bits": raw({"a": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}}, b"\0" * 2),
    "fields of tomorrow": raw(entry(quantization={"scale": [1]})),
    "metadata": raw({"__metadata__": {"format": "pt"}, **entry()}),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_what_the_reference_reader_takes_is_taken(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.safetensors").write_bytes(TRUTHS[name])
    assert read_header(str(tmp_path / "a.safetensors")).size == len(TRUTHS[name])


def test_a_name_that_comes_twice_is_told(tmp_path: Path) -> None:
    one = json.dumps(GOOD)
    (tmp_path / "a.safetensors").write_bytes(raw(f'{{"a":{one},"a":{one}}}'.encode()))
    assert read(tmp_path).weights[0].duplicates == ("a",)


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_bytes_are_a_header_or_unsound(tmp_path_factory: pytest.TempPathFactory, text: bytes, length: int) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes(struct.pack("<Q", length) + text)
    try:
        header = read_header(str(path))
    except Unsound as unsound:
        FileProblem(unsound.problem)
    else:
        assert header.size == 8 + len(text)


NAMES = st.text(min_size=1, max_size=20).filter(safetensors.fits_a_name)
FORMS = st.tuples(st.sampled_from(["U8", "BF16", "F32", "I64"]), st.lists(st.integers(0, 3), max_size=3))


@settings(deadline=None)
@given(st.dictionaries(NAMES, FORMS, max_size=5), st.dictionaries(st.text(), st.text(), max_size=2))
def test_a_header_that_is_written_reads_back(
    tmp_path_factory: pytest.TempPathFactory,
    forms: dict[str, tuple[str, list[int]]],
    metadata: dict[str, str],
) -> None:
    tensors = []
    at = 0
    for name, (dtype, shape) in forms.items():
        size = safetensors.BITS[dtype] // 8
        for extent in shape:
            size *= extent
        tensors.append(safetensors.Tensor(name, dtype, tuple(shape), at, at + size))
        at += size
    path = tmp_path_factory.getbasetemp() / "written.safetensors"
    path.write_bytes(header_bytes(tensors, metadata) + b"\0" * at)
    header = read_header(str(path))
    assert header.tensors == sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end))
    assert header.metadata == metadata
    assert header.data_at % 8 == 0


BOMBS: Mapping[str, Callable[[], bytes]] = {
    "objects": lambda: b'{"__metadata__":[' + b"{}," * ((HEADER_LIMIT - 40) // 3) + b"{}]}",
    "depth": lambda: b'{"a":' + b"[" * (HEADER_LIMIT - 10),
    "a name": lambda: b'{"' + b"a" * (HEADER_LIMIT - 10) + b'":1}',
    "blanks": lambda: b"{" + b" " * (HEADER_LIMIT - 2) + b"}",
    "entries": lambda: (
        b"{" + b",".join(b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % n for n in range(250_000)) + b"}"
    ),
}
_MEASURED = """
import json, sys
from service.remote.on_node.model_files import read_model_files
answer = read_model_files({"models": [{"path": sys.argv[1], "revision": None, "tensors": []}], "environment": {}})
weight = answer["models"][0]["weights"][0]
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([weight["problem"], int(peak.split()[1]) // 1024]))
"""
MEMORY_MIB = 200


@pytest.mark.parametrize("name", BOMBS)
def test_a_header_as_long_as_is_allowed_costs_little_time_and_memory(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.safetensors").write_bytes(raw(BOMBS[name](), b""))
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(tmp_path)], capture_output=True, check=True, cwd=Path.cwd()
    )
    problem, used_mib = json.loads(done.stdout)
    assert (problem is None) == (name == "blanks")
    assert used_mib < MEMORY_MIB
    assert time.monotonic() - began < 20


def test_a_header_longer_than_is_allowed_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", HEADER_LIMIT + 1))
        file.truncate(1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_inblock
    assert read(tmp_path).weights[0].problem is FileProblem.HEADER_TOO_LARGE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_inblock - before < 1000


def test_only_headers_are_read(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a.safetensors", {"w": (1 << 20, 1 << 19)})
    model = read(tmp_path)
    assert model.weight_bytes == 1 << 40
    assert [(tensor.name, tensor.shape) for tensor in model.tensors] == [("w", (1 << 20, 1 << 19))]


def test_pipes_and_devices_do_not_hold_it_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").symlink_to("/dev/zero")
    (tmp_path / "c.safetensors").mkdir()
    os.mkfifo(tmp_path / "config.json")
    model = read(tmp_path)
    assert [file.problem for file in model.weights] == [FileProblem.UNREADABLE] * 3
    assert model.config_problem == "it is not a regular file"


def test_what_the_user_may_not_read(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a.safetensors", {"w": (1,)})
    (tmp_path / "a.safetensors").chmod(0)
    problem = read(tmp_path).weights[0].problem
    assert problem is (None if os.geteuid() == 0 else FileProblem.UNREADABLE)


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1])
def test_a_config_is_read_up_to_a_length(tmp_path: Path, size: int) -> None:
    (tmp_path / "config.json").write_text('{"a":"' + "é" * ((size - 8) // 2) + "x" * (size % 2) + '"}')
    model = read(tmp_path)
    assert (model.config is None) == (size > 1 << 20)
    assert (model.config_problem or "").startswith("it is longer") == (size > 1 << 20)


def hub(root: Path, *, revision: str = "main") -> Path:
    """Lay a model out as the hub's client does: blobs, and a snapshot of links."""
    home = root / "hub" / "models--org--name"
    blobs, snapshot = home / "blobs", home / "snapshots" / "abc123"
    for directory in (blobs, snapshot, home / "refs"):
        directory.mkdir(parents=True)
    (home / "refs" / revision).write_text("abc123\n")
    write_model(blobs, DRAFT_CONFIG, SPECFORGE)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).symlink_to(Path("../../blobs") / name)
    return snapshot


def test_a_model_of_the_hub_is_found_in_the_cache_through_its_links(tmp_path: Path) -> None:
    snapshot = hub(tmp_path)
    model = read("org/name", HF_HOME=str(tmp_path))
    assert (model.directory, model.problem) == (str(snapshot), None)
    assert {tensor.name for tensor in model.tensors} == set(SPECFORGE)
    assert model.sizes["model.safetensors"] == (snapshot / "model.safetensors").stat().st_size
    assert read("org/name", HF_HUB_CACHE=str(tmp_path / "hub")).problem is None


def test_a_download_that_was_interrupted(tmp_path: Path) -> None:
    snapshot = hub(tmp_path)
    blob = snapshot / "model.safetensors"
    blob.resolve().rename(blob.resolve().with_suffix(".incomplete"))
    model = read("org/name", HF_HOME=str(tmp_path))
    assert model.weights[0].problem is FileProblem.DANGLING_LINK
    assert model.incomplete_download_count == 1


@pytest.mark.parametrize("path", ["org/other", "../../etc", "org/../name", "a/b/c", "", "org/na me", "."])
def test_what_is_not_in_the_cache(tmp_path: Path, path: str) -> None:
    hub(tmp_path)
    assert read(path, HF_HOME=str(tmp_path)).problem is PathProblem.NOT_IN_CACHE


def test_a_revision_may_not_lead_out_of_the_cache(tmp_path: Path) -> None:
    hub(tmp_path)
    request = {"path": "org/name", "revision": "../../../../etc", "tensors": None}
    answer = read_model_files({"models": [request], "environment": {"HF_HOME": str(tmp_path)}})
    assert answer["models"][0]["problem"] == "not_in_cache"


def test_more_tensors_than_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.remote.on_node.model_files.LISTED_TENSORS_LIMIT", 5)
    write_model(tmp_path, DRAFT_CONFIG, SPECFORGE)
    model = read(tmp_path)
    assert (len(model.tensors), model.has_all_tensors) == (5, False)
    assert model.weights[0].tensor_count == len(SPECFORGE)


def test_many_files_of_many_tensors_are_not_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.remote.on_node.model_files.TENSORS_LIMIT", 5)
    for number, count in enumerate((3, 3, 2, 1)):
        write_safetensors(tmp_path / f"{number}.safetensors", {f"{number}.{place}": (1,) for place in range(count)})
    model = read(tmp_path)
    problems = [file.problem for file in model.weights]
    assert problems == [None, FileProblem.TOO_MANY_TENSORS, None, FileProblem.TOO_MANY_TENSORS]
    assert model.weights[1].detail == "with it the model has more than 5 tensors"
    assert [tensor.name for tensor in model.tensors] == ["0.0", "0.1", "0.2", "2.0", "2.1"]


async def test_models_are_read_over_ssh(node: NodeSession, tmp_path: Path) -> None:
    write_model(tmp_path / "draft", DRAFT_CONFIG, SPECFORGE, shards=2)
    snapshot = hub(tmp_path)
    wishes = [
        ModelWish(str(tmp_path / "draft"), tensors=ALL_TENSORS),
        ModelWish(str(tmp_path / "nowhere")),
        ModelWish("org/name", "main", ALL_TENSORS),
    ]
    draft, nowhere, cached = await node.read_model_files(wishes, environment={"HF_HOME": str(tmp_path)})
    assert {tensor.name for tensor in draft.loaded_tensors} == set(SPECFORGE)
    assert nowhere == ModelFiles(str(tmp_path / "nowhere"), str(tmp_path / "nowhere"), PathProblem.ABSENT)
    assert (cached.problem, cached.directory) == (None, str(snapshot))


async def test_of_a_target_only_its_draft_layer_is_listed(node: NodeSession, tmp_path: Path) -> None:
    shapes = {f"model.layers.{number}.mlp.weight": (4, 4) for number in (0, 31, 32)} | {"model.mtp.fc.weight": (4, 4)}
    write_model(tmp_path / "target", TARGET_CONFIG, shapes)
    (target,) = await node.read_model_files([ModelWish(str(tmp_path / "target"))], environment={})
    assert [tensor.name for tensor in target.tensors] == [
        "model.layers.31.mlp.weight",
        "model.layers.32.mlp.weight",
        "model.mtp.fc.weight",
    ]
    assert (target.has_all_tensors, target.weight_bytes) == (False, 4 * 32)
