"""Where Node does not do for what is pinned, that is told as such, and is no failure of an installation."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.node import INSTALL_DEADLINE_S, ROOT, UNFIT

NEEDED = ("sh", "cat", "cksum", "dirname")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Give a folder with what the script needs, apart from Node."""
    for name in NEEDED:
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    return tmp_path


def install(programs: Path, root: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [root / "tools" / "node_modules.sh"],
        env={**os.environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=INSTALL_DEADLINE_S,
        check=False,
    )


def add_program(programs: Path, name: str, script: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)


def test_npm_is_missing(programs: Path) -> None:
    done = install(programs)
    assert (done.returncode, done.stdout) == (UNFIT, "npm is missing\n")


def test_node_is_too_old(programs: Path) -> None:
    add_program(programs, "npm", "exit 1")
    add_program(programs, "node", '[ "$1" != --version ] || echo v18.20.0; [ "$1" = --version ]')
    done = install(programs)
    assert (done.returncode, done.stdout) == (UNFIT, "Node.js v18.20.0 is too old\n")


def test_an_installation_that_fails_is_a_failure(programs: Path, tmp_path: Path) -> None:
    """In a copy, which has nothing installed."""
    add_program(programs, "npm", "echo no registry >&2; exit 1")
    add_program(programs, "node", "exit 0")
    for name in ("tools/node_modules.sh", "web/package.json", "web/package-lock.json"):
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    done = install(programs, tmp_path / "copy")
    assert (done.returncode, done.stderr) == (1, "no registry\n")
    assert not (tmp_path / "copy" / "web" / "node_modules" / "installed").exists()
