"""A TypeScript client made from the document, compiled as strictly as can be, and run against the service."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.simulator.fleet import EmbeddedFleet
from tests.clients.node import ROOT, NodePrograms
from tests.clients.service import Target, guarded_service
from tests.contract.conftest import fleet

__all__ = ["fleet"]
PROGRAMS = Path(__file__).parent / "programs"
MISTAKES = [
    ('profile: "tiny"', 'profil: "tiny"'),
    ("gpu_count: 1,", ""),
    ('until: "ready"', 'until: "redy"'),
    ('seen.state === "running"', 'seen.state === "runing"'),
    ("up.state", "up.status"),
]
"""What the program says, and what it must not be able to say."""


@pytest.fixture
def target(tmp_path: Path, fleet: EmbeddedFleet) -> Iterator[Target]:
    with guarded_service(tmp_path / "vigil", fleet.nodes[0]) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path, node: NodePrograms) -> Path:
    """Give a folder with the program and the types that it is compiled with."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("launch.ts", "tsconfig.json"):
        shutil.copy(PROGRAMS / name, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(node.folder)
    types = ("--output", folder / "vigil.d.ts", "--default-non-nullable=false")
    made = node.run("openapi-typescript", ROOT / "openapi.json", *types)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


def test_a_launch_is_driven_to_ready_and_stopped(project: Path, node: NodePrograms, target: Target) -> None:
    compiled = node.run("tsc", "--project", project)
    assert compiled.returncode == 0, compiled.stdout
    done = node.run("node", project / "built" / "launch.js", **target.environment())
    target.assert_launched_and_stopped(done)


def test_mistakes_do_not_compile(project: Path, node: NodePrograms) -> None:
    text = (project / "launch.ts").read_text()
    for number, (right, wrong) in enumerate(MISTAKES):
        assert right in text
        (project / f"mistake_{number}.ts").write_text(text.replace(right, wrong))
    compiled = node.run("tsc", "--project", project, "--noEmit", "--pretty", "false")
    refused = set(re.findall(r"(\w+)\.ts\(\d+,\d+\): error", compiled.stdout))
    assert refused == {f"mistake_{number}" for number in range(len(MISTAKES))}, compiled.stdout
