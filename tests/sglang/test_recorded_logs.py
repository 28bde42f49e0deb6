"""Logs recorded from the real engine: three versions, what was done to each, and what must be read from it."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.sglang.failures import Circumstances, Code, diagnose
from service.sglang.log_order import read_in_order
from service.sglang.phases import Phase

FOLDER = Path(__file__).parent / "logs"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a recording must be read as; `code` None means that nothing is wrong with the engine."""

    code: Code | None
    phases: frozenset[Phase]
    has_failed: bool = True


def _fails(code: Code, *phases: Phase) -> Expected:
    return Expected(code, frozenset(phases))


def _serves(code: Code | None = None) -> Expected:
    return Expected(code, frozenset({Phase.SERVING}), has_failed=False)


LOADS = (Phase.LOADING_WEIGHTS,)
EXPECTED = {
    "ready": _serves(),
    "ready_api_key_file": _serves(),
    "ready_tp2": _serves(),
    "sigterm_idle": _serves(),
    "parent_killed": _serves(),
    "scheduler_stopped": _serves(Code.SERVING_HANG),
    "ready_quiet": Expected(None, frozenset(LOADS), has_failed=False),
    "sigterm_loading": Expected(
        None, frozenset({*LOADS, Phase.ALLOCATING_KV_CACHE, Phase.WARMING_UP}), has_failed=False
    ),
    "sigterm_binding": Expected(None, frozenset({Phase.BINDING_HTTP, Phase.WARMING_UP}), has_failed=False),
    "scheduler_killed": _fails(Code.CHILD_PROCESS_DIED, Phase.SERVING),
    "scheduler_killed_tp2": _fails(Code.CHILD_PROCESS_DIED, Phase.SERVING),
    "scheduler_killed_loading": _fails(Code.CHILD_PROCESS_DIED, *LOADS, Phase.ALLOCATING_KV_CACHE),
    "port_taken": _fails(Code.PORT_IN_USE, Phase.BINDING_HTTP),
    "port_taken_by_stranger": _fails(Code.PORT_IN_USE, Phase.BINDING_HTTP),
    "wrong_flag": _fails(Code.INVALID_ARGUMENT, Phase.PARSING_ARGUMENTS),
    "ambiguous_flag": _fails(Code.INVALID_ARGUMENT, Phase.PARSING_ARGUMENTS),
    "invalid_choice": _fails(Code.INVALID_ARGUMENT, Phase.PARSING_ARGUMENTS),
    "speculative_two_of_three": _fails(Code.SPECULATIVE_ARGS_INCOMPLETE, Phase.PARSING_ARGUMENTS),
    "context_too_long": _fails(Code.CONTEXT_LENGTH_TOO_LONG, Phase.RESOLVING_CONFIG),
    "missing_model": _fails(Code.MISSING_WEIGHTS, Phase.RESOLVING_CONFIG),
    "unknown_model_type": _fails(Code.UNSUPPORTED_ARCHITECTURE, Phase.RESOLVING_CONFIG),
    "unknown_architecture": _fails(Code.UNSUPPORTED_ARCHITECTURE, *LOADS),
    "tokenizer_missing": _fails(Code.TOKENIZER_ERROR, Phase.SPAWNING),
    "weights_missing": _fails(Code.MISSING_WEIGHTS, *LOADS),
    "weights_cut": _fails(Code.STORAGE_READ_FAULT, *LOADS),
    "weights_pointer": _fails(Code.STORAGE_READ_FAULT, *LOADS),
    "weights_shape": _fails(Code.CHECKPOINT_MISMATCH, *LOADS),
    "kv_pool_empty": _fails(Code.KV_CACHE_NO_MEMORY, Phase.ALLOCATING_KV_CACHE),
}
OF_VERSION = {("0.5.10.post1", "tokenizer_missing"): _serves()}
"""That version makes do with the tokenizer's vocabulary."""
RECORDINGS = sorted(FOLDER.glob("*/*.log"))


def _expected(path: Path) -> Expected:
    return OF_VERSION.get((path.parent.name, path.stem), EXPECTED[path.stem])


def _name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", RECORDINGS, ids=_name)
def test_a_recording_is_read_as_what_was_done(path: Path) -> None:
    expected = _expected(path)
    log = read_in_order(path.read_bytes()).log
    diagnosis = diagnose(log)
    assert (diagnosis.code if diagnosis else None, log.reading.has_failed) == (expected.code, expected.has_failed)
    assert log.reading.phase in expected.phases
    assert log.reading.is_ready is (expected.phases == {Phase.SERVING} and not expected.has_failed)
    if diagnosis:
        lines = path.read_bytes().split(b"\n")
        assert diagnosis.evidence
        for evidence in diagnosis.evidence:
            assert evidence.text[:60].strip().encode() in lines[evidence.line - 1]


@pytest.mark.parametrize("path", [path for path in RECORDINGS if path.stem.startswith("ready")], ids=_name)
def test_a_healthy_recording_is_never_in_trouble_on_its_way(path: Path) -> None:
    """Cut after every line, as a live log is."""
    data = path.read_bytes()
    step = data.find(b"server_args=") if path.stem != "ready_quiet" else 0
    places = [index for index in range(step, len(data)) if data[index : index + 1] == b"\n"]
    for place in places[:: max(1, len(places) // 40)]:
        log = read_in_order(data[:place]).log
        assert not log.reading.has_failed
        assert diagnose(log) is None


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in FOLDER.glob("*/index.json")), ids=lambda path: path.name
)
def test_every_recording_is_expected_and_its_exit_code_fits(folder: Path) -> None:
    index = json.loads((folder / "index.json").read_text())
    assert set(index) <= {path.stem for path in folder.glob("*.log")}
    assert set(index) <= set(EXPECTED)
    for name, entry in index.items():
        path = folder / f"{name}.log"
        log = read_in_order(path.read_bytes()).log
        around = Circumstances(has_exited=entry["exit_code"] is not None, exit_code=entry["exit_code"])
        diagnosis = diagnose(log, around)
        if _expected(path).code is not None and diagnosis is not None:
            assert diagnosis.code is _expected(path).code
        if name == "parent_killed":
            assert diagnosis is not None
            assert diagnosis.code is Code.UNKNOWN
