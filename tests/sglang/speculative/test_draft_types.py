"""What the two configurations tell of flags, heads, types and quantization."""

from typing import Any

import pytest

from service.sglang.checks import CheckCode
from tests.sglang.speculative.checkpoints import (
    EAGLE3,
    Workshop,
    read,
)


@pytest.mark.parametrize(
    ("options", "version", "outcome"),
    [
        ({"norm_before_residual": True}, "0.5.23", "warn"),
        ({"norm_before_fc": True}, "0.5.16", "warn"),
        ({"norm_before_fc": True}, "0.5.23", "pass"),
        ({"norm_before_fc": True, "eagle_config": {"norm_before_fc": False}}, "0.5.16", "pass"),
        ({"fc_norm": True}, "0.5.10.post1", "warn"),
        ({"fc_norm": True}, "0.5.16", "pass"),
        ({"norm_output": True}, "0.5.10.post1", "warn"),
        ({"norm_output": True}, "0.5.23", "pass"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, "0.5.6.post2", "fail"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, "0.5.10.post1", "pass"),
        ({"eagle_config": {"use_mtp_layernorm": True}}, "0.5.23", "warn"),
        ({"eagle_config": {"parallel_draft_step": 1, "use_last_layernorm": True}}, "0.5.23", "pass"),
    ],
)
def test_flags_that_a_release_does_not_know(
    workshop: Workshop, options: dict[str, Any], version: str, outcome: str
) -> None:
    check = workshop.judge(workshop.draft(**options), version)[CheckCode.DRAFT_FLAGS]
    assert check.outcome == outcome, check.found


@pytest.mark.parametrize(
    ("heads", "kv_heads", "tp_size", "outcome"),
    [
        (64, 8, 8, "pass"),
        (64, 8, 16, "pass"),
        (56, 8, 16, "fail"),
        (28, 4, 8, "fail"),
        (40, 10, 4, "fail"),
        (40, 10, 8, "fail"),
        (14, 2, 4, "fail"),
        (40, 8, 16, "fail"),
    ],
)
def test_heads_are_split_over_gpus(workshop: Workshop, heads: int, kv_heads: int, tp_size: int, outcome: str) -> None:
    draft = workshop.draft(num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=16)
    check = workshop.judge(draft, arguments={**EAGLE3, "tp-size": tp_size})[CheckCode.DRAFT_TENSOR_PARALLEL]
    assert check.outcome == outcome, check.found


@pytest.mark.parametrize(
    ("target", "draft", "arguments", "outcome"),
    [
        ("bfloat16", "float16", {}, "warn"),
        ("bfloat16", "float16", {"dtype": "bfloat16"}, "pass"),
        ("bfloat16", "float16", {"dtype": "auto"}, "warn"),
        ("bfloat16", ..., {}, "warn"),
        ("float16", ..., {}, "pass"),
        ("bfloat16", "bfloat16", {}, "pass"),
    ],
)
def test_types_of_draft_and_target(
    workshop: Workshop, target: str, draft: Any, arguments: dict[str, Any], outcome: str
) -> None:
    workshop.target_config["torch_dtype"] = target
    made = workshop.draft(torch_dtype=draft)
    assert workshop.judge(made, arguments={**EAGLE3, **arguments})[CheckCode.DRAFT_DTYPE].outcome == outcome


@pytest.mark.parametrize(
    ("options", "arguments", "version", "outcome"),
    [
        ({}, {"quantization": "fp8"}, "0.5.23", "warn"),
        ({}, {"quantization": "fp8"}, "0.5.6.post2", "warn"),
        ({}, {"quantization": "fp8", "speculative-draft-model-quantization": "unquant"}, "0.5.23", "pass"),
        (
            {"quantization_config": {"quant_method": "awq"}, "dtypes": {"*": "I32"}},
            {"quantization": "fp8"},
            "0.5.2",
            "fail",
        ),
        (
            {"quantization_config": {"quant_method": "awq"}, "dtypes": {"*": "I32"}},
            {"quantization": "fp8"},
            "0.5.6.post2",
            "pass",
        ),
        ({"quantization_config": {"quant_method": "fp8"}}, {}, "0.5.23", "warn"),
        ({"dtypes": {"*": "F8_E4M3"}}, {}, "0.5.23", "fail"),
    ],
)
def test_quantization_of_the_draft(
    workshop: Workshop, options: dict[str, Any], arguments: dict[str, Any], version: str, outcome: str
) -> None:
    check = workshop.judge(workshop.draft(**options), version, {**EAGLE3, **arguments})[CheckCode.DRAFT_QUANTIZATION]
    assert check.outcome == outcome, check.found


def test_packed_weights_are_said_not_to_be_compared(workshop: Workshop) -> None:
    draft = workshop.draft(dtypes={"*": "F8_E4M3"}, quantization_config={"quant_method": "fp8"})
    checks = workshop.judge(draft)
    assert checks[CheckCode.DRAFT_WEIGHT_KEYS].outcome == "skipped"
    assert "not compared" in checks[CheckCode.DRAFT_WEIGHT_KEYS].found


@pytest.mark.parametrize(
    ("options", "version", "told"),
    [
        ({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e6}}, "0.5.23", "reads rope_parameters"),
        ({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e6}}, "0.5.2", "reads rope_theta"),
        ({"rope_theta": 1e6, "rope_parameters": {"rope_theta": 1e6}}, "0.5.23", "is 1e+06"),
        ({}, "0.5.23", "so it is 10000"),
    ],
)
def test_two_ropes_in_one_file(workshop: Workshop, options: dict[str, Any], version: str, told: str) -> None:
    check = workshop.judge(workshop.draft(**options), version)[CheckCode.DRAFT_ROPE]
    assert told in check.found


def test_a_pickle_is_never_said_to_be_fine(workshop: Workshop) -> None:
    draft = workshop.draft()
    directory = workshop.root / "draft1"
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    checks = workshop.judge(read(draft.path))
    for code in (CheckCode.DRAFT_WEIGHT_FILES, CheckCode.DRAFT_WEIGHT_KEYS):
        assert checks[code].outcome == "skipped"
        assert "NOT CHECKED" in checks[code].found


def test_weights_that_are_made_up_are_not_judged(workshop: Workshop) -> None:
    arguments = {**EAGLE3, "speculative-draft-load-format": "dummy"}
    checks = workshop.judge(workshop.draft({"x": (1,)}), arguments=arguments)
    assert checks[CheckCode.DRAFT_WEIGHT_KEYS].outcome == "skipped"
