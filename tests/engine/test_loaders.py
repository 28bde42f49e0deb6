"""Our picture of each release's loaders against the loaders themselves: the classes of the real SGLang, on a CPU."""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from service.sglang.model_config import ModelConfig
from service.sglang.model_files import Tensor
from service.sglang.releases import known_release
from service.sglang.speculative.classes import is_registered
from service.sglang.speculative.weight_checks import loader_for
from service.sglang.speculative.weights import TOKEN_MAP, Dropped, Effect, Expected, Loader, match
from tests.engine.loaders import probe
from tests.sglang.speculative.checkpoints import HEADS, HIDDEN, INNER, KV_HEADS, SPECFORGE
from tests.sglang.speculative.test_layouts import EAGLE_2, LATENT, LAYOUTS
from tests.sglang.speculative.test_shapes import WRONG, WRONG_FUSED

pytestmark = pytest.mark.engine

VERSIONS = os.environ.get("VIGIL_TEST_ENGINES", "0.5.23").split()
PADDED_ROWS = 512
"""Embedding and head are padded to a multiple of 64 rows: these vocabularies need none."""
BASE: Mapping[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "vocab_size": PADDED_ROWS,
    "draft_vocab_size": 192,
    "tie_word_embeddings": False,
}
LATENT_SIZES: Mapping[str, Any] = {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "num_key_value_heads": 4,
    "model_type": "deepseek_v3",
    "n_routed_experts": 4,
    "rope_scaling": {
        "rope_type": "deepseek_yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "rope_theta": 10000.0,
    },
}
IDS = {"eagle_aux_hidden_state_layer_ids": [1, 2, 3, 4]}
CASES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "plain": ("LlamaForCausalLMEagle3", {}),
    "biases": ("LlamaForCausalLMEagle3", {"bias": True, "attention_bias": True}),
    "tied": ("LlamaForCausalLMEagle3", {"tie_word_embeddings": True}),
    "borrowed head": ("LlamaForCausalLMEagle3", {"draft_vocab_size": None}),
    "narrow": ("LlamaForCausalLMEagle3", {"target_hidden_size": 128}),
    "head_dim": ("LlamaForCausalLMEagle3", {"head_dim": 32}),
    "norms": ("LlamaForCausalLMEagle3", {"fc_norm": True, "norm_before_fc": True}),
    "four states": ("LlamaForCausalLMEagle3", {"eagle_config": IDS}),
    "counted states": ("LlamaForCausalLMEagle3", {"num_aux_hidden_states": 2, "use_aux_norm": True}),
    "EAGLE-2": ("LlamaForCausalLMEagle", {}),
    "EAGLE-2 of two layers": ("LlamaForCausalLMEagle", {"num_hidden_layers": 2}),
    "EAGLE-2 for Qwen2": ("Qwen2ForCausalLMEagle", {"model_type": "qwen2"}),
    "latent": ("Eagle3DeepseekV2ForCausalLM", dict(LATENT_SIZES)),
    "latent with norms": ("Eagle3DeepseekV2ForCausalLM", {**LATENT_SIZES, "fc_norm": True, "eagle_config": IDS}),
}
NAMES = sorted(
    {name for shapes, _, _ in LAYOUTS.values() for name in shapes}
    | {f"model.{name}" for name in [*SPECFORGE, *EAGLE_2, *LATENT]}
    | {"layers.1.hidden_norm.weight", "midlayer.self_attn.o_proj.bias", "midlayer.mlp.down_proj.bias", "x.weight"}
)
_PAIRED = ("q_a_proj", "kv_a_proj_with_mqa")


def tensors_for(loader: Loader) -> list[tuple[str, list[int]]]:
    """Return every name there is, with the shape that we think fits, and a few shapes that do not."""
    listed = []
    for name in NAMES:
        place = loader.place(name)
        shape: list[int] = [3, 5]
        if not isinstance(place, Dropped) and place != TOKEN_MAP:
            parts = [item for item in loader.expected if item.parameter == place.parameter]
            shape = wanted([item for item in parts if place.part in (None, item.part)])
        listed.append((name, [192] if place == TOKEN_MAP else shape))
    wrong = [(name, list(shape)) for name, shape, _, _ in [*WRONG, *WRONG_FUSED]]
    return listed + [item for item in wrong if not isinstance(loader.place(item[0]), Dropped)]


def wanted(parts: list[Expected]) -> list[int]:
    rows = sum(part.shape[0] or 0 for part in parts)
    return [rows, *(extent or 0 for extent in parts[0].shape[1:])]


def loader_of(name: str, version: str) -> Loader | None:
    class_name, options = CASES[name]
    return loader_for(ModelConfig({**BASE, **options}), class_name, known_release(version).release)


@cache
def probed(version: str) -> dict[str, Any]:
    """Return what the real classes of a version did with the tensors of every case."""
    cases = {}
    for name, (class_name, options) in CASES.items():
        loader = loader_of(name, version)
        if loader is None:
            continue
        config = {**BASE, **options}
        kind = config.pop("model_type", "llama")
        tensors = [item for item in tensors_for(loader) if not any(part in item[0] for part in _PAIRED)]
        cases[name] = {"class": class_name, "model_type": kind, "config": config, "tensors": tensors}
    answers = probe(version, list(cases.values()))
    return {name: (case, answer) for (name, case), answer in zip(cases.items(), answers, strict=True)}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
def test_the_parameters_are_those_that_we_expect(name: str, version: str) -> None:
    loader = loader_of(name, version)
    if loader is None:
        assert not is_registered(CASES[name][0], known_release(version).release)
        return
    answer = probed(version)[name][1]
    assert "cannot" not in answer, answer["cannot"]
    ours: dict[str, list[Expected]] = {}
    for item in loader.expected:
        ours.setdefault(item.parameter, []).append(item)
    real = {key: shape for key, shape in answer["parameters"].items() if not is_head_of_eagle_2(key, name)}
    assert {parameter: wanted(parts) for parameter, parts in ours.items()} == real


def is_head_of_eagle_2(parameter: str, name: str) -> bool:
    """Tell whether a parameter is one that the class has and never loads, since the target's replaces it."""
    return parameter == "lm_head.weight" and name.startswith("EAGLE-2")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
def test_each_tensor_goes_where_we_say_or_nowhere(name: str, version: str) -> None:
    loader = loader_of(name, version)
    if loader is None:
        return
    case, answer = probed(version)[name]
    for (tensor, shape), load in zip(case["tensors"], answer["loads"], strict=True):
        found = match([Tensor(tensor, "F32", tuple(shape), "f")], loader)
        shown = (tensor, shape, load, found.unexpected, found.wrong_shapes)
        if found.unexpected:
            assert (load["error"], load["changed"], load["token_map"]) == (None, [], False), shown
            continue
        place = found.matched[0][1]
        effect = found.wrong_shapes[0].effect if found.wrong_shapes else None
        if place == TOKEN_MAP:
            assert load["token_map"], shown
        elif effect is Effect.ERROR:
            assert load["error"] in {"AssertionError", "RuntimeError", "ValueError"}, shown
        else:
            assert (load["error"], load["changed"]) == (None, [place.parameter]), shown
            assert bool(load["zeros"]) == (effect is Effect.PADDED), shown
