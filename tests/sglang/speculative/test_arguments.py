"""Speculative arguments by the rules of each release, and versions that lie between those that were read."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.sglang.checks import Check, CheckCode
from service.sglang.model_config import ModelConfig
from service.sglang.releases import KNOWN_RELEASES, known_release
from service.sglang.speculative.arguments import DraftSource, check_speculative_arguments, draft_source
from service.sglang.speculative.flags import speculative_flags
from service.sglang.versions import Version
from tests.sglang.speculative.checkpoints import MODELOPT, RELEASES, TARGET_CONFIG, Workshop

EAGLE = {"speculative-algorithm": "EAGLE", "speculative-draft-model-path": "/draft"}
NUMBERS = {"speculative-num-steps": 3, "speculative-eagle-topk": 1, "speculative-num-draft-tokens": 4}


def judge(
    arguments: Mapping[str, Any], version: str | None = "0.5.23", architecture: str = "LlamaForCausalLM"
) -> Check:
    target = ModelConfig({**TARGET_CONFIG, "architectures": [architecture]})
    return check_speculative_arguments(arguments, target=target, engine_version=version)


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("arguments", [{}, EAGLE, {**EAGLE, **NUMBERS}, {"tp-size": 8}])
def test_sound_arguments_pass(arguments: dict[str, Any], version: str) -> None:
    assert judge(arguments, version).outcome == "pass"


def test_what_the_engine_sets_by_itself_is_said() -> None:
    assert "max-running-requests to 48" in judge(EAGLE).found
    assert "max-running-requests" not in judge({**EAGLE, "max-running-requests": 100}).found


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("given", [["speculative-eagle-topk"], ["speculative-num-draft-tokens"]])
def test_numbers_without_steps_end_in_a_bare_assertion(given: list[str], version: str) -> None:
    check = judge({**EAGLE, **{name: NUMBERS[name] for name in given}}, version)
    assert (check.outcome, "AssertionError" in check.found) == ("fail", True)
    assert "together, or none" in (check.remedy or "")


@pytest.mark.parametrize("version", RELEASES[1:])
def test_steps_without_topk_end_in_a_type_error(version: str) -> None:
    check = judge({**EAGLE, "speculative-num-steps": 3, "speculative-num-draft-tokens": 4}, version)
    assert (check.outcome, "TypeError" in check.found) == ("fail", True)


def test_draft_tokens_that_the_engine_changes_are_told() -> None:
    check = judge({**EAGLE, **NUMBERS, "speculative-num-draft-tokens": 8})
    assert (check.outcome, check.remedy) == ("warn", "give --speculative-num-draft-tokens 4")


@pytest.mark.parametrize(
    ("more", "version", "outcome"),
    [
        ({"attention-backend": "trtllm_mha"}, "0.5.23", "fail"),
        ({"attention-backend": "trtllm_mha"}, "0.4.9.post6", "pass"),
        ({"attention-backend": "flashmla", "page-size": 64}, "0.5.23", "fail"),
        ({"attention-backend": "triton", "page-size": 64}, "0.5.23", "pass"),
        ({"attention-backend": "triton", "page-size": 64}, "0.5.10.post1", "fail"),
        ({"attention-backend": "fa3", "page-size": 64}, "0.5.2", "fail"),
        ({"attention-backend": "flashinfer", "page-size": 64}, "0.5.2", "pass"),
        ({"attention-backend": "flashmla", "page-size": 1}, "0.5.23", "pass"),
    ],
)
def test_trees_of_drafts_need_a_backend(more: dict[str, Any], version: str, outcome: str) -> None:
    tree = {"speculative-num-steps": 3, "speculative-eagle-topk": 4, "speculative-num-draft-tokens": 8}
    assert judge({**EAGLE, **tree, **more}, version).outcome == outcome


@pytest.mark.parametrize(
    ("algorithm", "version", "outcome"),
    [
        ("STANDALONE", "0.4.9.post6", "fail"),
        ("STANDALONE", "0.5.2", "pass"),
        ("NGRAM", "0.5.2", "fail"),
        ("NGRAM", "0.5.6.post2", "pass"),
        ("DFLASH", "0.5.10.post1", "fail"),
        ("DFLASH", "0.5.16", "pass"),
        ("DSPARK", "0.5.16", "pass"),
        ("UNO", "0.5.16", "warn"),
        ("UNO", "0.5.23", "pass"),
        ("eagle", "0.5.10.post1", "fail"),
        ("eagle", "0.5.16", "pass"),
        ("EAGEL", "0.5.10.post1", "fail"),
        ("EAGEL", "0.5.23", "warn"),
    ],
)
def test_algorithms_by_release(algorithm: str, version: str, outcome: str) -> None:
    arguments = {"speculative-algorithm": algorithm}
    if algorithm != "NGRAM":
        arguments["speculative-draft-model-path"] = "/draft"
    check = judge(arguments, version)
    assert check.outcome == outcome, check.found


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num-speculative-tokens", "speculative-num-draft-tokens"),
        ("speculative-num-draft-token-count", "speculative-num-draft-tokens"),
        ("speculative-draft-path", "speculative-draft-model-path"),
        ("speculative-draft-modle-path", "speculative-draft-model-path"),
        ("speculative-num-stesp", "speculative-num-steps"),
        ("speculative-topk", "speculative-eagle-topk"),
    ],
)
def test_a_flag_that_does_not_exist_gets_the_closest_named(name: str, meant: str) -> None:
    check = judge({**EAGLE, name: 4})
    assert (check.outcome, check.remedy) == ("fail", f"did you mean --{meant}?")


def test_short_forms_are_told_and_ambiguous_ones_refused() -> None:
    assert judge({**EAGLE, "speculative-tok": "/map"}).outcome == "warn"
    assert judge({**EAGLE, "speculative-num": 4}).outcome == "fail"
    assert judge({"speculative-algo": "EAGLE", "speculative-draft-model-path": "/draft"}).outcome == "pass"


@pytest.mark.parametrize(
    ("name", "version", "outcome"),
    [
        ("speculative-draft-model-quantization", "0.5.6.post2", "fail"),
        ("speculative-draft-model-quantization", "0.5.10.post1", "pass"),
        ("speculative-draft-load-format", "0.5.2", "fail"),
        ("speculative-ngram-branch-length", "0.5.6.post2", "pass"),
        ("speculative-ngram-branch-length", "0.5.10.post1", "fail"),
        ("speculative-ngram-branch-length", "0.5.8", "pass"),
        ("speculative-draft-sink-size", "0.5.30", "pass"),
        ("speculative-brand-new", "0.5.30", "warn"),
    ],
)
def test_flags_by_release(name: str, version: str, outcome: str) -> None:
    check = judge({**EAGLE, name: "x"}, version)
    assert check.outcome == outcome, check.found


def test_flags_grow_from_release_to_release() -> None:
    assert len(speculative_flags(Version(0, 4, 9))) == 8
    assert "speculative-use-block-verification" in speculative_flags(Version(0, 5, 23))
    assert "speculative-skip-dp-mlp-sync" not in speculative_flags(Version(0, 5, 23))


@pytest.mark.parametrize(
    ("arguments", "architecture", "outcome"),
    [
        ({"speculative-algorithm": "EAGLE3"}, "LlamaForCausalLM", "fail"),
        ({"speculative-algorithm": "NEXTN"}, "DeepseekV3ForCausalLM", "pass"),
        ({"speculative-algorithm": "NEXTN"}, "Qwen3NextForCausalLM", "pass"),
        ({"speculative-algorithm": "NEXTN"}, "LlamaForCausalLM", "warn"),
        ({"speculative-algorithm": "STANDALONE"}, "LlamaForCausalLM", "warn"),
        ({"speculative-algorithm": "STANDALONE", "tp-size": 4, "dp-size": 2, "enable-dp-attention": True}, "X", "fail"),
        ({"speculative-algorithm": "NGRAM", "tp-size": 4, "attn-dp-size": 2}, "LlamaForCausalLM", "fail"),
        ({"speculative-algorithm": "NGRAM", "speculative-draft-model-path": "/d"}, "LlamaForCausalLM", "warn"),
        ({**EAGLE, "speculative-algorithm": "EAGLE3", "speculative-token-map": "/m"}, "LlamaForCausalLM", "warn"),
        ({**EAGLE, "speculative-token-map": "/m"}, "LlamaForCausalLM", "pass"),
        ({**EAGLE, "speculative-use-rejection-sampling": True, **NUMBERS}, "LlamaForCausalLM", "pass"),
        (
            {**EAGLE, "speculative-use-rejection-sampling": True, "speculative-eagle-topk": 4},
            "LlamaForCausalLM",
            "fail",
        ),
        (
            {**EAGLE, "speculative-use-rejection-sampling": True, "speculative-accept-threshold-acc": 0.9},
            "LlamaForCausalLM",
            "fail",
        ),
        ({"speculative-num-steps": 3}, "LlamaForCausalLM", "warn"),
    ],
)
def test_combinations(arguments: dict[str, Any], architecture: str, outcome: str) -> None:
    check = judge(arguments, architecture=architecture)
    assert check.outcome == outcome, check.found


@pytest.mark.parametrize(
    ("arguments", "source"),
    [
        ({}, None),
        ({"speculative-algorithm": "NGRAM"}, None),
        ({"speculative-algorithm": "NEXTN"}, DraftSource("/model", is_target=True)),
        (EAGLE, DraftSource("/draft", is_target=False)),
        ({"speculative-algorithm": "EAGLE3", "speculative-draft-model": "/d"}, DraftSource("/d", is_target=False)),
        ({**EAGLE, "speculative-draft-model-path": "/model"}, DraftSource("/model", is_target=True)),
        (
            {**EAGLE, "speculative-draft-model-revision": "v2"},
            DraftSource("/draft", is_target=False, revision="v2"),
        ),
    ],
)
def test_where_the_draft_comes_from(arguments: dict[str, Any], source: DraftSource | None) -> None:
    assert draft_source(arguments, model_path="/model") == source


@pytest.mark.parametrize(
    ("version", "release", "next_known", "has_note"),
    [
        *((f"{release}", release, None, False) for release in KNOWN_RELEASES),
        ("0.5.10.post1", Version(0, 5, 10), None, False),
        ("0.5.16rc1", Version(0, 5, 16), None, False),
        ("0.5.12", Version(0, 5, 10), Version(0, 5, 16), True),
        ("0.5.30", Version(0, 5, 23), None, True),
        ("1.0.0", Version(0, 5, 23), None, True),
        ("0.4.1", Version(0, 4, 9), None, True),
        (None, Version(0, 5, 23), None, True),
        ("nightly", Version(0, 5, 23), None, True),
    ],
)
def test_the_release_that_stands_for_a_version(
    version: str | None, release: Version, next_known: Version | None, *, has_note: bool
) -> None:
    known = known_release(version)
    assert (known.release, known.next_known, known.note is not None) == (release, next_known, has_note)


def test_between_two_releases_that_differ_a_failure_is_a_warning_and_says_so(workshop: Workshop) -> None:
    check = workshop.judge(workshop.draft(MODELOPT), "0.5.12")[CheckCode.DRAFT_WEIGHT_KEYS]
    assert check.outcome == "warn"
    assert "by the rules of 0.5.10" in check.found
    assert "0.5.12 lies between 0.5.10 and 0.5.16" in check.found
    assert check.facts["rename"]


def test_what_fails_in_both_neighbours_fails(workshop: Workshop) -> None:
    draft = workshop.draft({name: shape for name, shape in MODELOPT.items() if name != "fc.weight"})
    assert workshop.judge(draft, "0.5.12")[CheckCode.DRAFT_WEIGHT_KEYS].outcome == "fail"


def test_a_newer_version_is_judged_as_the_newest_and_says_so(workshop: Workshop) -> None:
    workshop.target_config["max_position_embeddings"] = 99999
    check = workshop.judge(workshop.draft(), "0.6.0")[CheckCode.DRAFT_CONTEXT_LENGTH]
    assert check.outcome == "fail"
    assert "0.6.0 is newer than 0.5.23" in check.found
