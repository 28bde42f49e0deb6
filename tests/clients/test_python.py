"""A Python client generated from the document, complete, checked by mypy, and run against the service."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.simulator.fleet import EmbeddedFleet
from tests.clients.generator import Generator, install, mypy, run
from tests.clients.node import ROOT
from tests.clients.service import Target, guarded_service
from tests.contract.conftest import fleet

__all__ = ["fleet"]
PROGRAM = Path(__file__).parent / "programs" / "launch.py"


@pytest.fixture(scope="module")
def generator() -> Generator:
    return install()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, generator: Generator) -> Path:
    """Give the program beside the package that it imports."""
    folder = tmp_path_factory.mktemp("project")
    made = generator.generate(ROOT / "openapi.json", folder / "vigil_client")
    assert made.returncode == 0, made.stdout + made.stderr
    return Path(shutil.copy(PROGRAM, folder))


@pytest.fixture
def target(tmp_path: Path, fleet: EmbeddedFleet) -> Iterator[Target]:
    with guarded_service(tmp_path / "vigil", fleet.nodes[0]) as made:
        yield made


def test_every_operation_and_shape_is_in_the_client(program: Path) -> None:
    document = json.loads((ROOT / "openapi.json").read_text())
    operations = {call["operationId"] for path in document["paths"].values() for call in path.values()}
    package = program.parent / "vigil_client"
    assert {path.stem for path in package.glob("api/*/*.py")} - {"__init__"} == operations
    models = set(re.findall(r'^    "(\w+)",$', (package / "models" / "__init__.py").read_text(), re.MULTILINE))
    unions = {name for name, shape in document["components"]["schemas"].items() if "oneOf" in shape}
    assert {name.replace("_", "") for name in document["components"]["schemas"]} - models == unions


def test_a_launch_is_driven_to_ready_and_stopped(program: Path, generator: Generator, target: Target) -> None:
    done = run(generator.python, program, environment=target.environment())
    target.assert_launched_and_stopped(done)


def test_the_program_is_right_by_the_types_of_the_client(program: Path, generator: Generator) -> None:
    checked = mypy(program, generator.python)
    assert checked.returncode == 0, checked.stdout


def test_a_mistake_is_found_by_the_types(program: Path, generator: Generator) -> None:
    wrong = program.with_name("wrong.py")
    wrong.write_text(program.read_text().replace("gpu_count=1", "gpus=1"))
    checked = mypy(wrong, generator.python)
    assert '"gpus" for "Profile"' in checked.stdout


def test_what_the_generator_leaves_out_is_a_failure(tmp_path: Path, generator: Generator) -> None:
    document = json.loads((ROOT / "openapi.json").read_text())
    document["paths"]["/healthz"]["get"]["responses"]["200"]["content"] = {"image/png": {"schema": {"type": "string"}}}
    odd = tmp_path / "openapi.json"
    odd.write_text(json.dumps(document))
    assert generator.generate(odd, tmp_path / "vigil_client").returncode != 0
