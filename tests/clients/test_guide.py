"""`docs/clients.md` shows what is really run."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from service.simulator.fleet import EmbeddedFleet
from tests.clients.node import ROOT
from tests.clients.service import guarded_service
from tests.contract.conftest import fleet

__all__ = ["fleet"]
GUIDE = ROOT / "docs" / "clients.md"
PROGRAMS = Path(__file__).parent / "programs"


def blocks(language: str) -> list[str]:
    """Return what the guide shows in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("language", "name"), [("ts", "launch.ts"), ("python", "launch.py")])
def test_what_is_shown_is_part_of_the_program(language: str, name: str) -> None:
    (shown,) = blocks(language)
    program = (PROGRAMS / name).read_text()
    marked = re.search(r"begins here\.\n(.*?)^(?://|#) Here it ends", program, re.MULTILINE | re.DOTALL)
    assert marked
    assert marked.group(1).strip() == shown.strip()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing")
def test_the_request_by_curl_is_answered(tmp_path: Path, fleet: EmbeddedFleet) -> None:
    (command,) = [block for block in blocks("sh") if block.startswith("curl")]
    with guarded_service(tmp_path / "vigil", fleet.nodes[0]) as target:
        environment = {"PATH": "/usr/bin:/bin", **target.environment()}
        done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, timeout=30, check=True)
    assert json.loads(done.stdout) == {"items": [], "next_cursor": None}


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", GUIDE.read_text()):
        assert "://" in target or (GUIDE.parent / target).exists(), target
