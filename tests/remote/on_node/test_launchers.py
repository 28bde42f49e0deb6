"""Which launcher is chosen, what systemd is asked, and what happens when it says no; systemd is played by scripts."""

import os
from pathlib import Path

import pytest

from service.remote.on_node import launchers
from tests.remote.conftest import eventually


class Systemd:
    """Scripts in the place of systemd-run and systemctl, which note how they were called."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = root / "calls"
        self.root = root
        (root / "runs").mkdir()
        (root / "linger").mkdir()
        monkeypatch.setenv("PATH", f"{root}:{os.defpath}")
        monkeypatch.setattr(launchers, "SYSTEMD_RUNS", str(root / "runs"))
        monkeypatch.setattr(launchers, "LINGER", str(root / "linger"))
        self.answer("systemd-run", 0)
        self.answer("systemctl", 0)

    def answer(self, name: str, code: int) -> None:
        """Let a program end with this code; systemd-run does what it is asked when the code is 0."""
        program = self.root / name
        run = 'while [ "${1#-}" != "$1" ]; do shift; done; "$@" &' if name == "systemd-run" and code == 0 else ""
        program.write_text(f'#!/bin/sh\necho "{name} $* $XDG_RUNTIME_DIR" >> {self.calls}\n{run}\nexit {code}\n')
        program.chmod(0o755)

    def linger(self) -> None:
        (self.root / "linger" / launchers.user_name()).touch()


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    return Systemd(tmp_path, monkeypatch)


def as_user(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


@pytest.mark.usefixtures("systemd")
def test_root_gets_a_system_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, 0)
    assert launchers.best_launcher() == "systemd_system"


def test_a_user_gets_a_unit_only_with_lingering_and_an_answering_bus(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(monkeypatch, 54321)
    assert launchers.best_launcher() == "setsid"
    systemd.linger()
    assert launchers.best_launcher() == "systemd_user"
    assert systemd.calls.read_text() == "systemctl --user show --property=Version /run/user/54321\n"
    systemd.answer("systemctl", 1)
    assert launchers.best_launcher() == "setsid"


def test_without_systemd_setsid_does_it(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, 0)
    (systemd.root / "runs").rmdir()
    assert launchers.best_launcher() == "setsid"
    (systemd.root / "runs").mkdir()
    monkeypatch.setenv("PATH", "/nowhere")
    assert launchers.best_launcher() == "setsid"


@pytest.mark.parametrize("launcher", ["systemd_system", "systemd_user"])
async def test_a_unit_is_asked_for_with_its_limits(systemd: Systemd, launcher: str, tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", f"echo done > {tmp_path / 'out'}"]
    assert launchers.start_supervisor(launcher, "ln_1", command) == launcher
    await eventually((tmp_path / "out").exists)
    scope = "--user " if launcher == "systemd_user" else ""
    said = systemd.calls.read_text()
    assert said.startswith(
        f"systemd-run {scope}--unit=vigil-ln_1 --collect --quiet -pType=exec -pKillMode=control-group"
    )
    for option in ("TimeoutStopSec=60", "LimitMEMLOCK=infinity", "LimitNOFILE=1048576", "TasksMax=infinity"):
        assert f" -p{option} " in said


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_when_systemd_refuses_setsid_does_it(systemd: Systemd, tmp_path: Path) -> None:
    systemd.answer("systemd-run", 1)
    script = (
        f"ps -o sid= -p $$ > {tmp_path / 'out.tmp'}; echo $$ >> {tmp_path / 'out.tmp'}; env >> {tmp_path / 'out.tmp'}"
    )
    command = ["/bin/sh", "-c", f"{script}; mv {tmp_path / 'out.tmp'} {tmp_path / 'out'}"]
    assert launchers.start_supervisor("systemd_system", "ln_1", command) == "setsid"
    await eventually((tmp_path / "out").exists)
    session, pid, *environment = (tmp_path / "out").read_text().split("\n")
    assert session.strip() == pid
    assert not [line for line in environment if line.startswith(("HOME=", "VIGIL_", "SSH_"))]
