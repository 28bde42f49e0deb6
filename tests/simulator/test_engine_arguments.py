"""Command lines that the stand-in refuses, as argparse or as the engine's own resolution does."""

from pathlib import Path

import pytest

from service.simulator.specs import ENGINE_VERSIONS
from tests.simulator.engines import EngineHome

OLD, MIDDLE, NEW = ENGINE_VERSIONS


@pytest.mark.parametrize(
    ("words", "version", "proof"),
    [
        (("--num-speculative-tokens", "5"), NEW, "error: unrecognized arguments: --num-speculative-tokens 5"),
        (("--cuda-graph-max-bs", "16"), NEW, "error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph"),
        (("--pp", "2"), NEW, "error: ambiguous option: --pp could match"),
        (("--attention-backend", "flashinfr"), NEW, "argument --attention-backend: invalid choice: 'flashinfr'"),
        (("--context-length", "many"), NEW, "argument --context-length: Invalid integer value: 'many'."),
        (("--speculative-algorithm", "EAGLE9"), OLD, "argument --speculative-algorithm: invalid choice"),
    ],
)
def test_arguments_that_argparse_refuses(home: EngineHome, words: tuple[str, ...], version: str, proof: str) -> None:
    engine = home.start(*words, version=version)
    assert engine.exit_code() == 2
    assert engine.log.splitlines()[-1].startswith("sglang serve: error: ")
    assert proof in engine.log.splitlines()[-1]
    assert "usage: sglang serve" in engine.log


def test_flags_of_an_older_version_still_work_there(home: EngineHome) -> None:
    engine = home.start("--cuda-graph-max-bs", "16", "--tp", "2", version=OLD)
    engine.wait_until_ready()
    assert "cuda_graph_max_bs=16" in engine.log


def test_deprecated_flags_warn(home: EngineHome) -> None:
    engine = home.start("--disable-cuda-graph", version=NEW)
    engine.wait_until_ready()
    assert "'--disable-cuda-graph' is deprecated and will be removed in a future release." in engine.log
    assert "Capture" not in engine.log


@pytest.mark.parametrize(
    ("words", "version", "proof"),
    [
        (("--speculative-algorithm", "EAGLE3", "--speculative-num-draft-tokens", "16"), NEW, "\nAssertionError\n"),
        (("--speculative-algorithm", "EAGLE3", "--speculative-eagle-topk", "1"), OLD, "\nAssertionError\n"),
        (
            ("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"),
            NEW,
            "TypeError: '>' not supported between instances of 'NoneType' and 'int'",
        ),
        (("--speculative-algorithm", "EAGLE9"), NEW, "ValueError: Unknown speculative algorithm name: EAGLE9"),
        (("--served-model-name", "a:b"), NEW, "ValueError: served_model_name cannot contain a colon"),
        (("--nnodes", "2"), NEW, "AssertionError: tp_size must be divisible by number of nodes"),
        (
            ("--context-length", "4096"),
            NEW,
            "ValueError: Warning: User-specified context_length (4096) is greater than the derived context_length (",
        ),
        (("--config", "/nowhere/config.yaml"), NEW, "ValueError: Config file not found: /nowhere/config.yaml"),
        (("--config", "/nowhere/config.json"), OLD, "ValueError: Config file must be YAML format, got:"),
        (("--log-level", "loud"), NEW, "AttributeError"),
    ],
)
def test_combinations_that_resolution_refuses(
    home: EngineHome, words: tuple[str, ...], version: str, proof: str
) -> None:
    engine = home.start(*words, version=version)
    assert engine.exit_code() == 1
    assert proof in engine.log, engine.log
    assert "Traceback (most recent call last):" in engine.log
    assert "Load weight begin" not in engine.log


def test_config_may_not_set_flags_with_actions_of_their_own(home: EngineHome, tmp_path: Path) -> None:
    config = tmp_path / "c.yml"
    config.write_text("disable-cuda-graph: true\n")
    engine = home.start("--config", str(config))
    assert engine.exit_code() == 1
    assert "Unsupported config option 'disable_cuda_graph' with action 'DeprecatedStoreTrueAction'" in engine.log


def test_missing_model(home: EngineHome) -> None:
    engine = home.start(model="/models/absent/really")
    assert engine.exit_code() == 1
    last = engine.log.splitlines()[-1]
    assert last.startswith("OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name'")
