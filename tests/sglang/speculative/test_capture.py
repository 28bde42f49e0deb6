"""Which targets hand over hidden states, from which layers, and what a draft's list of layers is worth."""

from typing import Any

import pytest

from service.sglang.architectures import architecture_since, architectures
from service.sglang.checks import CheckCode
from service.sglang.releases import KNOWN_RELEASES, known_release
from service.sglang.speculative.targets import CAPTURE_SINCE, Capture, capture, captured_layers
from service.sglang.versions import Version
from tests.sglang.speculative.checkpoints import HIDDEN, RELEASES, SPECFORGE, Workshop

CAPTURES, IDS = CheckCode.DRAFT_TARGET_CAPTURE, CheckCode.DRAFT_LAYER_IDS
KEY = "eagle_aux_hidden_state_layer_ids"
FIRST = {
    "LlamaForCausalLM": "0.4.9.post6",
    "Qwen3MoeForCausalLM": "0.4.9.post6",
    "GptOssForCausalLM": "0.5.2",
    "DeepseekV3ForCausalLM": "0.5.6.post2",
    "Glm4MoeForCausalLM": "0.5.6.post2",
    "KimiK25ForConditionalGeneration": "0.5.10.post1",
    "Qwen3NextForCausalLM": "0.5.10.post1",
    "Qwen3VLForConditionalGeneration": "0.5.16",
    "Gemma3ForCausalLM": "0.5.16",
    "Glm5NextForConditionalGeneration": "0.5.23",
}


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("name", FIRST)
def test_a_target_captures_from_a_release_on(workshop: Workshop, name: str, version: str) -> None:
    workshop.target_config["architectures"] = [name]
    check = workshop.judge(workshop.draft(), version)[CAPTURES]
    captures = RELEASES.index(version) >= RELEASES.index(FIRST[name])
    assert check.outcome == ("pass" if captures else "fail"), check.found
    if not captures:
        assert check.remedy == f"upgrade to {known_release(FIRST[name]).release} or later"


@pytest.mark.parametrize("name", ["NobodyKnowsForCausalLM", "Qwen2MoeForCausalLM"])
def test_what_is_not_known_of_a_target_is_a_warning(workshop: Workshop, name: str) -> None:
    workshop.target_config["architectures"] = [name]
    assert workshop.judge(workshop.draft())[CAPTURES].outcome == "warn"


def test_a_target_that_never_captures_is_told_with_the_error_of_the_release(workshop: Workshop) -> None:
    workshop.target_config["architectures"] = ["GemmaForCausalLM"]
    assert "ValueError" in workshop.judge(workshop.draft(), "0.5.23")[CAPTURES].found
    old = workshop.judge(workshop.draft(), "0.5.16")[CAPTURES]
    assert (old.outcome, "AttributeError" in old.found) == ("fail", True)
    assert old.remedy == "serve this target without EAGLE3"


def test_inherited_hooks_are_doubtful() -> None:
    assert capture("Qwen3_5ForConditionalGeneration", Version(0, 5, 16)) is Capture.HALF
    assert capture("Qwen3_5ForConditionalGeneration", Version(0, 5, 23)) is Capture.YES
    assert capture("Glm4MoeLiteForCausalLM", Version(0, 5, 10)) is Capture.HALF
    assert capture(None, Version(0, 5, 23)) is Capture.UNKNOWN


def test_every_class_that_captures_is_registered_by_then() -> None:
    for release, words in CAPTURE_SINCE.items():
        assert not set(words.split()) - architectures(release)


def test_registered_classes_have_a_first_release() -> None:
    for release in KNOWN_RELEASES:
        for name in architectures(release):
            since = architecture_since(name)
            assert since is not None
            assert since <= release


