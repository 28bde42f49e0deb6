"""What is said of a model before a start, on directories that the tests write."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.sglang.checks import Check, CheckCode, Outcome, worst
from service.sglang.model_checks import check_model
from service.sglang.model_files import ModelFiles
from tests.sglang.speculative.checkpoints import TARGET_CONFIG, VOCABULARY, bad, read, write_model

SHAPES = {f"model.layers.{n}.mlp.up_proj.weight": (96, 64) for n in range(6)} | {"lm_head.weight": (VOCABULARY, 64)}


def judge(
    model: ModelFiles,
    arguments: dict[str, Any] | None = None,
    version: str | None = "0.5.23",
    *,
    gpu_free_mib: tuple[int, ...] = (),
    environment: dict[str, str] | None = None,
) -> dict[CheckCode, Check]:
    checks = check_model(
        model, arguments or {}, engine_version=version, gpu_free_mib=gpu_free_mib, environment=environment
    )
    assert all(json.dumps(check.facts) for check in checks)
    return {check.code: check for check in checks}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", TARGET_CONFIG, SHAPES, shards=3)


def test_a_sound_model_passes(directory: Path) -> None:
    checks = judge(read(directory), {"tp-size": 2}, gpu_free_mib=(1000, 1000))
    assert bad(checks) == {}
    assert worst(checks.values()) is Outcome.PASS
    assert "3 files are whole, 7 tensors" in checks[CheckCode.MODEL_WEIGHT_FILES].found


@pytest.mark.parametrize("kind", ["absent", "file", "hub"])
def test_a_model_that_is_not_there(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    path = "meta-llama/Nobody" if kind == "hub" else str(tmp_path / kind)
    check = judge(read(path, HF_HOME=str(tmp_path)))[CheckCode.MODEL_PATH]
    assert check.outcome == ("warn" if kind == "hub" else "fail")
    assert path in check.found


@pytest.mark.parametrize("text", [None, "", "{", "[1]", "[" * 100_000, '{"a": ' * 50_000, "\x00", "{} x"])
def test_a_config_that_is_none(directory: Path, text: str | None) -> None:
    (directory / "config.json").unlink()
    if text is not None:
        (directory / "config.json").write_text(text)
    checks = judge(read(directory))
    assert checks[CheckCode.MODEL_CONFIG].outcome == "fail"
    assert "config.json" in checks[CheckCode.MODEL_CONFIG].found
    assert CheckCode.MODEL_ARCHITECTURE not in checks


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, 10**400, "64", None, [64], {}, True])
def test_a_config_whose_numbers_are_none_is_survived(directory: Path, value: object) -> None:
    config = {
        **TARGET_CONFIG,
        **dict.fromkeys(["hidden_size", "num_attention_heads", "max_position_embeddings"], value),
    }
    (directory / "config.json").write_text(json.dumps({**config, "rope_scaling": {"factor": value}}))
    checks = judge(read(directory), {"tp-size": 3})
    assert checks[CheckCode.MODEL_CONTEXT_LENGTH].facts["derived_tokens"] == 2048


@pytest.mark.parametrize(("version", "told"), [("0.5.16", "without a word"), ("0.5.23", "RuntimeError")])
def test_a_shard_that_is_not_there(directory: Path, version: str, told: str) -> None:
    (directory / "model-00002-of-00003.safetensors").unlink()
    check = judge(read(directory), version=version)[CheckCode.MODEL_WEIGHT_FILES]
    assert (check.outcome, "model-00002-of-00003" in check.found, told in check.found) == ("fail", True, True)


def test_a_shard_that_was_cut_off(directory: Path) -> None:
    shard = directory / "model-00001-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-10])
    check = judge(read(directory))[CheckCode.MODEL_WEIGHT_FILES]
    assert (check.outcome, shard.name in check.found) == ("fail", True)


def test_shards_of_another_version(directory: Path) -> None:
    index = directory / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["model.gone.weight"] = "model-00001-of-00003.safetensors"
    moved = next(iter(content["weight_map"]))
    content["weight_map"][moved] = "model-00003-of-00003.safetensors"
    index.write_text(json.dumps(content))
    check = judge(read(directory))[CheckCode.MODEL_WEIGHT_FILES]
    assert check.outcome == "warn"
    assert "model.gone.weight" in check.found
    assert f"1 tensors lie elsewhere: {moved}" in check.found


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "b"}']
)
def test_an_index_that_is_none(directory: Path, text: str) -> None:
    (directory / "model.safetensors.index.json").write_text(text)
    check = judge(read(directory))[CheckCode.MODEL_WEIGHT_FILES]
    assert (check.outcome, "index cannot be read" in check.found) == ("fail", True)


def test_a_directory_without_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TARGET_CONFIG))
    assert judge(read(tmp_path))[CheckCode.MODEL_WEIGHT_FILES].outcome == "fail"
    assert judge(read(tmp_path), {"load-format": "dummy"})[CheckCode.MODEL_WEIGHT_FILES].outcome == "skipped"
    (tmp_path / "model.gguf").write_text("")
    assert judge(read(tmp_path))[CheckCode.MODEL_WEIGHT_FILES].outcome == "skipped"


@pytest.mark.parametrize(("version", "outcome"), [("0.5.2", "warn"), ("0.5.6.post2", "pass")])
def test_the_same_weights_consolidated(tmp_path: Path, version: str, outcome: str) -> None:
    directory = write_model(tmp_path / "m", TARGET_CONFIG, SHAPES)
    (directory / "consolidated.safetensors").write_bytes((directory / "model.safetensors").read_bytes())
    assert judge(read(directory), version=version)[CheckCode.MODEL_WEIGHT_FILES].outcome == outcome


def test_a_name_that_comes_twice_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TARGET_CONFIG))
    header = (
        b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    )
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"x")
    check = judge(read(tmp_path))[CheckCode.MODEL_WEIGHT_FILES]
    assert (check.outcome, "names a twice" in check.found) == ("warn", True)


def test_an_adapter_beside_the_model_would_be_loaded(tmp_path: Path) -> None:
    directory = write_model(tmp_path / "m", TARGET_CONFIG, SHAPES)
    (directory / "adapter_model.safetensors").write_bytes((directory / "model.safetensors").read_bytes())
    check = judge(read(directory))[CheckCode.MODEL_WEIGHT_FILES]
    assert (check.outcome, "adapter_model.safetensors" in check.found) == ("warn", True)


@pytest.mark.parametrize(
    ("names", "version", "outcome", "told"),
    [
        (["LlamaForCausalLM"], "0.4.9.post6", "pass", "has a class"),
        (["GptOssForCausalLM"], "0.4.9.post6", "warn", "came with 0.5.2"),
        (["NobodyForCausalLM", "LlamaForCausalLM"], "0.5.23", "pass", "has a class"),
        (["NobodyForCausalLM"], "0.5.23", "warn", "not among"),
        (["NobodyForCausalLM"], "0.5.30", "warn", "is newer"),
        ([], "0.5.23", "fail", "names no architectures"),
        (["\x1b[2J" + "x" * 999], "0.5.23", "warn", "not among"),
    ],
)
def test_the_class_must_be_there(directory: Path, names: list[str], version: str, outcome: str, told: str) -> None:
    (directory / "config.json").write_text(json.dumps({**TARGET_CONFIG, "architectures": names}))
    check = judge(read(directory), version=version)[CheckCode.MODEL_ARCHITECTURE]
    assert (check.outcome, told in check.found) == (outcome, True), check.found
    assert check.found.isprintable()


@pytest.mark.parametrize(
    ("arguments", "config", "gpus", "outcome"),
    [
        ({"tp-size": 4}, {}, 0, "pass"),
        ({"tp-size": 3}, {}, 0, "fail"),
        ({"tensor-parallel-size": 3}, {}, 0, "fail"),
        ({"tp-size": 8}, {"num_attention_heads": 24, "num_key_value_heads": 3}, 0, "fail"),
        ({"tp-size": 4, "dp-size": 2, "enable-dp-attention": True}, {"num_attention_heads": 2}, 0, "pass"),
        ({"tp-size": 4, "attn-dp-size": 4}, {"num_attention_heads": 1, "num_key_value_heads": 1}, 0, "pass"),
        ({"tp-size": 4}, {"intermediate_size": 98}, 0, "fail"),
        ({"tp-size": 4}, {"intermediate_size": 98, "num_experts": 8}, 0, "pass"),
        ({"tp-size": 4}, {}, 2, "fail"),
        ({"tp-size": 2, "dp-size": 2}, {}, 2, "fail"),
        ({"tp-size": 2, "pp-size": 2}, {}, 4, "pass"),
    ],
)
def test_heads_over_gpus(
    directory: Path, arguments: dict[str, Any], config: dict[str, Any], gpus: int, outcome: str
) -> None:
    (directory / "config.json").write_text(json.dumps({**TARGET_CONFIG, **config}))
    check = judge(read(directory), arguments, gpu_free_mib=(1000,) * gpus)[CheckCode.MODEL_TENSOR_PARALLEL]
    assert check.outcome == outcome, check.found


def test_sizes_that_would_do_are_named(directory: Path) -> None:
    check = judge(read(directory), {"tp-size": 3})[CheckCode.MODEL_TENSOR_PARALLEL]
    assert check.remedy is not None
    assert check.remedy.startswith("give a --tp-size of 1, 2, 4")


@pytest.mark.parametrize(
    ("length", "environment", "version", "outcome"),
    [
        (8192, {}, "0.5.23", "pass"),
        (8193, {}, "0.5.23", "fail"),
        ("16k", {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}, "0.5.23", "warn"),
        (8193, {}, "0.4.9.post6", "warn"),
    ],
)
def test_a_context_longer_than_the_models(
    directory: Path, length: Any, environment: dict[str, str], version: str, outcome: str
) -> None:
    checks = judge(read(directory), {"context-length": length}, version, environment=environment)
    assert checks[CheckCode.MODEL_CONTEXT_LENGTH].outcome == outcome


@pytest.mark.parametrize(
    ("given", "stated", "dtype", "outcome"),
    [
        (None, None, "BF16", "pass"),
        ("fp8", None, "BF16", "pass"),
        ("fp8", "fp8", "F8_E4M3", "pass"),
        ("awq_marlin", "awq", "I32", "pass"),
        ("modelopt_fp4", "modelopt", "U8", "pass"),
        ("awq", "fp8", "F8_E4M3", "warn"),
        (None, None, "F8_E4M3", "warn"),
        (None, "fp8", "BF16", "warn"),
    ],
)
def test_quantization(tmp_path: Path, given: str | None, stated: str | None, dtype: str, outcome: str) -> None:
    config = {**TARGET_CONFIG, **({"quantization_config": {"quant_method": stated}} if stated else {})}
    model = read(write_model(tmp_path / "m", config, SHAPES, dtypes={"*": dtype}))
    arguments = {"quantization": given} if given else {}
    assert judge(model, arguments)[CheckCode.MODEL_QUANTIZATION].outcome == outcome


@pytest.mark.parametrize(
    ("free_mib", "outcome"), [((40_000, 30_000), "warn"), ((40_000, 40_000), "pass"), ((), "skipped")]
)
def test_weights_against_memory_with_the_sum(tmp_path: Path, free_mib: tuple[int, ...], outcome: str) -> None:
    shapes = {f"w{number}": (1 << 20, 2 << 10) for number in range(15)}
    model = read(write_model(tmp_path / "m", TARGET_CONFIG, shapes))
    check = judge(model, {"tp-size": 2}, gpu_free_mib=free_mib)[CheckCode.MODEL_WEIGHT_MEMORY]
    assert check.outcome == outcome
    if free_mib:
        assert "61440 MiB / 2 GPUs = 30720 MiB each" in check.found
