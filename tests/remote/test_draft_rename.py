"""A checkpoint under new names: whole in a new directory or not there at all, the old one never touched."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.errors import RemoteCommandFailed
from service.remote.checkpoints import RenamedDraft
from service.remote.messages import Refusal
from service.remote.node import NodeSession
from service.remote.on_node import draft_rename
from service.remote.on_node.answering import Refused
from service.remote.on_node.draft_rename import NOTE_NAME, rename_draft
from service.remote.on_node.safetensors import read_header
from service.sglang.checks import CheckCode
from tests.sglang.speculative.checkpoints import DRAFT_CONFIG, MODELOPT, SPECFORGE, Workshop, read, write_model

RENAMES = {name: name.replace("layers.0.", "midlayer.") for name in MODELOPT if name.startswith("layers.0.")}


def fingerprint(directory: Path) -> dict[str, str]:
    return {str(p.relative_to(directory)): _hash(p) for p in sorted(directory.rglob("*")) if p.is_file()}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() + oct(path.stat().st_mode) + str(path.stat().st_mtime_ns)


def contents(directory: Path) -> dict[str, bytes]:
    """Return the data of every tensor by its name."""
    found: dict[str, bytes] = {}
    for path in sorted(directory.glob("*.safetensors")):
        header = read_header(str(path))
        data = path.read_bytes()[header.data_at :]
        found |= {tensor.name: data[tensor.begin : tensor.end] for tensor in header.tensors}
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = write_model(tmp_path / "old", DRAFT_CONFIG, MODELOPT, shards=3)
    for number, path in enumerate(sorted(directory.glob("*.safetensors"))):
        start = read_header(str(path)).data_at
        with path.open("r+b") as file:
            file.seek(start)
            file.write(bytes((number * 7 + place) % 251 for place in range(path.stat().st_size - start)))
    (directory / "tokenizer.json").write_text("{}")
    (directory / "pytorch_model.bin").write_bytes(b"\x80pickle")
    (directory / "runs").mkdir()
    return directory


def order(source: Path, destination: Path, renames: Mapping[str, str] = RENAMES) -> dict[str, Any]:
    return {"source": str(source), "destination": str(destination), "renames": dict(renames)}


def beside(destination: Path) -> list[str]:
    return sorted(path.name for path in destination.parent.iterdir())


def test_every_tensor_is_there_under_its_new_name_with_the_same_bytes(source: Path, tmp_path: Path) -> None:
    before = fingerprint(source)
    answer = rename_draft(order(source, tmp_path / "new"))
    wanted = {RENAMES.get(name, name): data for name, data in contents(source).items()}
    assert contents(tmp_path / "new") == wanted
    assert fingerprint(source) == before
    assert beside(tmp_path / "new") == ["new", "old"]
    assert answer["renamed"] == len(RENAMES)
    assert answer["left_out"] == ["pytorch_model.bin", "runs"]
    assert answer["destination"] == str(tmp_path / "new")


def test_index_and_other_files_come_along(source: Path, tmp_path: Path) -> None:
    rename_draft(order(source, tmp_path / "new"))
    old, new = (json.loads((path / "model.safetensors.index.json").read_text()) for path in (source, tmp_path / "new"))
    assert new["weight_map"] == {RENAMES.get(name, name): file for name, file in old["weight_map"].items()}
    assert new["metadata"] == old["metadata"]
    assert (tmp_path / "new" / "config.json").read_text() == (source / "config.json").read_text()
    assert (tmp_path / "new" / "tokenizer.json").exists()
    assert json.loads((tmp_path / "new" / NOTE_NAME).read_text()) == {"source": str(source), "renames": RENAMES}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o777 & ~_umask()
    assert (tmp_path / "new" / "config.json").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_rename_that_a_check_proposes_mends_the_draft(workshop: Workshop, tmp_path: Path) -> None:
    draft = workshop.draft(MODELOPT, shards=2)
    check = workshop.judge(draft, "0.5.10.post1")[CheckCode.DRAFT_WEIGHT_KEYS]
    renames = check.facts["rename"]
    assert isinstance(renames, dict)
    rename_draft(order(Path(draft.path), tmp_path / "mended", renames))
    mended = read(tmp_path / "mended")
    assert workshop.judge(mended, "0.5.10.post1")[CheckCode.DRAFT_WEIGHT_KEYS].outcome == "pass"
    assert workshop.judge(mended, "0.5.10.post1")[CheckCode.DRAFT_WEIGHT_FILES].outcome == "pass"


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "workshop")


def test_links_of_the_hubs_cache_become_files(tmp_path: Path) -> None:
    blobs = write_model(tmp_path / "blobs", DRAFT_CONFIG, MODELOPT)
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(path)
    rename_draft(order(snapshot, tmp_path / "new"))
    assert not any(path.is_symlink() for path in (tmp_path / "new").iterdir())
    assert contents(tmp_path / "new").keys() == {RENAMES.get(name, name) for name in MODELOPT}


@pytest.mark.parametrize("kind", ["file", "directory", "full directory", "dangling link", "the source"])
def test_what_is_there_is_never_written_over(source: Path, tmp_path: Path, kind: str) -> None:
    place = source if kind == "the source" else tmp_path / "new"
    if kind == "file":
        place.write_text("mine")
    elif kind == "dangling link":
        place.symlink_to(tmp_path / "nowhere")
    elif kind != "the source":
        place.mkdir()
    if kind == "full directory":
        (place / "mine").write_text("mine")
    before, names = fingerprint(tmp_path), beside(place)
    with pytest.raises(Refused) as refused:
        rename_draft(order(source, place))
    assert refused.value.code == "destination_exists"
    assert (fingerprint(tmp_path), beside(place)) == (before, names)


def test_a_name_that_somebody_takes_meanwhile_stays_theirs(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proved = draft_rename._prove

    def taken(*arguments: Any) -> None:
        proved(*arguments)
        (tmp_path / "new").mkdir()

    monkeypatch.setattr(draft_rename, "_prove", taken)
    with pytest.raises(Refused) as refused:
        rename_draft(order(source, tmp_path / "new"))
    assert refused.value.code == "destination_exists"
    assert list((tmp_path / "new").iterdir()) == []
    assert beside(tmp_path / "new") == ["new", "old"]


@pytest.mark.parametrize(
    ("renames", "told"),
    [
        ({}, "nothing to rename"),
        ({"nobody.weight": "x"}, "1 names are not in the checkpoint: nobody.weight"),
        ({"norm.weight": "fc.weight"}, "would both be fc.weight"),
        ({"norm.weight": "x\n"}, "not a tensor's name"),
        ({"norm.weight": ""}, "not a tensor's name"),
        ({"norm.weight": "__metadata__"}, "not a tensor's name"),
        ({"norm.weight": 3}, "not a tensor's name"),
        ({"norm.weight": "x" * 513}, "not a tensor's name"),
    ],
)
def test_names_that_cannot_be_are_refused(source: Path, tmp_path: Path, renames: Any, told: str) -> None:
    with pytest.raises(Refused) as refused:
        rename_draft(order(source, tmp_path / "new", renames))
    assert (refused.value.code, told in refused.value.detail) == ("order_invalid", True), refused.value.detail
    assert beside(tmp_path / "new") == ["old"]


def test_two_names_can_change_places(source: Path, tmp_path: Path) -> None:
    swap = {"norm.weight": "fc.weight", "fc.weight": "norm.weight"}
    rename_draft(order(source, tmp_path / "new", swap))
    old, new = contents(source), contents(tmp_path / "new")
    assert (new["fc.weight"], new["norm.weight"]) == (old["norm.weight"], old["fc.weight"])


@pytest.mark.parametrize("place", ["relative", "old/inside", "nowhere/new"])
def test_places_that_cannot_be_are_refused(source: Path, tmp_path: Path, place: str) -> None:
    request = order(source, tmp_path / place)
    if place == "relative":
        request["destination"] = "new"
    with pytest.raises(Refused) as refused:
        rename_draft(request)
    assert refused.value.code == "order_invalid"


def test_a_source_that_is_not_sound_is_refused(source: Path, tmp_path: Path) -> None:
    shard = min(source.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(Refused) as refused:
        rename_draft(order(source, tmp_path / "new"))
    assert (refused.value.code, shard.name in refused.value.detail) == ("checkpoint_unsound", True)
    assert beside(tmp_path / "new") == ["old"]


def test_a_source_that_changes_meanwhile_is_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = min(source.glob("*.safetensors"))
    copied = draft_rename._copy_data

    def changing(descriptor: int, output: int, offset: int) -> None:
        copied(descriptor, output, offset)
        os.utime(shard, ns=(1, 1))

    monkeypatch.setattr(draft_rename, "_copy_data", changing)
    with pytest.raises(Refused) as refused:
        rename_draft(order(source, tmp_path / "new"))
    assert refused.value.code == "checkpoint_unsound"
    assert beside(tmp_path / "new") == ["old"]


def test_holes_stay_holes_and_the_data_between_them_stays_in_place(tmp_path: Path) -> None:
    wide = (1 << 17, 64)
    shapes = {"a": wide, "layers.0.norm.weight": (1 << 14, 64), "z": wide}
    middle = bytes(place % 251 for place in range(1 << 21))
    write_model(tmp_path / "old", DRAFT_CONFIG, shapes, data={"layers.0.norm.weight": middle})
    rename_draft(order(tmp_path / "old", tmp_path / "new", {"layers.0.norm.weight": "midlayer.norm.weight"}))
    old, new = (tmp_path / name / "model.safetensors" for name in ("old", "new"))
    assert data_of(new) == data_of(old)
    assert new.stat().st_size > 2 * (1 << 24)
    assert new.stat().st_blocks * 512 < 1 << 24


def data_of(path: Path) -> bytes:
    """Return what lies behind the header."""
    return path.read_bytes()[read_header(str(path)).data_at :]


def test_room_is_made_sure_of_first(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_rename, "ROOM_SPARED", 1 << 60)
    with pytest.raises(Refused) as refused:
        rename_draft(order(source, tmp_path / "new"))
    assert refused.value.code == "no_room"
    assert beside(tmp_path / "new") == ["old"]


def test_a_disk_that_fills_up_leaves_nothing(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(draft_rename, "_copy_data", full)
    with pytest.raises(Refused) as refused:
        rename_draft(order(source, tmp_path / "new"))
    assert (refused.value.code, "No space left" in refused.value.detail) == ("no_room", True)
    assert beside(tmp_path / "new") == ["old"]


_SLOW = """
import sys, time
from service.remote.on_node import answering, draft_rename
draft_rename._copy_data = lambda *_: (print("copying", flush=True), time.sleep(60))
answering.run(draft_rename.rename_draft, {"source": sys.argv[1], "destination": sys.argv[2],
              "renames": {"norm.weight": "x"}}, int(sys.argv[3]), None)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGALRM])
