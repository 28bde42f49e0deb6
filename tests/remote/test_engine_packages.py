"""Which torch an engine environment has, by files laid out as those of real ones."""

from pathlib import Path
from typing import Any

import pytest

from service.preflights.conditions import Part
from service.remote.node import NodeSession
from service.remote.on_node import engine_packages
from tests.remote.looking import look


class Environment:
    """A directory laid out as an engine environment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages = root / "lib" / "python3.12" / "site-packages"
        self.packages.mkdir(parents=True)
        (root / "bin").mkdir()
        self.python = root / "bin" / "python"
        self.python.write_text("")
        (root / "pyvenv.cfg").write_text("include-system-site-packages = false\n")

    def torch(self, text: str | None, record: str | None = None) -> None:
        if text is not None:
            (self.packages / "torch").mkdir()
            (self.packages / "torch" / "version.py").write_text(text)
        if record:
            (self.packages / f"torch-{record}.dist-info").mkdir()

    def look(self, **variables: str) -> dict[str, Any]:
        answer = engine_packages.look_at_packages(str(self.python), variables)
        return {name: value for name, value in answer.items() if value}


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "env")


NEW_TORCH = """from typing import Optional
__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '2.14.1+{local}'
debug = False
cuda: Optional[str] = {cuda}
git_version = 'cf30153c'
hip: Optional[str] = {hip}
xpu: Optional[str] = None
"""
OLD_TORCH = "__version__ = '2.4.0+cu121'\ndebug = False\ncuda = '12.1'\ngit_version = 'e4ee'\nhip = None\n"


@pytest.mark.parametrize(
    ("text", "record", "expected"),
    [
        (
            NEW_TORCH.format(local="cu130", cuda="'13.0'", hip="None"),
            "2.14.1",
            {"torch_version": "2.14.1+cu130", "torch_cuda": "13.0"},
        ),
        (OLD_TORCH, None, {"torch_version": "2.4.0+cu121", "torch_cuda": "12.1"}),
        (
            NEW_TORCH.format(local="cpu", cuda="None", hip="None"),
            None,
            {"torch_version": "2.14.1+cpu", "is_torch_cpu": True},
        ),
        (
            NEW_TORCH.format(local="rocm7.0", cuda="None", hip="'7.0.5'"),
            None,
            {"torch_version": "2.14.1+rocm7.0", "torch_hip": "7.0.5"},
        ),
        (None, "2.9.1+cu129", {"torch_version": "2.9.1+cu129", "torch_cuda": "12.9"}),
        (None, "2.9.1+cpu", {"torch_version": "2.9.1+cpu", "is_torch_cpu": True}),
        (None, "2.9.1", {"torch_version": "2.9.1"}),
        (None, None, {}),
    ],
)
def test_what_an_environments_files_say_of_torch(
    environment: Environment, text: str | None, record: str | None, expected: dict[str, Any]
) -> None:
    environment.torch(text, record)
    assert environment.look() == expected


@pytest.mark.parametrize("name", ["nvidia_cuda_runtime_cu12-12.9.79", "nvidia_cuda_runtime-12.9.79"])
def test_the_cuda_runtime_is_told(environment: Environment, name: str) -> None:
    (environment.packages / f"{name}.dist-info").mkdir()
    assert environment.look() == {"cuda_runtime": "12.9.79"}


def test_packages_are_looked_for_where_python_would(environment: Environment, tmp_path: Path) -> None:
    system = Environment(tmp_path / "system")
    system.torch(OLD_TORCH)
    environment.python.unlink()
    environment.python.symlink_to(system.python)
    assert environment.look() == {}
    (environment.root / "pyvenv.cfg").write_text("include-system-site-packages = true\n")
    assert environment.look()["torch_cuda"] == "12.1"
    first = Environment(tmp_path / "first")
    first.torch(None, "2.9.1+cu129")
    assert environment.look(PYTHONPATH=f"relative:{first.packages}")["torch_cuda"] == "12.9"


def test_the_forward_compatibility_package_is_seen(environment: Environment, tmp_path: Path) -> None:
    compat = tmp_path / "cuda" / "compat"
    compat.mkdir(parents=True)
    path = f"/usr/lib:{compat}"
    assert environment.look(LD_LIBRARY_PATH=path) == {}
    (tmp_path / "libcuda.so.1").write_text("")
    assert environment.look(LD_LIBRARY_PATH=str(tmp_path)) == {}, "the driver's own library makes up for nothing"
    (compat / "libcuda.so.1").write_text("")
    assert environment.look(LD_LIBRARY_PATH=path) == {"compat_path": f"{compat}/libcuda.so.1"}


async def test_a_python_that_is_not_there(node: NodeSession) -> None:
    seen = await look(node, python="/nowhere/bin/python")
    assert seen.packages is None
    assert seen.problems == {Part.PACKAGES: "/nowhere/bin/python: there is no such file"}
