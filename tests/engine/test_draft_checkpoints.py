"""Whole drafts on disk, loaded by the real classes of the engine: what stays empty is what we say is missing."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from service.remote.on_node.draft_rename import rename_draft
from service.sglang.model_files import ModelFiles
from service.sglang.releases import known_release
from service.sglang.speculative.classes import is_registered
from service.sglang.speculative.identity import too_many_layers
from service.sglang.speculative.mending import mend
from service.sglang.speculative.weight_checks import loader_for
from service.sglang.speculative.weights import Expected, Need, match
from tests.engine.loaders import probe
from tests.engine.test_loaders import LATENT_SIZES
from tests.sglang.speculative.checkpoints import DRAFT_CONFIG, SPECFORGE, Shapes, read, write_model
from tests.sglang.speculative.test_layouts import LAYOUTS

pytestmark = pytest.mark.engine

VERSIONS = os.environ.get("VIGIL_TEST_ENGINES", "0.5.23").split()
NOT_FOR_A_MODEL = ("architectures", "model_type", "torch_dtype")
RENAMED = ", renamed"
NEVER_LOADED = "lm_head.weight"
"""The classes of EAGLE-2 have a head of their own and never load it: the target's replaces it."""


def without(*names: str) -> Shapes:
    return {name: shape for name, shape in SPECFORGE.items() if name not in names}


DRAFTS: Mapping[str, tuple[Shapes, dict[str, Any]]] = {
    **{name: (shapes, config) for name, (shapes, config, _) in LAYOUTS.items()},
    "no fc": (without("fc.weight"), {}),
    "no head": (without("lm_head.weight"), {}),
    "half of a fused weight": (without("midlayer.mlp.up_proj.weight", "midlayer.self_attn.k_proj.weight"), {}),
    "no norms": (without("norm.weight", "midlayer.hidden_norm.weight"), {}),
    "only a token map": (without(*(name for name in SPECFORGE if name != "d2t")), {}),
}


def config_of(name: str) -> dict[str, Any]:
    config = {**DRAFT_CONFIG, **DRAFTS[name][1]}
    return {**config, **LATENT_SIZES} if name == "latent attention" else config


def case_of(files: ModelFiles) -> dict[str, Any]:
    assert files.config is not None
    config = files.config.values
    return {
        "class": config["architectures"][0],
        "model_type": config["model_type"],
        "config": {key: value for key, value in config.items() if key not in NOT_FOR_A_MODEL},
        "checkpoint": files.directory,
    }


@dataclass(frozen=True)
class Loaded:
    """What the real classes of one version did with each draft, and with those that were renamed for it."""

    version: str
    files: Mapping[str, ModelFiles]
    answers: Mapping[str, dict[str, Any]]

    def is_refused(self, name: str) -> bool:
        """Tell whether we say that the class of this version takes no such configuration."""
        config = self.files[name].config
        assert config is not None
        return too_many_layers(config, config.architecture, known_release(self.version).release) is not None

    def kept(self, name: str) -> set[str]:
        """Return the parameters that got nothing, or not everything."""
        answer = self.answers[name]
        assert "cannot" not in answer, answer["cannot"]
        assert answer["load"]["error"] is None
        is_eagle_2 = "EAGLE-2" in name
        return {item for item in answer["load"]["kept"] if not (is_eagle_2 and item == NEVER_LOADED)}

    def missing(self, name: str) -> tuple[Expected, ...]:
        """Return what we say is missing."""
        files = self.files[name]
        assert files.config is not None
        loader = loader_for(files.config, files.config.architectures[0], known_release(self.version).release)
        assert loader is not None
        return match(files.loaded_tensors, loader).missing


@pytest.fixture(scope="module", params=VERSIONS)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """Write every draft in two shards with an index, mend what can be mended, and load all of them."""
    version, root = request.param, tmp_path_factory.mktemp("drafts")
    files: dict[str, ModelFiles] = {}
    for number, (name, (shapes, _)) in enumerate(DRAFTS.items()):
        config = config_of(name)
        if not is_registered(config["architectures"][0], known_release(version).release):
            continue
        old, new = root / str(number), root / f"{number}-renamed"
        files[name] = read(write_model(old, config, shapes, shards=min(2, len(shapes))))
        renaming = mend(files[name], version).renaming
        if renaming is not None:
            rename_draft({"source": str(old), "destination": str(new), "renames": dict(renaming.names)})
            files[f"{name}{RENAMED}"] = read(new)
    answers = probe(version, [case_of(item) for item in files.values()])
    return Loaded(version, files, dict(zip(files, answers, strict=True)))


@pytest.mark.parametrize("name", DRAFTS)
def test_what_stays_empty_is_what_we_say_is_missing(loaded: Loaded, name: str) -> None:
    if name not in loaded.files:
        assert not is_registered(config_of(name)["architectures"][0], known_release(loaded.version).release)
        return
    if loaded.is_refused(name):
        assert "ValueError" in loaded.answers[name]["cannot"]
        return
    assert loaded.kept(name) == {item.parameter for item in loaded.missing(name)}


@pytest.mark.parametrize("name", DRAFTS)
def test_the_token_map_is_taken_where_there_is_one(loaded: Loaded, name: str) -> None:
    if name in loaded.files and not loaded.is_refused(name):
        has_map = any("d2t" in tensor for tensor in DRAFTS[name][0])
        assert loaded.answers[name]["load"]["token_map"] is has_map


def test_a_draft_that_we_renamed_has_all_that_it_needs(loaded: Loaded) -> None:
    renamed = [name for name in loaded.files if name.endswith(RENAMED)]
    assert f"raw state of a trainer{RENAMED}" in renamed
    assert (f"modelopt, current{RENAMED}" in renamed) is (loaded.version == "0.5.10.post1")
    for name in renamed:
        optional = {item.parameter for item in loaded.missing(name) if item.need is not Need.REQUIRED}
        assert loaded.kept(name) <= optional, name
        assert loaded.kept(name.removesuffix(RENAMED)) > loaded.kept(name), name
