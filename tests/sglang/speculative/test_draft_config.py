"""What the two configurations tell: algorithm, class, context, widths, vocabularies, flags, types, splits."""

import struct
from typing import Any

import pytest

from service.sglang.checks import CheckCode
from service.sglang.serving_arguments import LONGER_CONTEXT_VARIABLE
from tests.sglang.speculative.checkpoints import (
    DRAFT_VOCABULARY,
    EAGLE3,
    HIDDEN,
    NEW,
    OLD,
    RELEASES,
    SPECFORGE,
    VOCABULARY,
    Workshop,
    bad,
    read,
)
from tests.sglang.speculative.test_layouts import EAGLE_2, LATENT, LATENT_CONFIG

WITHOUT_MAP = {name: shape for name, shape in SPECFORGE.items() if name != "d2t"}


def with_algorithm(name: str, **more: Any) -> dict[str, Any]:
    return {"speculative-algorithm": name, **more}


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("algorithm", ["EAGLE", "NEXTN"])
def test_an_eagle_3_draft_under_eagle_is_refused(workshop: Workshop, algorithm: str, version: str) -> None:
    check = workshop.judge(workshop.draft(), version, with_algorithm(algorithm))[CheckCode.DRAFT_ALGORITHM]
    assert check.outcome == "fail"
    assert "accept length is exactly 1.00" in check.found
    assert check.remedy == "use --speculative-algorithm EAGLE3"


@pytest.mark.parametrize("version", RELEASES)
def test_an_eagle_2_draft_under_eagle3_is_refused(workshop: Workshop, version: str) -> None:
    draft = workshop.draft(EAGLE_2, architectures=["LlamaForCausalLMEagle"])
    checks = workshop.judge(draft, version)
    assert checks[CheckCode.DRAFT_ALGORITHM].outcome == "fail"
    fitting = workshop.judge(draft, version, with_algorithm("EAGLE"))
    assert bad(fitting) == {}


@pytest.mark.parametrize(
    ("shapes", "algorithm", "named"),
    [(SPECFORGE, "EAGLE3", "LlamaForCausalLMEagle3"), (EAGLE_2, "EAGLE", '"LlamaForCausalLMEagle"')],
)
def test_a_draft_that_calls_itself_a_plain_model_gets_the_right_class_named(
    workshop: Workshop, shapes: dict[str, tuple[int, ...]], algorithm: str, named: str
) -> None:
    draft = workshop.draft(shapes, architectures=["LlamaForCausalLM"])
    check = workshop.judge(draft, arguments=with_algorithm(algorithm))[CheckCode.DRAFT_ALGORITHM]
    assert check.outcome == "fail"
    assert named in (check.remedy or "")


def test_an_ordinary_model_is_a_draft_for_standalone_only(workshop: Workshop) -> None:
    plain = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    draft = workshop.draft(plain, architectures=["LlamaForCausalLM"], draft_vocab_size=...)
    code = CheckCode.DRAFT_ALGORITHM
    assert workshop.judge(draft, arguments=with_algorithm("STANDALONE"))[code].outcome == "pass"
    assert workshop.judge(draft, arguments=with_algorithm("EAGLE"))[code].outcome == "warn"
    assert workshop.judge(draft, arguments=with_algorithm("EAGLE3"))[code].outcome == "fail"
    assert workshop.judge(draft, arguments=with_algorithm("DFLASH"))[code].outcome == "skipped"


@pytest.mark.parametrize("version", OLD)
def test_a_class_of_a_later_release_is_refused(workshop: Workshop, version: str) -> None:
    check = workshop.judge(workshop.draft(LATENT, **LATENT_CONFIG), version)[CheckCode.DRAFT_ARCHITECTURE]
    assert (check.outcome, check.remedy) == ("fail", "upgrade to 0.5.16 or later")


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize("name", ["Eagle3Speculator", "Eagle3DraftModel"])
def test_the_format_of_speculators_is_refused_with_the_way_out(workshop: Workshop, name: str, version: str) -> None:
    draft = workshop.draft(architectures=[name], model_type=..., transformer_layer_config={"hidden_size": HIDDEN})
    check = workshop.judge(draft, version)[CheckCode.DRAFT_ARCHITECTURE]
    assert check.outcome == "fail"
    assert "flat config.json" in (check.remedy or "")


