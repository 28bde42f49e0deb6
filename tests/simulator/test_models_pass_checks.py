"""The models of the embedded fleet under the checks of a preflight: they pass, but for those whose story is a fault."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from service.remote.on_node.model_files import read_model_files
from service.sglang.arguments import ArgumentValue
from service.sglang.checks import Check, CheckCode, Outcome
from service.sglang.model_checks import check_model
from service.sglang.model_files import ALL_TENSORS, DRAFT_LAYER_TENSORS, ModelFiles, parse_model_files
from service.sglang.speculative.arguments import check_speculative_arguments, draft_source
from service.sglang.speculative.draft_checks import check_draft
from service.simulator.demo import DEMO_NODES, demo_fleet, profile_bodies
from service.simulator.models import write_model
from service.simulator.specs import ENGINE_VERSIONS, KIMI_EAGLE3, KIMI_LIKE, ModelSpec
from tests.scenarios.conftest import MISNAMED_DRAFT, SHORT_DRAFT, SPECS, THREE_NUMBERS

RTX_MIB = 97000
EAGLE3: Mapping[str, ArgumentValue] = {"tp-size": 8, "speculative-algorithm": "EAGLE3", "speculative-num-steps": 3}
TARGETS = {model.name: model for node in (*DEMO_NODES, *SPECS) for model in node.models if not model.draft_layer_prefix}
DRAFTS = {model.name: model for node in (*DEMO_NODES, *SPECS) for model in node.models if model.draft_layer_prefix}


def read(path: Path | str, *, tensors: tuple[str, ...] | None) -> ModelFiles:
    """Return what the node's verb says of a directory, through the JSON that travels."""
    wish = {"path": str(path), "revision": None, "tensors": tensors}
    answer = read_model_files({"models": [wish], "environment": {}})
    return parse_model_files(json.loads(json.dumps(answer))["models"][0])


def written(spec: ModelSpec, root: Path) -> Path:
    write_model(spec, root / spec.name)
    return root / spec.name


def bad(checks: Iterable[Check]) -> dict[CheckCode, str]:
    return {check.code: check.found for check in checks if check.outcome in {Outcome.WARN, Outcome.FAIL}}


@pytest.fixture(scope="module")
def kimi(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    return read(written(KIMI_LIKE, tmp_path_factory.mktemp("kimi")), tensors=DRAFT_LAYER_TENSORS)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("version", ENGINE_VERSIONS)
def test_every_target_passes_all_checks(tmp_path: Path, name: str, version: str) -> None:
    spec = TARGETS[name]
    split = 8 if spec.shard_count > 8 else 1
    model = read(written(spec, tmp_path), tensors=DRAFT_LAYER_TENSORS)
    checks = check_model(model, {"tp-size": split}, engine_version=version, gpu_free_mib=[RTX_MIB] * split)
    assert bad(checks) == {}
    assert {check.outcome for check in checks} == {Outcome.PASS}


def test_the_big_model_is_packed_as_four_bit_weights_are(kimi: ModelFiles) -> None:
    assert set(kimi.bytes_by_dtype) == {"I32", "BF16"}
    assert kimi.config is not None
    assert kimi.config.quantization == "compressed-tensors"
    packed = 61 * 384 * 3 * 7168 * 2048 // 2
    assert kimi.bytes_by_dtype["I32"] == packed
    assert 560 * 10**9 < kimi.weight_bytes < 620 * 10**9
    assert sum(size or 0 for name, size in kimi.sizes.items() if name.endswith("safetensors")) > kimi.weight_bytes


@pytest.mark.parametrize("version", ENGINE_VERSIONS)
def test_the_draft_that_fits_passes_all_checks(tmp_path: Path, kimi: ModelFiles, version: str) -> None:
    draft = read(written(KIMI_EAGLE3, tmp_path), tensors=ALL_TENSORS)
    assert bad(check_draft(kimi, draft, EAGLE3, version)) == {}
    (token_map,) = [tensor for tensor in draft.tensors if tensor.name == "d2t"]
    assert (token_map.dtype, token_map.shape) == ("I64", (32000,))
    assert draft.d2t is not None
    assert (draft.d2t.lowest, draft.d2t.distinct_target_count) == (0, 32000)


@pytest.mark.parametrize("version", ENGINE_VERSIONS)
def test_the_misnamed_draft_of_scenario_a_is_mended_by_its_rename(
    tmp_path: Path, kimi: ModelFiles, version: str
) -> None:
    draft = read(written(MISNAMED_DRAFT, tmp_path), tensors=ALL_TENSORS)
    found = {check.code: check for check in check_draft(kimi, draft, EAGLE3, version)}
    if version != "0.5.10.post1":
        assert bad(found.values()) == {}
        return
    assert set(bad(found.values())) == {CheckCode.DRAFT_WEIGHT_KEYS}
    keys = found[CheckCode.DRAFT_WEIGHT_KEYS]
    assert keys.outcome is Outcome.FAIL
    assert keys.facts["rename_patterns"] == ["layers.0.* -> midlayer.* (10)"]
    assert [tensor.shape for tensor in draft.tensors if tensor.name == "fc.weight"] == [(7168, 21504)]


@pytest.mark.parametrize("version", ENGINE_VERSIONS)
def test_the_short_draft_of_scenario_d_fails_by_its_context_alone(
    tmp_path: Path, kimi: ModelFiles, version: str
) -> None:
    draft = read(written(SHORT_DRAFT, tmp_path), tensors=ALL_TENSORS)
    checks = check_draft(kimi, draft, EAGLE3, version)
    assert set(bad(checks)) == {CheckCode.DRAFT_CONTEXT_LENGTH}
    assert "262144 tokens would be served" in bad(checks)[CheckCode.DRAFT_CONTEXT_LENGTH]
    assert "the draft takes 131072" in bad(checks)[CheckCode.DRAFT_CONTEXT_LENGTH]


def test_no_other_draft_lies_on_the_fleets() -> None:
    assert set(DRAFTS) == {KIMI_EAGLE3.name, MISNAMED_DRAFT.name, SHORT_DRAFT.name}


async def test_every_profile_of_the_demo_passes_the_checks_of_its_models(tmp_path: Path) -> None:
    async with demo_fleet(tmp_path / "fleet") as fleet:
        for body in profile_bodies(fleet):
            recipe: Any = body["recipe"]
            assert recipe_faults(recipe) == {}, body["name"]


def recipe_faults(recipe: dict[str, Any]) -> dict[CheckCode, str]:
    arguments, path = recipe["server_args"], recipe["model_path"]
    target = read(path, tensors=DRAFT_LAYER_TENSORS)
    free = [RTX_MIB] * recipe["gpu_count"]
    checks = [*check_model(target, arguments, engine_version="0.5.23", gpu_free_mib=free)]
    checks.append(check_speculative_arguments(arguments, target=target.config, engine_version="0.5.23"))
    source = draft_source(arguments, model_path=path)
    if source is not None:
        checks += check_draft(target, read(source.path, tensors=ALL_TENSORS), arguments, "0.5.23")
    return bad(checks)


def test_the_numbers_of_the_stories_are_complete() -> None:
    arguments = {**EAGLE3, **THREE_NUMBERS, "speculative-draft-model-path": "/models/draft"}
    check = check_speculative_arguments(arguments, target=None, engine_version="0.5.23")  # type: ignore[arg-type]
    assert check.outcome is Outcome.PASS
