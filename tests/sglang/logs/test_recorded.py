"""The recordings are whole: every case of every version, with what its index says, and no path of the recorder's."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.engine.install.recipe import VERSIONS
from tests.sglang.logs.cases import API_KEY, CASES

HERE = Path(__file__).parent
FOREIGN = re.compile(rb"/(?:opt|work|tmp|home)/|/\.engines/|/\.pyenv/|vigil-record", re.IGNORECASE)
READY = b"The server is fired up and ready to roll!"


def index_of(version: str) -> dict[str, dict[str, Any]]:
    index: dict[str, dict[str, Any]] = json.loads((HERE / version / "index.json").read_text())
    return index


@pytest.mark.parametrize("version", VERSIONS)
def test_every_case_of_a_version_is_recorded(version: str) -> None:
    names = {case.name for case in CASES}
    assert set(index_of(version)) == names
    assert {path.stem for path in (HERE / version).glob("*.log")} == names


@pytest.mark.parametrize("version", VERSIONS)
def test_the_index_agrees_with_the_logs(version: str) -> None:
    for name, entry in index_of(version).items():
        log = (HERE / version / f"{name}.log").read_bytes()
        is_quiet = name == "ready_quiet"
        assert not entry["ready"] or is_quiet or READY in log, name
        assert entry["ready"] or entry["exit_code"], f"{name} neither served nor failed"


@pytest.mark.parametrize("version", VERSIONS)
def test_no_path_of_the_recording_machine_is_left(version: str) -> None:
    for path in (HERE / version).glob("*.log"):
        found = FOREIGN.search(path.read_bytes())
        assert found is None, f"{path.name} holds {found.group()!r}"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_key_is_in_the_log_of_the_case_that_has_one(version: str) -> None:
    """The engine writes its arguments, key included: a reader that masks secrets can be tested on this."""
    holders = {path.stem for path in (HERE / version).glob("*.log") if API_KEY.encode() in path.read_bytes()}
    assert holders == {"ready_api_key_file"}
