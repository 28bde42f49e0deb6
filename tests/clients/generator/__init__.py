"""The generator of Python clients, in an environment of its own: it needs an older typer than Vigil itself."""

import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.clients.node import ROOT

HERE = Path(__file__).parent
ENVIRONMENT = ROOT / ".clients"
INSTALL_DEADLINE_S = 300
RUN_DEADLINE_S = 120


@dataclass(frozen=True, slots=True)
class Generator:
    """Its environment, which has what the generated client needs, too."""

    folder: Path

    @property
    def python(self) -> Path:
        """The interpreter for the clients."""
        return self.folder / "bin" / "python"

    def generate(self, document: Path, package: Path) -> "subprocess.CompletedProcess[str]":
        """Make a package of a document; a warning is a failure: it means that something was left out."""
        program = self.folder / "bin" / "openapi-python-client"
        paths = ("--path", document, "--output-path", package, "--config", HERE / "config.yaml")
        return run(program, "generate", *paths, "--meta", "none", "--fail-on-warning")


def install() -> Generator:
    """Install what `requirements.lock` names, if it is not there yet."""
    lock = (HERE / "requirements.lock").read_text()
    stamp = ENVIRONMENT / "installed"
    made = Generator(ENVIRONMENT)
    if not stamp.exists() or stamp.read_text() != lock:
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        pip = (made.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes")
        done = run(*pip, "-r", HERE / "requirements.lock", deadline_s=INSTALL_DEADLINE_S)
        assert done.returncode == 0, done.stderr
        stamp.write_text(lock)
    return made


def run(
    program: Path | str,
    *arguments: str | Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    deadline_s: float = RUN_DEADLINE_S,
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end."""
    return subprocess.run(
        [program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )


def mypy(program: Path, python: Path) -> "subprocess.CompletedProcess[str]":
    """Check a program as strictly as Vigil itself, with the packages that another interpreter has."""
    options = ("--strict", "--no-incremental", "--config-file", os.devnull, "--python-executable", python)
    return subprocess.run(
        [sys.executable, "-m", "mypy", *options, program.name],
        cwd=program.parent,
        capture_output=True,
        text=True,
        timeout=RUN_DEADLINE_S,
        check=False,
    )
