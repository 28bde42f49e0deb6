"""The key layouts of every trainer, judged for each release that was read."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.sglang.checks import CheckCode, Outcome
from tests.sglang.speculative.checkpoints import (
    DRAFT_VOCABULARY,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    INNER,
    MAPS,
    MODELOPT,
    NEW,
    OLD,
    RELEASES,
    SPECFORGE,
    VOCABULARY,
    Shapes,
    Workshop,
    bad,
    ends,
    layer,
)

KEYS = CheckCode.DRAFT_WEIGHT_KEYS
EMBEDDING: Shapes = {"embed_tokens.weight": (VOCABULARY, HIDDEN)}
TRAINER_STATE: Shapes = {f"draft_model.{name}": shape for name, shape in {**ends(), **layer("midlayer.")}.items()}
TWO_LAYERS: Shapes = {**ends(), **layer("midlayer.0."), **layer("midlayer.1.", width=HIDDEN), **MAPS}
QWEN_NORMS: Shapes = {"layers.0.self_attn.q_norm.weight": (HEAD_DIM,), "layers.0.self_attn.k_norm.weight": (HEAD_DIM,)}
FC_NORMS: Shapes = {f"fc_norm.{number}.weight": (HIDDEN,) for number in range(3)}
AUX_NORMS: Shapes = {f"aux_norm_{name}.weight": (HIDDEN,) for name in ("low", "mid", "high")}
BIASES: Shapes = {f"midlayer.self_attn.{part}_proj.bias": (32,) for part in "qkv"}
EAGLE_LAYER: Shapes = {
    name: shape
    for name, shape in layer("layers.0.", width=HIDDEN).items()
    if "put_layernorm" not in name and "hidden" not in name
}
EAGLE_2: Shapes = {**EMBEDDING, **EAGLE_LAYER, "fc.weight": (HIDDEN, 2 * HIDDEN), "fc.bias": (HIDDEN,)}
LATENT: Shapes = {
    **ends(),
    **EMBEDDING,
    "layers.0.self_attn.q_a_proj.weight": (24, 2 * HIDDEN),
    "layers.0.self_attn.kv_a_proj_with_mqa.weight": (16 + 8, 2 * HIDDEN),
    "layers.0.self_attn.q_a_layernorm.weight": (24,),
    "layers.0.self_attn.kv_a_layernorm.weight": (16,),
    "layers.0.self_attn.q_b_proj.weight": (HEADS * (12 + 8), 24),
    "layers.0.self_attn.kv_b_proj.weight": (HEADS * (12 + 10), 16),
    "layers.0.self_attn.o_proj.weight": (HIDDEN, HEADS * 10),
    "layers.0.mlp.gate_proj.weight": (INNER, HIDDEN),
    "layers.0.mlp.up_proj.weight": (INNER, HIDDEN),
    "layers.0.mlp.down_proj.weight": (HIDDEN, INNER),
    "layers.0.input_layernorm.weight": (HIDDEN,),
    "layers.0.hidden_norm.weight": (HIDDEN,),
    "layers.0.post_attention_layernorm.weight": (HIDDEN,),
    "d2t": (DRAFT_VOCABULARY,),
}
LATENT_CONFIG = {
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "num_key_value_heads": 4,
}
_PARTS = {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}
FUSED: Shapes = {
    **ends(),
    **MAPS,
    **{name: shape for name, shape in layer("midlayer.").items() if name.split(".")[-2] not in _PARTS},
    "midlayer.self_attn.qkv_proj.weight": (HEADS * HEAD_DIM + 2 * 2 * HEAD_DIM, 2 * HIDDEN),
    "midlayer.mlp.gate_up_proj.weight": (2 * INNER, HIDDEN),
}

PASS, WARN, FAIL = "pass", "warn", "fail"
LAYOUTS: Mapping[str, tuple[Shapes, dict[str, Any], dict[str, str]]] = {
    "SpecForge for SGLang": (SPECFORGE, {}, dict.fromkeys(RELEASES, PASS)),
    "SpecForge for Hugging Face": ({**SPECFORGE, **EMBEDDING}, {}, dict.fromkeys(RELEASES, PASS)),
    "everything below model.": (
        {**ends("model."), **layer("model.midlayer."), **MAPS},
        {},
        dict.fromkeys(RELEASES, PASS),
    ),
    "modelopt, current": (MODELOPT, {}, {**dict.fromkeys(OLD, FAIL), **dict.fromkeys(NEW, PASS)}),
    "modelopt with a full head": (
        {**{name: shape for name, shape in MODELOPT.items() if name != "d2t"}, "lm_head.weight": (VOCABULARY, HIDDEN)},
        {"draft_vocab_size": VOCABULARY},
        {**dict.fromkeys(OLD, FAIL), **dict.fromkeys(NEW, PASS)},
    ),
    "vLLM": (
        {**ends("model."), **layer("model.layers.0."), **MAPS},
        {},
        {**dict.fromkeys(OLD, FAIL), **dict.fromkeys(NEW, PASS)},
    ),
    "raw state of a trainer": ({**TRAINER_STATE, **MAPS}, {}, dict.fromkeys(RELEASES, FAIL)),
    "modelopt, several layers": (TWO_LAYERS, {"num_hidden_layers": 2}, dict.fromkeys(RELEASES, FAIL)),
    "speculators, Qwen3 layer": (
        {**MODELOPT, **QWEN_NORMS, **EMBEDDING},
        {},
        {**dict.fromkeys(OLD, FAIL), **dict.fromkeys(NEW, WARN)},
    ),
    "norm before fc": (
        {**SPECFORGE, "input_norm.weight": (3 * HIDDEN,)},
        {"norm_before_fc": True},
        {**dict.fromkeys(RELEASES, WARN), "0.5.23": PASS},
    ),
    "EAGLE-3.1": (
        {**SPECFORGE, **FC_NORMS},
        {"fc_norm": True},
        {**dict.fromkeys(OLD, WARN), **dict.fromkeys(NEW, PASS)},
    ),
    "old names of its norms": (
        {**SPECFORGE, **AUX_NORMS},
        {"use_aux_norm": True},
        {**dict.fromkeys(OLD, WARN), **dict.fromkeys(NEW, PASS)},
    ),
    "norms without their flag": ({**SPECFORGE, **FC_NORMS}, {}, dict.fromkeys(RELEASES, WARN)),
    "biases of q, k and v": ({**SPECFORGE, **BIASES}, {}, dict.fromkeys(RELEASES, WARN)),
    "already fused": (FUSED, {}, dict.fromkeys(RELEASES, PASS)),
    "EAGLE-2": (EAGLE_2, {"architectures": ["LlamaForCausalLMEagle"]}, dict.fromkeys(RELEASES, PASS)),
    "EAGLE-2 below model.": (
        {f"model.{name}": shape for name, shape in EAGLE_2.items()},
        {"architectures": ["LlamaForCausalLMEagle"]},
        dict.fromkeys(RELEASES, FAIL),
    ),
    "EAGLE-2 without the bias of fc": (
        {name: shape for name, shape in EAGLE_2.items() if name != "fc.bias"},
        {"architectures": ["LlamaForCausalLMEagle"]},
        dict.fromkeys(RELEASES, WARN),
    ),
    "latent attention": (LATENT, LATENT_CONFIG, {**dict.fromkeys(OLD, "skipped"), **dict.fromkeys(NEW, PASS)}),
}


def algorithm(config: Mapping[str, Any]) -> dict[str, Any]:
    is_eagle_2 = config.get("architectures") == ["LlamaForCausalLMEagle"]
    return {"speculative-algorithm": "EAGLE" if is_eagle_2 else "EAGLE3"}


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_judged_as_the_loader_of_each_release_takes_it(
    workshop: Workshop, name: str, version: str
) -> None:
    shapes, config, expected = LAYOUTS[name]
    check = workshop.judge(workshop.draft(shapes, **config), version, algorithm(config))[KEYS]
    assert check.outcome == expected[version], check.found


@pytest.mark.parametrize("version", RELEASES)
def test_a_sound_draft_passes_everything(workshop: Workshop, version: str) -> None:
    assert bad(workshop.judge(workshop.draft(), version)) == {}


@pytest.mark.parametrize("version", OLD)
def test_layers_where_midlayer_is_wanted_fail_with_names_and_the_rename_that_mends_them(
    workshop: Workshop, version: str
) -> None:
    check = workshop.judge(workshop.draft(MODELOPT), version)[KEYS]
    assert "10 parameters of LlamaForCausalLMEagle3 get nothing" in check.found
    assert "10 tensors are dropped without a word" in check.found
    assert "layers.0.self_attn.q_proj.weight" in check.found
    assert "midlayer.self_attn.q_proj.weight" in check.found
    assert check.remedy is not None
    assert "layers.0.* -> midlayer.* (10)" in check.remedy
    assert "use SGLang 0.5.16 or later" in check.remedy
    assert check.facts["rename"] == {
        name: name.replace("layers.0.", "midlayer.") for name in MODELOPT if name.startswith("layers.0.")
    }


@pytest.mark.parametrize(
    "name", [name for name, (_, _, outcomes) in LAYOUTS.items() if FAIL in outcomes.values() and "several" not in name]
)
@pytest.mark.parametrize("version", RELEASES)
def test_a_proposed_rename_mends_the_checkpoint_for_that_release(workshop: Workshop, name: str, version: str) -> None:
    shapes, config, outcomes = LAYOUTS[name]
    check = workshop.judge(workshop.draft(shapes, **config), version, algorithm(config))[KEYS]
    if outcomes[version] != FAIL:
        assert check.facts["rename"] is None
        return
    rename = check.facts["rename"]
    assert isinstance(rename, dict)
    renamed = {rename.get(tensor, tensor): shape for tensor, shape in shapes.items()}
    after = workshop.judge(workshop.draft(renamed, **config), version, algorithm(config))[KEYS]
    assert after.outcome is not Outcome.FAIL, after.found


def test_a_draft_of_several_layers_is_renamed_layer_by_layer(workshop: Workshop) -> None:
    check = workshop.judge(workshop.draft(TWO_LAYERS, num_hidden_layers=2), "0.5.23")[KEYS]
    assert check.facts["rename_patterns"] == ["midlayer.* -> layers.* (20)"]
    assert check.facts["rename"] == {
        name: name.replace("midlayer", "layers") for name in TWO_LAYERS if "layer." in name
    }


def test_later_layers_without_hidden_norm_are_ordinary_layers(workshop: Workshop) -> None:
    shapes = {**ends(), **layer("layers.0."), **layer("layers.1.", width=HIDDEN), **MAPS}
    del shapes["layers.1.hidden_norm.weight"]
    check = workshop.judge(workshop.draft(shapes, num_hidden_layers=2), "0.5.23")[KEYS]
    assert check.outcome is Outcome.FAIL
    assert "ordinary decoder layers" in check.found


@pytest.mark.parametrize("name", ["fc.weight", "norm.weight", "lm_head.weight", "midlayer.mlp.up_proj.weight"])
@pytest.mark.parametrize("version", RELEASES)
def test_a_missing_tensor_fails_and_is_named(workshop: Workshop, name: str, version: str) -> None:
    shapes = {tensor: shape for tensor, shape in SPECFORGE.items() if tensor != name}
    check = workshop.judge(workshop.draft(shapes), version)[KEYS]
    assert (check.outcome, name in check.found) == (Outcome.FAIL, True)
    assert check.facts["rename"] is None
    assert check.remedy == "export the draft again: the weights are not in these files"


def test_only_one_of_a_pair_of_latent_projections_is_lost(workshop: Workshop) -> None:
    shapes = {name: shape for name, shape in LATENT.items() if "q_a_proj" not in name}
    check = workshop.judge(workshop.draft(shapes, **LATENT_CONFIG))[KEYS]
    assert check.outcome is Outcome.FAIL
    assert "layers.0.self_attn.q_a_proj.weight" in check.found


@pytest.mark.parametrize(
    ("config", "version", "needs"),
    [
        ({"draft_vocab_size": None}, "0.5.2", "pass"),
        ({"draft_vocab_size": None}, "0.5.23", "pass"),
        ({"tie_word_embeddings": True}, "0.5.23", "pass"),
        ({}, "0.5.23", "fail"),
    ],
)
def test_a_head_is_needed_only_when_it_is_the_drafts_own(
    workshop: Workshop, config: dict[str, Any], version: str, needs: str
) -> None:
    shapes = {name: shape for name, shape in SPECFORGE.items() if name != "lm_head.weight"}
    assert workshop.judge(workshop.draft(shapes, **config), version)[KEYS].outcome == needs


@pytest.mark.parametrize("version", RELEASES)
def test_hidden_states_that_the_draft_does_not_take_need_no_fc(workshop: Workshop, version: str) -> None:
    shapes = {name: s for name, s in SPECFORGE.items() if name not in {"fc.weight", "midlayer.hidden_norm.weight"}}
    draft = workshop.draft(shapes, eagle_config={"use_aux_hidden_state": False})
    honours = version not in {"0.4.9.post6", "0.5.2", "0.5.6.post2"}
    checks = workshop.judge(draft, version)
    assert checks[KEYS].outcome == ("pass" if honours else "fail")
    assert checks[CheckCode.DRAFT_FLAGS].outcome == ("pass" if honours else "fail")


def test_a_sharded_draft_is_read_as_one(workshop: Workshop) -> None:
    assert bad(workshop.judge(workshop.draft(shards=3))) == {}
    check = workshop.judge(workshop.draft(MODELOPT, shards=3), "0.5.10.post1")[KEYS]
    assert check.facts["rename_patterns"] == ["layers.0.* -> midlayer.* (10)"]
