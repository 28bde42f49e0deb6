"""Rules of the house that a reader would otherwise have to take on trust."""

import re
from pathlib import Path

from service.api.openapi import as_text
from service.app import create_app
from service.servers.states import Reason, State
from service.settings import Settings

ROOT = Path(__file__).parents[1]
SERVICE = ROOT / "service"


def test_openapi_json_is_what_the_code_says() -> None:
    assert (ROOT / "openapi.json").read_text() == as_text(create_app(Settings())), "run `make openapi`"


def test_only_transitioning_writes_state() -> None:
    """Assignments to `.state` of rows, and updates of the server table, are found in one module."""
    assigned = re.compile(r"\b(?:row|server|node|stored|current)\.(?:state|contact)\s*=[^=]")
    updated = re.compile(r"update\((?:Server|Node)\)")
    found = {
        str(path.relative_to(SERVICE))
        for path in SERVICE.rglob("*.py")
        if assigned.search(path.read_text()) or updated.search(path.read_text())
    }
    assert found == {"operations/transitioning.py"}


def test_the_readme_explains_every_state() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [state for state in State if f"`{state}`" not in readme] == []


def test_the_operators_guide_explains_every_reason() -> None:
    guide = (ROOT / "docs" / "states.md").read_text()
    assert [reason for reason in Reason if f"`{reason}`" not in guide] == []


def test_no_file_is_long() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for folder in ("service", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if (count := len(path.read_text().splitlines())) > 400
    }
    assert long == {}
