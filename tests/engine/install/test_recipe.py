"""The recipe's rules, without installing anything: pins, completeness, the stand-in, and what the caller is told."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.engines import CPU_ARGUMENTS, EngineMissingError, installed
from tests.engine.install import recipe


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(recipe.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def lay_out(folder: Path) -> None:
    """Put down what a complete install has and a check looks for, without the packages."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "tiny-model").mkdir()
    (folder / "tiny-model" / "config.json").write_text("{}")


@pytest.mark.parametrize("version", recipe.VERSIONS)
def test_every_package_of_a_version_is_pinned(version: str) -> None:
    lines = [line for line in recipe.pins_of(version).read_text().splitlines() if not line.startswith("#")]
    pins = dict(line.split("==") for line in lines)
    assert len(pins) == len(lines)
    assert pins["sglang"] == version
    assert pins["torch"] == "2.13.0"
    assert not {"torchvision", "sgl-kernel", "sglang-kernel"} & pins.keys()


def test_an_install_is_complete_only_with_the_stamp_of_this_recipe(engines: Path) -> None:
    version = recipe.VERSIONS[0]
    assert not recipe.is_complete(version)
    lay_out(engines / version)
    assert not recipe.is_complete(version), "an interrupted install has no stamp"
    recipe.mark_complete(version)
    assert recipe.is_complete(version)
    stamp = next((engines / version).glob("*.sha256"))
    stamp.write_text("0" * 64)
    assert not recipe.is_complete(version), "an install by another recipe is outdated"


def test_an_install_whose_python_went_away_is_not_complete(engines: Path) -> None:
    version = recipe.VERSIONS[0]
    lay_out(engines / version)
    recipe.mark_complete(version)
    (engines / version / "bin" / "python").unlink()
    (engines / version / "bin" / "python").symlink_to(engines / "removed")
    assert not recipe.is_complete(version)


def test_versions_do_not_share_a_stamp(engines: Path) -> None:
    first, second = recipe.VERSIONS[:2]
    lay_out(engines / first)
    recipe.mark_complete(first)
    shutil.copytree(engines / first, engines / second, symlinks=True)
    assert not recipe.is_complete(second)


@pytest.mark.parametrize(
    ("version", "told"), [("0.5.23", "make test-engine`"), ("0.5.16", "make test-engines`"), ("1.0", "no recipe")]
)
def test_a_missing_engine_is_an_error_that_says_what_to_run(engines: Path, version: str, told: str) -> None:
    assert not list(engines.iterdir())
    with pytest.raises(EngineMissingError, match=told):
        installed(version)


def test_the_command_serves_the_tiny_model_on_loopback(engines: Path) -> None:
    lay_out(engines / "0.5.16")
    recipe.mark_complete("0.5.16")
    engine = installed("0.5.16")
    assert engine.folder == engines / "0.5.16"
    command = engine.command(port=31000)
    assert command[:3] == [str(engines / "0.5.16" / "bin" / "python"), "-m", "sglang.launch_server"]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--model-path") + 1] == str(engine.model)
    assert {f"--{name}" for name in CPU_ARGUMENTS} <= set(command)
    assert "True" not in command


def test_the_stand_in_has_every_name_and_refuses_every_call(tmp_path: Path) -> None:
    for package in recipe.GPU_ONLY:
        shutil.copy(recipe.STAND_IN, tmp_path / f"{package}.py")
    code = """
import sgl_kernel, torchvision
from sgl_kernel.flash_attn import flash_attn_varlen_func
from torchvision.transforms.functional import pil_to_tensor
import torchvision.transforms.v2.deep as deep
assert hasattr(torchvision.ops, "nms") and deep.anything and torchvision.__version__ == "0.0.0"
assert not hasattr(sgl_kernel, "__wrapped__"), "a probe of the interpreter is no name of the package"
try:
    import sgl_kernelx
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("the stand-in answers for another package")
calls = {
    "sgl_kernel.flash_attn.flash_attn_varlen_func": flash_attn_varlen_func,
    "torchvision.ops.nms": torchvision.ops.nms,
}
for name, call in calls.items():
    try:
        call(1, 2, three=3)
    except NotImplementedError as error:
        assert name in str(error), error
    else:
        raise SystemExit(f"{name} did not refuse")
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr or ran.stdout


def test_an_unknown_version_is_refused_before_anything_is_made(engines: Path) -> None:
    command = [sys.executable, "-m", "tests.engine.install.install", "0.5.99"]
    repository = Path(__file__).parents[3]
    ran = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "0.5.99" in ran.stderr
    assert not list(engines.iterdir())