@pytest.mark.parametrize(
    ("architecture", "version", "ids", "layers"),
    [
        ("LlamaForCausalLM", (0, 5, 23), None, (2, 16, 29)),
        ("LlamaForCausalLM", (0, 5, 23), (1, 15, 28), (2, 16, 29)),
        ("DeepseekV3ForCausalLM", (0, 5, 10), (2, 16, 29), (3, 17, 30)),
        ("DeepseekV3ForCausalLM", (0, 5, 16), (2, 16, 29), (2, 16, 29)),
        ("DeepseekV3ForCausalLM", (0, 5, 16), (1, 15, 28), (2, 16, 29)),
        ("KimiK25ForConditionalGeneration", (0, 5, 16), (2, 16, 29), (2, 16, 29)),
        ("GptOssForCausalLM", (0, 5, 16), (20, 26, 32), (21, 27, 33)),
        ("GptOssForCausalLM", (0, 5, 23), (20, 26, 32), (20, 26, 32)),
        ("GptOssForCausalLM", (0, 5, 23), (1, 15, 28), (2, 16, 29)),
        ("MiniMaxM3SparseForConditionalGeneration", (0, 5, 23), None, (3, 17, 30)),
    ],
)
def test_layers_are_captured_as_each_target_counts(
    architecture: str, version: tuple[int, int, int], ids: tuple[int, ...] | None, layers: tuple[int, ...]
) -> None:
    assert captured_layers(architecture, 32, ids, Version(*version)).layers == layers


@pytest.mark.parametrize(
    ("architecture", "options", "version", "outcome", "told"),
    [
        ("LlamaForCausalLM", {}, "0.5.23", "pass", "layers 2, 16, 29"),
        ("LlamaForCausalLM", {"eagle_config": {KEY: [1, 15, 28]}}, "0.5.23", "pass", "layers 2, 16, 29"),
        ("LlamaForCausalLM", {"eagle_config": {KEY: [2, 16, 29]}}, "0.5.23", "warn", "off by one"),
        ("DeepseekV3ForCausalLM", {"eagle_config": {KEY: [2, 16, 29]}}, "0.5.23", "pass", "layers 2, 16, 29"),
        ("DeepseekV3ForCausalLM", {"eagle_config": {KEY: [2, 16, 29]}}, "0.5.10.post1", "warn", "off by one"),
        ("GptOssForCausalLM", {"eagle_config": {KEY: [20, 26, 32]}}, "0.5.23", "pass", "20, 26, 32"),
        ("GptOssForCausalLM", {"eagle_config": {KEY: [20, 26, 32]}}, "0.5.16", "fail", "never captured"),
        ("LlamaForCausalLM", {"eagle_config": {KEY: [1, 15, 31]}}, "0.5.23", "fail", "reach layer 32"),
        ("LlamaForCausalLM", {"eagle_config": {KEY: [-3, 15, 28]}}, "0.5.23", "fail", "below zero"),
        ("LlamaForCausalLM", {"eagle_config": {KEY: [1, 28, 15]}}, "0.5.23", "warn", "do not rise"),
        ("LlamaForCausalLM", {"eagle_config": {KEY: [1, 15, 15]}}, "0.5.23", "fail", "hands over 2"),
        ("LlamaForCausalLM", {"eagle_config": {KEY: "1,15,28"}}, "0.5.23", "warn", "no list"),
        ("LlamaForCausalLM", {KEY: [1, 15, 28]}, "0.5.23", "warn", "top level"),
        ("LlamaForCausalLM", {"num_aux_hidden_states": 4}, "0.5.23", "fail", "fc takes 4"),
        ("LlamaForCausalLM", {"eagle_config": {KEY: [1, 2]}}, "0.5.10.post1", "fail", "exactly 3"),
    ],
)
def test_a_list_of_layers_is_judged_against_the_target(
    workshop: Workshop, architecture: str, options: dict[str, Any], version: str, outcome: str, told: str
) -> None:
    workshop.target_config["architectures"] = [architecture]
    check = workshop.judge(workshop.draft(**options), version)[IDS]
    assert (check.outcome, told in check.found) == (outcome, True), check.found


def test_a_target_of_few_layers_cannot_fill_the_default(workshop: Workshop) -> None:
    workshop.target_config["num_hidden_layers"] = 4
    check = workshop.judge(workshop.draft())[IDS]
    assert (check.outcome, "hands over 2" in check.found) == ("fail", True)


def test_hidden_states_that_the_draft_does_not_take_are_not_asked_for(workshop: Workshop) -> None:
    workshop.target_config["architectures"] = ["NobodyKnowsForCausalLM"]
    shapes = {**SPECFORGE, "fc.weight": (HIDDEN, 3 * HIDDEN)}
    checks = workshop.judge(workshop.draft(shapes, eagle_config={"use_aux_hidden_state": False}))
    assert checks[CAPTURES].outcome == "skipped"
    assert checks[IDS].outcome == "skipped"
