"""A draft whose tensors have names that its engine does not know is written anew on its node, through the API."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.sglang.speculative.mending import mend
from tests.fleet.conftest import World
from tests.sglang.speculative.checkpoints import DRAFT_CONFIG, MODELOPT, SPECFORGE, Shapes, read, write_model

OLD_ENGINE = "0.5.10.post1"
PATH = "/nodes/atlas/draft-renames"
WRAPPED: Shapes = {f"draft_model.{name}": shape for name, shape in MODELOPT.items()}
"""No release takes these."""


@pytest.fixture
async def old(world: World) -> Path:
    """Give a draft of two shards on atlas, named as older engines do not know it."""
    await world.take_in(world.atlas)
    return write_model(world.atlas.models / "old", DRAFT_CONFIG, MODELOPT, shards=2)


def wish(source: Path, /, **changes: object) -> dict[str, object]:
    body = {"source": str(source), "destination": str(source.parent / "new"), "engine_version": OLD_ENGINE, **changes}
    return {name: value for name, value in body.items() if value is not None}


def contents(directory: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def test_the_names_are_found_and_the_draft_is_whole_under_them(world: World, old: Path) -> None:
    before = contents(old)
    renamed = await world.post(PATH, wish(old), expect=200)
    new = old.parent / "new"
    assert renamed["patterns"] == ["layers.0.* -> midlayer.* (10)"]
    assert (renamed["is_written"], renamed["destination"], renamed["node"]) == (True, str(new), "atlas")
    assert (renamed["engine_version"], renamed["judged_as"], renamed["note"]) == (OLD_ENGINE, "0.5.10", None)
    assert (renamed["draft_class"], renamed["still_missing"]) == ("LlamaForCausalLMEagle3", [])
    assert renamed["weight_files"] == sorted(path.name for path in new.glob("*.safetensors"))
    shapes = {tensor.name: tensor.shape for tensor in read(new).loaded_tensors}
    assert shapes == {name: shape for name, shape in SPECFORGE.items() if name != "t2d"}
    assert mend(read(new), OLD_ENGINE).renaming is None
    assert mend(read(new), OLD_ENGINE).unknown is None
    assert contents(old) == before
    assert sorted(path.name for path in old.parent.iterdir()) == ["new", "old", "tiny-llama"]


async def test_a_dry_run_writes_nothing(world: World, old: Path) -> None:
    planned = await world.post(PATH, wish(old, dry_run=True), expect=200)
    assert (planned["is_written"], planned["weight_files"], planned["weight_bytes"]) == (False, [], None)
    assert planned["renames"]["layers.0.hidden_norm.weight"] == "midlayer.hidden_norm.weight"
    assert not (old.parent / "new").exists()


async def test_the_engine_of_a_profile_decides(world: World, old: Path) -> None:
    body = {"name": "p", "recipe": world.recipe()}
    await world.post("/profiles", body, expect=201)
    problem = await world.post(PATH, wish(old, engine_version=None, profile="p"), expect=409)
    assert problem["code"] == "nothing_to_rename"
    assert "LlamaForCausalLMEagle3 of SGLang 0.5.23 gets all that it needs" in problem["detail"]
    wrapped = write_model(world.atlas.models / "wrapped", DRAFT_CONFIG, WRAPPED)
    renamed = await world.post(PATH, wish(wrapped, engine_version=None, profile="p"), expect=200)
    assert renamed["engine_version"] == "0.5.23"
    assert renamed["renames"]["draft_model.fc.weight"] == "fc.weight"


async def test_a_version_that_was_not_read_is_judged_by_its_neighbour_and_that_is_said(world: World, old: Path) -> None:
    renamed = await world.post(PATH, wish(old, engine_version="0.5.12"), expect=200)
    assert renamed["judged_as"] == "0.5.10"
    assert "0.5.12 lies between 0.5.10 and 0.5.16" in renamed["note"]


async def test_names_of_ones_own(world: World, old: Path) -> None:
    renames = {"norm.weight": "final_norm.weight"}
    renamed = await world.post(PATH, wish(old, engine_version=None, renames=renames), expect=200)
    assert (renamed["renames"], renamed["patterns"]) == (renames, ["norm.* -> final_norm.* (1)"])
    assert (renamed["engine_version"], renamed["judged_as"]) == (None, None)
    names = {tensor.name for tensor in read(old.parent / "new").tensors}
    assert names == (set(MODELOPT) - {"norm.weight"}) | {"final_norm.weight"}


async def test_names_that_cannot_be_changed_so(world: World, old: Path) -> None:
    absent, doubled = {"norm.wait": "norm.weight"}, {"norm.weight": "fc.weight"}
    for renames, told in ((absent, "there is no tensor norm.wait"), (doubled, "2 tensors would be fc.weight")):
        for is_dry in (True, False):
            body = wish(old, engine_version=None, renames=renames, dry_run=is_dry)
            problem = await world.post(PATH, body, expect=422)
            assert problem["code"] == "invalid_input"
            assert told in problem["detail"]
    assert not (old.parent / "new").exists()


async def test_nothing_is_written_over(world: World, old: Path) -> None:
    new = old.parent / "new"
    new.mkdir()
    problem = await world.post(PATH, wish(old), expect=409)
    assert (problem["code"], list(new.iterdir())) == ("destination_exists", [])
    new.rmdir()
    new.symlink_to("nowhere")
    assert (await world.post(PATH, wish(old), expect=409))["code"] == "destination_exists"
    assert new.is_symlink()


async def test_a_draft_that_lacks_weights_is_not_mended_by_names(world: World, old: Path) -> None:
    shapes = {name: shape for name, shape in SPECFORGE.items() if name != "fc.weight"}
    lacking = write_model(old.parent / "lacking", DRAFT_CONFIG, shapes)
    problem = await world.post(PATH, wish(lacking), expect=409)
    assert problem["code"] == "renaming_unknown"
    assert "LlamaForCausalLMEagle3 of SGLang 0.5.10 gets nothing for fc.weight" in problem["detail"]


async def test_what_is_not_known_is_said(world: World, old: Path) -> None:
    for name, config, told in (
        ("odd", {"architectures": ["OddForCausalLM"]}, "how SGLang 0.5.10 loads OddForCausalLM is not known"),
        ("inner", {"architectures": ["DeepseekV3ForCausalLM"]}, "a layer that comes with its target"),
        ("packed", {"quantization_config": {"quant_method": "fp8"}}, "quantised (fp8)"),
    ):
        write_model(old.parent / name, {**DRAFT_CONFIG, **config}, MODELOPT)
        problem = await world.post(PATH, wish(old.parent / name), expect=409)
        assert problem["code"] == "renaming_unknown"
        assert told in problem["detail"]


async def test_a_checkpoint_that_is_not_whole_is_refused(world: World, old: Path) -> None:
    shard = min(old.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    problem = await world.post(PATH, wish(old), expect=409)
    assert problem["code"] == "checkpoint_unsound"
    assert shard.name in problem["detail"]
    shard.unlink()
    problem = await world.post(PATH, wish(old), expect=409)
    assert (problem["code"], shard.name in problem["detail"]) == ("checkpoint_unsound", True)
    assert not (old.parent / "new").exists()


async def test_a_disk_without_room_is_told_before_anything_is_copied(world: World, old: Path) -> None:
    huge = write_model(old.parent / "huge", DRAFT_CONFIG, {**MODELOPT, "extra.weight": (1 << 22, 1 << 20)})
    problem = await world.post(PATH, wish(huge), expect=409)
    assert problem["code"] == "no_room"
    assert "MiB are free" in problem["detail"]
    assert sorted(path.name for path in old.parent.iterdir()) == ["huge", "old", "tiny-llama"]


async def test_wishes_that_cannot_be(world: World, old: Path) -> None:
    one_of = "give one of profile, engine_version and renames"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"source": "/not/there"}, "there is no /not/there on the node"),
        ({"source": "org/never-downloaded"}, "not in the node's cache"),
        ({"destination": "/not/there/new"}, "there is no directory /not/there"),
        ({"destination": str(old / "new")}, "inside the checkpoint itself"),
        ({"destination": "relative"}, "body.destination"),
        ({"engine_version": None}, one_of),
        ({"profile": "p"}, one_of),
        ({"engine_version": "newest"}, "body.engine_version"),
        ({"engine_version": None, "renames": {}}, "body.renames"),
    ]
    for changes, told in wrong:
        problem = await world.post(PATH, wish(old, **changes), expect=422)
        assert problem["code"] == "invalid_input"
        assert told in problem["detail"]


async def test_node_and_profile_must_exist(world: World, old: Path) -> None:
    assert (await world.post("/nodes/nowhere/draft-renames", wish(old), expect=404))["code"] == "not_found"
    assert (await world.post(PATH, wish(old, engine_version=None, profile="no"), expect=404))["code"] == "not_found"


async def test_one_key_one_copy(world: World, old: Path) -> None:
    answers = await asyncio.gather(*(world.api.call("POST", PATH, wish(old), key="k") for _ in range(3)))
    done = [document for status, document in answers if status == 200]
    assert done
    assert {document["code"] for status, document in answers if status != 200} <= {"destination_exists"}
    status, again = await world.api.call("POST", PATH, wish(old), key="k")
    assert (status, again) == (200, done[0])
    status, problem = await world.api.call("POST", PATH, wish(old, dry_run=True), key="k")
    assert (status, problem["code"]) == (422, "idempotency_key_reused")