def test_an_end_in_between_leaves_nothing(source: Path, tmp_path: Path, number: signal.Signals) -> None:
    limit_s = "1" if number == signal.SIGALRM else "30"
    argv = [sys.executable, "-c", _SLOW, str(source), str(tmp_path / "new"), limit_s]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"copying\n"
        assert len(beside(tmp_path / "new")) == 2
        began = time.monotonic()
        if number != signal.SIGALRM:
            process.send_signal(number)
        said = process.stdout.read()
    assert time.monotonic() - began < 10
    assert b"Interrupted" in said
    assert beside(tmp_path / "new") == ["old"]


async def test_a_draft_is_renamed_over_ssh(node: NodeSession, source: Path, tmp_path: Path) -> None:
    renamed = await node.rename_draft(str(source), str(tmp_path / "new"), RENAMES)
    names = tuple(sorted(path.name for path in source.glob("*.safetensors")))
    sizes = sum((source / name).stat().st_size for name in names)
    assert renamed == RenamedDraft(str(tmp_path / "new"), names, len(RENAMES), sizes, renamed.left_out)
    assert {tensor.name for tensor in read(tmp_path / "new").tensors} == set(SPECFORGE) - {"t2d"}
    with pytest.raises(RemoteCommandFailed) as failed:
        await node.rename_draft(str(source), str(tmp_path / "new"), RENAMES)
    assert failed.value.context["refusal"] is Refusal.DESTINATION_EXISTS


async def test_why_a_node_refuses_a_rename(node: NodeSession, source: Path, tmp_path: Path) -> None:
    with pytest.raises(RemoteCommandFailed) as absent:
        await node.rename_draft(str(source), str(tmp_path / "new"), {"nothing.weight": "x.weight"})
    assert absent.value.context["refusal"] is Refusal.ORDER_INVALID
    shard = min(source.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(RemoteCommandFailed) as unsound:
        await node.rename_draft(str(source), str(tmp_path / "new"), RENAMES)
    assert unsound.value.context["refusal"] is Refusal.CHECKPOINT_UNSOUND
    assert beside(tmp_path / "new") == ["old"]
