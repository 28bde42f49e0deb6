"""Draft layers that come with their target: there, whole, of the right shape, and known to the release."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.sglang.checks import Check, CheckCode
from service.sglang.model_files import DRAFT_LAYER_TENSORS
from service.sglang.speculative.classes import SWITCHES, draft_class, fills_in_own_draft, is_registered
from service.sglang.speculative.draft_checks import check_draft
from service.sglang.versions import Version
from tests.sglang.speculative.checkpoints import (
    HIDDEN,
    RELEASES,
    Shapes,
    Workshop,
    bad,
    read,
    write_model,
    write_safetensors,
)

KEYS, SHAPES = CheckCode.DRAFT_WEIGHT_KEYS, CheckCode.DRAFT_WEIGHT_SHAPES
NEXTN = {"speculative-algorithm": "NEXTN"}
LAYERS = 4
CONFIG: Mapping[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 4,
    "n_routed_experts": 3,
    "vocab_size": 100,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


def body(number: int, *, experts: int = 3) -> dict[str, tuple[int, ...]]:
    prefix = f"model.layers.{number}."
    names = ["self_attn.q_a_proj", "self_attn.kv_b_proj", "self_attn.o_proj", "input_layernorm", "mlp.gate"]
    names += [f"mlp.experts.{expert}.{part}_proj" for expert in range(experts) for part in ("gate", "up", "down")]
    return {f"{prefix}{name}.weight": (8, 8) for name in names}


JOINTS: Shapes = {
    f"model.layers.{LAYERS}.eh_proj.weight": (HIDDEN, 2 * HIDDEN),
    f"model.layers.{LAYERS}.enorm.weight": (HIDDEN,),
    f"model.layers.{LAYERS}.hnorm.weight": (HIDDEN,),
    f"model.layers.{LAYERS}.shared_head.norm.weight": (HIDDEN,),
}
WHOLE: Shapes = {**{k: v for n in range(LAYERS) for k, v in body(n).items()}, **body(LAYERS), **JOINTS}


def judge(
    workshop: Workshop,
    shapes: Shapes = WHOLE,
    version: str = "0.5.23",
    *,
    arguments: Mapping[str, Any] = NEXTN,
    **options: Any,
) -> dict[CheckCode, Check]:
    kept = {name: options.pop(name) for name in ("dtypes", "shards") if name in options}
    config = {name: value for name, value in {**CONFIG, **options}.items() if value is not ...}
    directory = write_model(workshop.root / "target", config, shapes, **kept)
    model = read(directory, tensors=DRAFT_LAYER_TENSORS)
    return {check.code: check for check in check_draft(model, model, arguments, version)}


@pytest.mark.parametrize("version", RELEASES)
def test_a_target_with_its_draft_layer_passes(workshop: Workshop, version: str) -> None:
    checks = judge(workshop, version=version)
    assert bad(checks) == {}
    assert checks[KEYS].facts["prefix"] == f"model.layers.{LAYERS}."


def test_only_the_layers_that_matter_are_listed(workshop: Workshop) -> None:
    write_model(workshop.target_path, CONFIG, WHOLE)
    listed = {tensor.name for tensor in read(workshop.target_path, tensors=DRAFT_LAYER_TENSORS).tensors}
    assert listed == set(body(LAYERS - 1)) | set(body(LAYERS)) | set(JOINTS)


@pytest.mark.parametrize("version", RELEASES)
def test_a_target_without_its_draft_layer_is_refused(workshop: Workshop, version: str) -> None:
    without = {name: shape for name, shape in WHOLE.items() if f"layers.{LAYERS}." not in name}
    check = judge(workshop, without, version)[KEYS]
    assert check.outcome == "fail"
    assert f"no tensor begins with model.layers.{LAYERS}." in check.found


@pytest.mark.parametrize("gone", ["eh_proj.weight", "shared_head.norm.weight", "self_attn.o_proj.weight"])
def test_a_draft_layer_that_is_not_whole_is_refused(workshop: Workshop, gone: str) -> None:
    shapes = {name: shape for name, shape in WHOLE.items() if name != f"model.layers.{LAYERS}.{gone}"}
    check = judge(workshop, shapes)[KEYS]
    assert (check.outcome, gone in check.found) == ("fail", True), check.found


def test_experts_are_counted(workshop: Workshop) -> None:
    shapes = {name: shape for name, shape in WHOLE.items() if f"layers.{LAYERS}.mlp.experts.2" not in name}
    assert "2 of 3 experts" in judge(workshop, shapes)[KEYS].found


def test_a_joint_of_the_wrong_shape_is_refused(workshop: Workshop) -> None:
    shapes = {**WHOLE, f"model.layers.{LAYERS}.eh_proj.weight": (HIDDEN, HIDDEN)}
    assert judge(workshop, shapes)[SHAPES].outcome == "fail"


def test_a_directory_with_nothing_but_the_draft_layer_numbers_it_zero(workshop: Workshop) -> None:
    shapes = {name.replace(f"layers.{LAYERS}", "layers.0"): s for name, s in {**body(LAYERS), **JOINTS}.items()}
    checks = judge(workshop, shapes, num_hidden_layers=1)
    assert bad(checks) == {}


@pytest.mark.parametrize(("count", "told"), [(..., "ValueError"), (2, "takes exactly one")])
def test_the_number_of_draft_layers_must_be_one(workshop: Workshop, count: Any, told: str) -> None:
    check = judge(workshop, num_nextn_predict_layers=count)[CheckCode.DRAFT_ARCHITECTURE]
    assert (check.outcome, told in check.found) == ("fail", True)


@pytest.mark.parametrize(("version", "outcome"), [("0.5.6.post2", "fail"), ("0.5.10.post1", "pass")])
def test_a_file_that_the_index_forgot(workshop: Workshop, version: str, outcome: str) -> None:
    listed = {name: shape for name, shape in WHOLE.items() if f"layers.{LAYERS}." not in name}
    config = {**CONFIG, "architectures": ["Glm4MoeForCausalLM"]}
    directory = write_model(workshop.root / "glm", config, listed, shards=2)
    write_safetensors(directory / "mtp.safetensors", {**body(LAYERS), **JOINTS})
    model = read(directory, tensors=DRAFT_LAYER_TENSORS)
    checks = {check.code: check for check in check_draft(model, model, NEXTN, version)}
    assert checks[KEYS].outcome == outcome


def test_eagle3_with_a_draft_layer_is_refused(workshop: Workshop) -> None:
    check = judge(workshop, arguments={"speculative-algorithm": "EAGLE3"})[CheckCode.DRAFT_ALGORITHM]
    assert (check.outcome, "NEXTN" in (check.remedy or "")) == ("fail", True)


@pytest.mark.parametrize(
    ("quantization", "outcome"),
    [
        ({"quant_method": "fp8"}, "warn"),
        ({"quant_method": "compressed-tensors", "ignore": [f"re:.*layers.{LAYERS}.*", "lm_head"]}, "pass"),
        ({"quant_method": "modelopt_fp4"}, "pass"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["model.mtp"]}, "pass"),
    ],
)
def test_a_plain_layer_in_a_quantised_target(workshop: Workshop, quantization: dict[str, Any], outcome: str) -> None:
    check = judge(workshop, quantization_config=quantization)[CheckCode.DRAFT_QUANTIZATION]
    assert check.outcome == outcome, check.found


def test_the_layer_of_qwen3_next(workshop: Workshop) -> None:
    shapes = {
        "mtp.fc.weight": (HIDDEN, 2 * HIDDEN),
        "mtp.pre_fc_norm_embedding.weight": (HIDDEN,),
        "mtp.pre_fc_norm_hidden.weight": (HIDDEN,),
        "mtp.norm.weight": (HIDDEN,),
        "mtp.layers.0.self_attn.q_proj.weight": (8, 8),
        "mtp.layers.0.mlp.gate.weight": (8, 8),
    }
    options: dict[str, Any] = {"architectures": ["Qwen3NextForCausalLM"]}
    assert bad(judge(workshop, shapes, **options)) == {}
    del shapes["mtp.fc.weight"]
    assert judge(workshop, shapes, **options)[KEYS].outcome == "fail"


def test_a_layer_that_is_not_known_in_detail_is_said_so(workshop: Workshop) -> None:
    check = judge(workshop, architectures=["DeepseekV4ForCausalLM"])[KEYS]
    assert (check.outcome, "not known in detail" in check.found) == ("skipped", True)


def test_a_target_becomes_a_draft_from_a_release_on() -> None:
    assert draft_class("DeepseekV32ForCausalLM", Version(0, 5, 10)) == "DeepseekV32ForCausalLM"
    assert draft_class("DeepseekV32ForCausalLM", Version(0, 5, 16)) == "DeepseekV3ForCausalLMNextN"
    assert draft_class("GlmMoeDsaForCausalLM", Version(0, 5, 10)) == "DeepseekV3ForCausalLMNextN"
    assert draft_class("GlmMoeDsaForCausalLM", Version(0, 5, 23)) == "GlmMoeDsaForCausalLMNextN"
    assert draft_class("LlamaForCausalLM", Version(0, 5, 23)) == "LlamaForCausalLM"
    for target, switches in SWITCHES.items():
        for switch in switches:
            assert is_registered(switch.draft_class, switch.since)
            assert is_registered(target, switch.since) or target == "NemotronH_Omni_Reasoning_V3"
        assert [switch.since for switch in switches] == sorted(switch.since for switch in switches)


def test_whose_own_directory_is_taken_as_the_draft() -> None:
    assert fills_in_own_draft("DeepseekV3ForCausalLM", Version(0, 4, 9))
    assert not fills_in_own_draft("BailingMoeForCausalLM", Version(0, 5, 2))
    assert not fills_in_own_draft("LlamaForCausalLM", Version(0, 5, 23))