@pytest.mark.parametrize(("version", "outcome"), [*((v, "fail") for v in OLD), *((v, "pass") for v in NEW)])
def test_several_layers_need_a_release_that_takes_them(workshop: Workshop, version: str, outcome: str) -> None:
    draft = workshop.draft(num_hidden_layers=2)
    assert workshop.judge(draft, version)[CheckCode.DRAFT_ARCHITECTURE].outcome == outcome


def test_a_type_that_is_not_stated_is_told(workshop: Workshop) -> None:
    code = CheckCode.DRAFT_ARCHITECTURE
    assert workshop.judge(workshop.draft(model_type=...))[code].outcome == "warn"
    assert workshop.judge(workshop.draft(model_type=..., auto_map={}))[code].outcome == "pass"


@pytest.mark.parametrize("version", RELEASES)
def test_a_number_of_layers_must_be_stated(workshop: Workshop, version: str) -> None:
    check = workshop.judge(workshop.draft(num_hidden_layers=...), version)[CheckCode.DRAFT_ARCHITECTURE]
    assert check.outcome == "fail"
    assert "num_hidden_layers" in check.found


@pytest.mark.parametrize("version", RELEASES)
def test_a_draft_with_less_context_is_refused_with_both_numbers_the_file_and_both_remedies(
    workshop: Workshop, version: str
) -> None:
    workshop.target_config["max_position_embeddings"] = 262144
    draft = workshop.draft(max_position_embeddings=131072)
    check = workshop.judge(draft, version)[CheckCode.DRAFT_CONTEXT_LENGTH]
    assert check.outcome == ("warn" if version == "0.4.9.post6" else "fail")
    assert "262144" in check.found
    assert "131072" in check.found
    assert f"{draft.path}/config.json" in check.found
    if check.outcome == "fail":
        assert check.remedy == f"set {LONGER_CONTEXT_VARIABLE}=1 in the environment, or give --context-length 131072"


@pytest.mark.parametrize(
    ("environment", "arguments", "version", "outcome"),
    [
        ({LONGER_CONTEXT_VARIABLE: "1"}, {}, "0.5.23", "warn"),
        ({LONGER_CONTEXT_VARIABLE: "true"}, {}, "0.5.2", "warn"),
        ({LONGER_CONTEXT_VARIABLE: "yes"}, {}, "0.5.23", "warn"),
        ({LONGER_CONTEXT_VARIABLE: "yes"}, {}, "0.5.2", "fail"),
        ({LONGER_CONTEXT_VARIABLE: "0"}, {}, "0.5.23", "fail"),
        ({LONGER_CONTEXT_VARIABLE: "0"}, {}, "0.4.9.post6", "fail"),
        ({}, {"context-length": 4096}, "0.5.23", "pass"),
        ({}, {"context-length": "4096"}, "0.5.23", "pass"),
        ({}, {"context_length": "8k"}, "0.5.23", "fail"),
    ],
)
def test_the_served_context_and_the_environment_decide(
    workshop: Workshop, environment: dict[str, str], arguments: dict[str, Any], version: str, outcome: str
) -> None:
    draft = workshop.draft(max_position_embeddings=4096)
    check = workshop.judge(draft, version, {**EAGLE3, **arguments}, **environment)[CheckCode.DRAFT_CONTEXT_LENGTH]
    assert check.outcome == outcome, check.found


@pytest.mark.parametrize(
    ("rope", "length"),
    [
        ({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, 8192),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 4.0}}, 2048),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}}, 2048),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 2048),
        ({"model_max_length": 1024}, 1024),
        ({"max_position_embeddings": ...}, 2048),
    ],
)
def test_the_context_length_is_derived_as_the_engine_does(
    workshop: Workshop, rope: dict[str, Any], length: int
) -> None:
    draft = workshop.draft(**{"max_position_embeddings": 2048, **rope})
    check = workshop.judge(draft)[CheckCode.DRAFT_CONTEXT_LENGTH]
    assert check.facts["draft_tokens"] == length


