"""Installs a real SGLang that serves on a CPU: python -m tests.engine.install.install [VERSION...].

Needs Python 3.11 or newer with venv, 4 GB of disk and a package index; no GPU, no compiler, no root. Where pip finds
no CPU build of torch it takes the CUDA build, which serves as well: 3 GB more to download, 7 GB of disk in all.
A complete install is left as it is; an interrupted or outdated one is made anew. Standard library only.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engine.install import recipe

NEEDED_BYTES = 4 * 2**30
"""Free disk below which no install can succeed: one version with the CPU build of torch takes 3.0 GiB."""


def main() -> int:
    """Install the named versions, or the default one; return the exit code of the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"one of {', '.join(recipe.VERSIONS)}, or all")
    wanted = parser.parse_args().versions or [recipe.VERSIONS[0]]
    versions = list(recipe.VERSIONS) if wanted == ["all"] else wanted
    unknown = [version for version in versions if version not in recipe.VERSIONS]
    if unknown:
        parser.error(f"no recipe for {', '.join(unknown)}; there is one for {', '.join(recipe.VERSIONS)}")
    try:
        for version in versions:
            install(version)
    except InstallError as error:
        _say(f"error: {error}")
        return 1
    return 0


class InstallError(Exception):
    """The machine lacks something, or a step failed; the message says what to do."""


def install(version: str) -> None:
    """Make sure that a version is installed; one process at a time does it and the others wait."""
    folder = recipe.folder_of(version)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.with_name(f"{version}.lock")):
        if recipe.is_complete(version):
            _say(f"SGLang {version} is in {folder} already")
            return
        _build(version, folder)


def _build(version: str, folder: Path) -> None:
    _check_machine(folder.parent)
    began = time.monotonic()
    if folder.exists():
        _say(f"removing an incomplete or outdated install from {folder}")
        shutil.rmtree(folder)
    _say(f"installing the real SGLang {version}, for CPU, into {folder} (3 to 6 GB, some minutes)")
    python = folder / "bin" / "python"
    _step("virtual environment", [sys.executable, "-m", "venv", str(folder)])
    pins = str(recipe.pins_of(version))
    pip = [str(python), "-I", "-m", "pip", "--disable-pip-version-check", "install", "--only-binary", ":all:", "-q"]
    torch = next(line for line in Path(pins).read_text().splitlines() if line.startswith("torch=="))
    _step(f"{torch} and what its build asks for", [*pip, "--constraint", pins, torch])
    _step("the other packages, each at its pinned release", [*pip, "--no-deps", "--requirement", pins])
    for package in recipe.GPU_ONLY:
        shutil.copy(recipe.STAND_IN, _site_packages(python) / f"{package}.py")
    _step("tiny random model", [str(python), "-I", str(recipe.MODEL_SCRIPT), str(folder / "tiny-model")])
    _step("first import of the engine", [str(python), "-m", "sglang.launch_server", "--help"])
    recipe.mark_complete(version)
    _say(f"SGLang {version} is complete after {time.monotonic() - began:.0f} s")


def _check_machine(place: Path) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - nothing has checked it before us
        raise InstallError(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    try:
        import ensurepip  # noqa: F401, PLC0415 - Debian splits it off, and then venv makes no pip
    except ImportError:
        raise InstallError("this Python has no ensurepip; on Debian or Ubuntu: apt-get install python3-venv") from None
    free = shutil.disk_usage(place).free
    if free < NEEDED_BYTES:
        raise InstallError(f"{place} has {free / 2**30:.1f} GiB free; 4 are needed, 7 with a CUDA build of torch")


def _step(what: str, command: list[str]) -> None:
    _say(f"  {what} ...")
    began = time.monotonic()
    ran = subprocess.run(
        command,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        close_fds=False,
    )
    if ran.returncode:
        shown = "\n".join(ran.stdout.splitlines()[-40:])
        raise InstallError(f"{what}: exit code {ran.returncode} from {' '.join(command)}\n{shown}")
    _say(f"  {what}: {time.monotonic() - began:.0f} s")


def _environment() -> dict[str, str]:
    """Return our environment without what would lead the new Python astray."""
    misleading = {"PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV"}
    kept = {name: value for name, value in os.environ.items() if name not in misleading}
    return {**kept, "SGLANG_USE_CPU_ENGINE": "1"}


def _site_packages(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    answer = subprocess.run([str(python), "-I", "-c", code], capture_output=True, text=True, check=True)
    return Path(answer.stdout.strip())


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting: another install holds {lock}")
            fcntl.flock(held, fcntl.LOCK_EX)
        os.set_inheritable(held.fileno(), True)  # a step that outlives us holds the lock until it ends
        yield


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
