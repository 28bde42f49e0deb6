"""Tensors of the wrong shape: what is refused, what is cut off and what is filled with zeros without a word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.sglang.checks import CheckCode
from service.sglang.model_config import ModelConfig
from service.sglang.model_files import Tensor
from service.sglang.releases import KNOWN_RELEASES
from service.sglang.speculative.eagle3 import eagle3_loader
from service.sglang.speculative.weights import match
from tests.sglang.speculative.checkpoints import (
    DRAFT_CONFIG,
    DRAFT_VOCABULARY,
    HIDDEN,
    INNER,
    RELEASES,
    SPECFORGE,
    VOCABULARY,
    Workshop,
)
from tests.sglang.speculative.test_layouts import FUSED

SHAPES = CheckCode.DRAFT_WEIGHT_SHAPES
ERROR, CUT, PADDED = "error", "cut", "padded"
PADS_SINCE = RELEASES.index("0.5.6.post2")
WRONG = [
    ("fc.weight", (HIDDEN, 2 * HIDDEN), ERROR, ERROR),
    ("fc.weight", (HIDDEN, 4 * HIDDEN), ERROR, ERROR),
    ("fc.weight", (HIDDEN + 2, 3 * HIDDEN), ERROR, ERROR),
    ("norm.weight", (HIDDEN + 1,), ERROR, ERROR),
    ("lm_head.weight", (DRAFT_VOCABULARY + 1, HIDDEN), ERROR, ERROR),
    ("lm_head.weight", (VOCABULARY, HIDDEN), ERROR, ERROR),
    ("midlayer.self_attn.q_proj.weight", (HIDDEN + 16, 2 * HIDDEN), CUT, CUT),
    ("midlayer.self_attn.q_proj.weight", (HIDDEN - 16, 2 * HIDDEN), ERROR, ERROR),
    ("midlayer.self_attn.k_proj.weight", (64, 2 * HIDDEN), CUT, CUT),
    ("midlayer.self_attn.v_proj.weight", (16, 2 * HIDDEN), ERROR, ERROR),
    ("midlayer.self_attn.v_proj.weight", (32, HIDDEN), ERROR, ERROR),
    ("midlayer.mlp.gate_proj.weight", (INNER + 8, HIDDEN), CUT, CUT),
    ("midlayer.mlp.up_proj.weight", (INNER - 8, HIDDEN), ERROR, PADDED),
    ("midlayer.mlp.up_proj.weight", (INNER, HIDDEN + 8), ERROR, ERROR),
    ("midlayer.mlp.down_proj.weight", (HIDDEN, INNER + 8), CUT, CUT),
    ("midlayer.mlp.down_proj.weight", (HIDDEN, INNER - 8), ERROR, PADDED),
    ("midlayer.mlp.down_proj.weight", (HIDDEN - 8, INNER), ERROR, ERROR),
    ("midlayer.self_attn.o_proj.weight", (HIDDEN, HIDDEN + 8), CUT, CUT),
    ("midlayer.self_attn.o_proj.weight", (HIDDEN, HIDDEN - 8), ERROR, PADDED),
    ("midlayer.input_layernorm.weight", (HIDDEN, 1), ERROR, ERROR),
]
WRONG_FUSED = [
    ("midlayer.self_attn.qkv_proj.weight", (144, 2 * HIDDEN), CUT, CUT),
    ("midlayer.self_attn.qkv_proj.weight", (112, 2 * HIDDEN), ERROR, ERROR),
    ("midlayer.mlp.gate_up_proj.weight", (2 * INNER + 8, HIDDEN), CUT, CUT),
    ("midlayer.mlp.gate_up_proj.weight", (2 * INNER - 8, HIDDEN), ERROR, ERROR),
    ("midlayer.mlp.gate_up_proj.weight", (2 * INNER, HIDDEN + 8), ERROR, ERROR),
]


@pytest.mark.parametrize(("name", "shape", "effect", "_"), WRONG_FUSED)
def test_a_tensor_that_is_fused_already_is_sliced(
    workshop: Workshop, name: str, shape: tuple[int, ...], effect: str, _: str
) -> None:
    check = workshop.judge(workshop.draft({**FUSED, name: shape}))[SHAPES]
    wrong = check.facts["wrong"]
    assert isinstance(wrong, list)
    assert [(item["name"], item["wanted"], item["effect"]) for item in wrong] == [(name, list(FUSED[name]), effect)]


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize(("name", "shape", "before", "since"), WRONG)
def test_a_wrong_shape_is_told_with_what_the_release_does(
    workshop: Workshop, name: str, shape: tuple[int, ...], before: str, since: str, version: str
) -> None:
    effect = since if RELEASES.index(version) >= PADS_SINCE else before
    check = workshop.judge(workshop.draft({**SPECFORGE, name: shape}), version)[SHAPES]
    wanted = list(SPECFORGE[name])
    assert check.outcome == ("fail" if effect == ERROR else "warn")
    assert check.facts["wrong"] == [{"name": name, "shape": list(shape), "wanted": wanted, "effect": effect}]
    assert f"{name} is {list(shape)}, not {wanted}" in check.found


def test_hidden_states_that_are_counted_widen_fc(workshop: Workshop) -> None:
    shapes = {**SPECFORGE, "fc.weight": (HIDDEN, 4 * HIDDEN)}
    ids = {"eagle_aux_hidden_state_layer_ids": [1, 8, 15, 22]}
    assert workshop.judge(workshop.draft(shapes, eagle_config=ids))[SHAPES].outcome == "pass"
    old = workshop.judge(workshop.draft(shapes, eagle_config=ids), "0.5.10.post1")
    assert old[SHAPES].outcome == "fail"
    assert old[CheckCode.DRAFT_LAYER_IDS].outcome == "fail"
    assert "takes exactly 3" in old[CheckCode.DRAFT_LAYER_IDS].found


def test_a_target_of_another_width_needs_its_width_and_the_drafts_own_embedding(workshop: Workshop) -> None:
    workshop.target_config["hidden_size"] = 128
    shapes = {**SPECFORGE, "fc.weight": (HIDDEN, 3 * 128)}
    checks = workshop.judge(workshop.draft(shapes, target_hidden_size=128))
    assert checks[SHAPES].outcome == "pass"
    assert checks[CheckCode.DRAFT_HIDDEN_SIZE].outcome == "pass"
    assert "embed_tokens.weight" in checks[CheckCode.DRAFT_WEIGHT_KEYS].found
    whole = {**shapes, "embed_tokens.weight": (VOCABULARY, HIDDEN)}
    assert workshop.judge(workshop.draft(whole, target_hidden_size=128))[CheckCode.DRAFT_WEIGHT_KEYS].outcome == "pass"


@given(
    release=st.sampled_from(KNOWN_RELEASES),
    renamed=st.dictionaries(st.sampled_from(sorted(SPECFORGE)), st.sampled_from(sorted(SPECFORGE)), max_size=4),
)
def test_every_tensor_is_matched_or_unexpected_and_every_parameter_got_or_missing(
    release: tuple[int, int, int], renamed: dict[str, str]
) -> None:
    known = next(item for item in KNOWN_RELEASES if item == release)
    names = [renamed.get(name, name) for name in SPECFORGE]
    tensors = [Tensor(name, "BF16", SPECFORGE[name], "model.safetensors") for name in names]
    found = match(tensors, eagle3_loader(ModelConfig(DRAFT_CONFIG), known))
    assert sorted([name for name, _ in found.matched] + [item.name for item in found.unexpected]) == sorted(names)
    absent = set(SPECFORGE) - set(names) - {"t2d", "d2t"}
    assert {item.name for item in found.required_missing} == absent
    doubled = {name for name in names if names.count(name) > 1} - {"t2d", "d2t"}
    assert set(found.overwritten) == doubled