@pytest.mark.parametrize("version", RELEASES)
@pytest.mark.parametrize(
    ("target", "options"), [(128, {}), (64, {"target_hidden_size": 128}), (64, {"target_hidden_size": None})]
)
def test_a_draft_of_another_width_is_refused(
    workshop: Workshop, target: int, options: dict[str, Any], version: str
) -> None:
    workshop.target_config["hidden_size"] = target
    check = workshop.judge(workshop.draft(**options), version)[CheckCode.DRAFT_HIDDEN_SIZE]
    assert check.outcome == "fail"


def test_what_a_configuration_does_not_state_is_not_judged(workshop: Workshop) -> None:
    checks = workshop.judge(workshop.draft(hidden_size=..., vocab_size=...))
    assert checks[CheckCode.DRAFT_HIDDEN_SIZE].outcome == "skipped"
    assert checks[CheckCode.DRAFT_VOCABULARY].outcome == "skipped"
    assert checks[CheckCode.DRAFT_WEIGHT_SHAPES].outcome == "pass"


@pytest.mark.parametrize(
    ("name", "options", "outcome"),
    [
        ("LlamaForCausalLMEagle", {}, "warn"),
        ("LlamaForCausalLMEagle", {"attention_bias": True}, "pass"),
        ("Qwen2ForCausalLMEagle", {}, "pass"),
    ],
)
def test_biases_of_an_eagle_2_draft(workshop: Workshop, name: str, options: dict[str, Any], outcome: str) -> None:
    biases = {f"layers.0.self_attn.{part}_proj.bias": (64 if part == "q" else 32,) for part in "qkv"}
    draft = workshop.draft({**EAGLE_2, **biases}, architectures=[name], **options)
    checks = workshop.judge(draft, arguments=with_algorithm("EAGLE"))
    assert checks[CheckCode.DRAFT_WEIGHT_KEYS].outcome == outcome
    without = workshop.judge(
        workshop.draft(EAGLE_2, architectures=[name], **options), arguments=with_algorithm("EAGLE")
    )
    assert without[CheckCode.DRAFT_WEIGHT_KEYS].outcome == ("pass" if outcome == "warn" else "fail")


def test_the_width_of_a_multimodal_target_is_that_of_its_text_model(workshop: Workshop) -> None:
    text = {**workshop.target_config}
    workshop.target_config = {"architectures": ["Qwen3VLForConditionalGeneration"], "text_config": text}
    workshop.target_config["vision_config"] = {"hidden_size": 9}
    assert bad(workshop.judge(workshop.draft())) == {}


@pytest.mark.parametrize(
    ("options", "version", "outcome"),
    [
        ({"draft_vocab_size": ...}, "0.4.9.post6", "fail"),
        ({"draft_vocab_size": ...}, "0.5.23", "fail"),
        ({"draft_vocab_size": ..., "tie_word_embeddings": True}, "0.5.2", "pass"),
        ({"draft_vocab_size": ..., "tie_word_embeddings": True}, "0.5.6.post2", "fail"),
        ({"draft_vocab_size": None}, "0.4.9.post6", "fail"),
        ({"draft_vocab_size": None}, "0.5.2", "pass"),
        ({"draft_vocab_size": VOCABULARY + 1}, "0.5.23", "fail"),
        ({"tie_word_embeddings": True}, "0.5.23", "warn"),
        ({"vocab_size": VOCABULARY + 28}, "0.5.23", "warn"),
        ({"bos_token_id": 77}, "0.5.23", "warn"),
        ({"eos_token_id": [2, 3]}, "0.5.23", "pass"),
    ],
)
def test_vocabularies(workshop: Workshop, options: dict[str, Any], version: str, outcome: str) -> None:
    check = workshop.judge(workshop.draft(**options), version)[CheckCode.DRAFT_VOCABULARY]
    assert check.outcome == outcome, check.found


@pytest.mark.parametrize(("version", "outcome"), [*((v, "warn") for v in OLD), *((v, "fail") for v in NEW)])
def test_standalone_wants_one_vocabulary(workshop: Workshop, version: str, outcome: str) -> None:
    plain = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    draft = workshop.draft(plain, architectures=["LlamaForCausalLM"], vocab_size=VOCABULARY + 128)
    check = workshop.judge(draft, version, with_algorithm("STANDALONE"))[CheckCode.DRAFT_VOCABULARY]
    assert check.outcome == outcome


