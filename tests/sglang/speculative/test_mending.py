"""The renaming that is carried out is the one that the check tells, and it mends."""

from pathlib import Path
from typing import Any

import pytest

from service.sglang.checks import CheckCode, Outcome
from service.sglang.speculative.mending import faults_of, mend
from tests.sglang.speculative.checkpoints import MODELOPT, NEW, RELEASES, SPECFORGE, Workshop, read
from tests.sglang.speculative.test_layouts import LATENT, LATENT_CONFIG, LAYOUTS, TWO_LAYERS, algorithm

KEYS = CheckCode.DRAFT_WEIGHT_KEYS
IN_BETWEEN = ("0.5.5", "0.5.12", "0.5.20", "0.6.0")


@pytest.mark.parametrize("version", [*RELEASES, *IN_BETWEEN])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_renaming_is_the_one_that_the_check_tells(workshop: Workshop, name: str, version: str) -> None:
    shapes, config, _ = LAYOUTS[name]
    draft = workshop.draft(shapes, **config)
    checks = workshop.judge(draft, version, algorithm(config))
    mending = mend(draft, version)
    told = checks[KEYS].facts.get("rename")
    if (name, version) == ("modelopt, several layers", "0.5.12"):
        assert told is None  # the older neighbour, which the check goes by, takes no draft of several layers
        told = mend(draft, "0.5.16").renaming.names  # type: ignore[union-attr]
    assert (dict(mending.renaming.names) if mending.renaming else None) == told
    is_well = checks[KEYS].outcome in {Outcome.PASS, Outcome.WARN}
    assert is_well or mending.renaming or mending.unknown


def test_a_version_that_was_not_read_says_so(workshop: Workshop) -> None:
    mending = mend(workshop.draft(MODELOPT), "0.5.12")
    assert str(mending.release) == "0.5.10"
    assert mending.note == "0.5.12 lies between 0.5.10 and 0.5.16, which are known"
    assert mending.renaming is not None
    newer = mend(workshop.draft(MODELOPT), "0.9.0")
    assert (newer.renaming, newer.unknown) == (None, None)
    assert newer.note == "0.9.0 is newer than 0.5.23, the newest that is known"


@pytest.mark.parametrize("version", RELEASES)
def test_names_do_not_mend_what_the_class_refuses(workshop: Workshop, version: str) -> None:
    mending = mend(workshop.draft(TWO_LAYERS, num_hidden_layers=2), version)
    if version in NEW:
        assert mending.renaming is not None
        assert mending.renaming.patterns == ("midlayer.* -> layers.* (20)",)
    else:
        assert mending.renaming is None
        assert mending.unknown == "LlamaForCausalLMEagle3 takes exactly one layer, the draft has 2"


@pytest.mark.parametrize(
    ("shapes", "config", "told"),
    [
        ({**SPECFORGE, "x.weight": (1,)}, {"architectures": ["OddForCausalLM"]}, "OddForCausalLM is not known"),
        (SPECFORGE, {"architectures": None}, "is not known in detail"),
        (SPECFORGE, {"architectures": ["LlamaForCausalLM"]}, "LlamaForCausalLM is not known"),
        (MODELOPT, {"architectures": ["DeepseekV3ForCausalLM"]}, "a layer that comes with its target"),
        (MODELOPT, {"quantization_config": {"quant_method": "fp8"}}, "the draft is quantised (fp8)"),
        ({"fc.weight": (64, 192)}, {}, "and 8 more, and no tensor of the files is it under another name"),
    ],
)
def test_what_is_not_known_is_said(
    workshop: Workshop, shapes: dict[str, tuple[int, ...]], config: dict[str, Any], told: str
) -> None:
    mending = mend(workshop.draft(shapes, **config), "0.5.10.post1")
    assert mending.renaming is None
    assert told in (mending.unknown or "")


def test_a_class_of_a_later_release_is_not_judged_by_an_earlier_one(workshop: Workshop) -> None:
    draft = workshop.draft(LATENT, **LATENT_CONFIG)
    assert "loads Eagle3DeepseekV2ForCausalLM" in (mend(draft, "0.5.10").unknown or "")
    assert mend(draft, "0.5.16").unknown is None


def test_pickles_and_garbled_configurations_are_not_mended(workshop: Workshop) -> None:
    directory = Path(workshop.draft().path)
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    assert "whose names cannot be listed without running it" in (mend(read(directory), "0.5.10").unknown or "")
    (directory / "config.json").write_text("{")
    assert "config.json: it is no JSON" in (mend(read(directory), "0.5.10").unknown or "")


def test_faults_of_renames(workshop: Workshop) -> None:
    draft = workshop.draft()
    assert faults_of({"fc.weight": "fc2.weight"}, draft) == ()
    assert faults_of({"a": "b"}, draft) == ("there is no tensor a",)
    assert faults_of({"fc.weight": "norm.weight"}, draft) == ("2 tensors would be norm.weight",)
    assert faults_of({"fc.weight": "norm.weight", "norm.weight": "fc.weight"}, draft) == ()