@pytest.mark.parametrize(
    ("target", "draft", "outcome", "told"),
    [
        ("{}", "{}", "pass", "is the same"),
        ("{}", None, "pass", "cannot be compared"),
        ("{}", "{ }", "warn", "tokenizer.json of draft and target differ"),
    ],
)
def test_tokenizers_are_compared_as_files(
    workshop: Workshop, target: str, draft: str | None, outcome: str, told: str
) -> None:
    made = workshop.draft()
    workshop.target()
    (workshop.target_path / "tokenizer.json").write_text(target)
    if draft is not None:
        (workshop.root / "draft1" / "tokenizer.json").write_text(draft)
    check = workshop.judge(read(made.path))[CheckCode.DRAFT_VOCABULARY]
    assert (check.outcome, told in check.found) == (outcome, True), check.found


@pytest.mark.parametrize("version", RELEASES)
def test_a_small_vocabulary_without_its_map_is_refused(workshop: Workshop, version: str) -> None:
    check = workshop.judge(workshop.draft(WITHOUT_MAP), version)[CheckCode.DRAFT_TOKEN_MAP]
    assert check.outcome == "fail"
    assert f"{DRAFT_VOCABULARY} tokens of its own and no d2t" in check.found


def test_the_whole_vocabulary_needs_no_map(workshop: Workshop) -> None:
    shapes = {**WITHOUT_MAP, "lm_head.weight": (VOCABULARY, HIDDEN)}
    del shapes["t2d"]
    assert bad(workshop.judge(workshop.draft(shapes, draft_vocab_size=VOCABULARY))) == {}


@pytest.mark.parametrize(
    ("numbers", "outcome", "told"),
    [
        (range(DRAFT_VOCABULARY), "pass", "maps 200 draft tokens"),
        ([0] * DRAFT_VOCABULARY, "pass", "maps"),
        (range(100, 500, 2), "fail", "ids of the target instead of differences"),
        ([0] * 199 + [400], "fail", "the target has 500 tokens"),
        ([-1] + [0] * 199, "fail", "ids from -1"),
        ([1, 0] + [0] * 198, "warn", "that another one has"),
        ([9, 0] + [10] * 198, "warn", "falls at 1 places"),
    ],
)
def test_the_numbers_of_the_map_are_read(workshop: Workshop, numbers: Any, outcome: str, told: str) -> None:
    data = {"d2t": struct.pack(f"<{DRAFT_VOCABULARY}q", *numbers)}
    check = workshop.judge(workshop.draft(data=data))[CheckCode.DRAFT_TOKEN_MAP]
    assert check.outcome == outcome, check.found
    assert told in check.found


@pytest.mark.parametrize(
    ("shape", "dtype", "options", "outcome"),
    [
        ((DRAFT_VOCABULARY - 1,), "I64", {}, "fail"),
        ((DRAFT_VOCABULARY,), "I32", {}, "pass"),
        ((DRAFT_VOCABULARY,), "BF16", {}, "fail"),
        ((DRAFT_VOCABULARY,), "BOOL", {}, "fail"),
        ((DRAFT_VOCABULARY, 1), "I64", {}, "fail"),
        ((DRAFT_VOCABULARY,), "I64", {"draft_vocab_size": None}, "fail"),
    ],
)
def test_the_map_must_have_a_whole_number_for_each_draft_token(
    workshop: Workshop, shape: tuple[int, ...], dtype: str, options: dict[str, Any], outcome: str
) -> None:
    shapes = {name: extent for name, extent in SPECFORGE.items() if name != "t2d"}
    draft = workshop.draft({**shapes, "d2t": shape}, dtypes={"d2t": dtype}, **options)
    check = workshop.judge(draft)[CheckCode.DRAFT_TOKEN_MAP]
    assert check.outcome == outcome, check.found


def test_a_mask_of_another_export_is_told(workshop: Workshop) -> None:
    draft = workshop.draft(data={"t2d": bytes([1] * 100 + [0] * 400)})
    check = workshop.judge(draft)[CheckCode.DRAFT_TOKEN_MAP]
    assert (check.outcome, "marks 100 tokens" in check.found) == ("warn", True)
