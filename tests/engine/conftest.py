"""The real SGLang behind a real OpenSSH server: the site of the contract tests."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.sglang.command import version_tuple
from tests.engine.engines import CPU_ARGUMENTS, CPU_ENVIRONMENT, Engine, installed
from tests.sshd import Sshd

VERSIONS = os.environ.get("VIGIL_TEST_ENGINES", "0.5.23").split()
PORTS = {"first_port": 31100, "last_port": 31119}
GRACEFUL_SINCE = (0, 5, 23)
"""Older versions end a graceful stop by killing themselves."""


class EngineSite:
    """One version of the engine on this machine, reached as a node over SSH."""

    name = "real"
    start_s = 240.0
    health_timeout_s = 20.0
    hang_after_s = 25

    def __init__(self, engine: Engine, sshd: Sshd) -> None:
        self.engine = engine
        self.sshd = sshd
        self.clean_exit_code = 0 if version_tuple(engine.version) >= GRACEFUL_SINCE else 137

    def node(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "address": "127.0.0.1",
            "port": self.sshd.port,
            "user": self.sshd.user,
            "credential": {"kind": "key_file", "path": str(self.sshd.key_path)},
            "trust_on_first_use": True,
            "engines": [str(self.engine.python)],
            **PORTS,
        }

    def slow(self, recipe: dict[str, Any]) -> dict[str, Any]:
        return recipe

    def recipe(self, **server_args: object) -> dict[str, Any]:
        return {
            "python": str(self.engine.python),
            "model_path": str(self.engine.model),
            "gpu_count": 0,
            "env": dict(CPU_ENVIRONMENT),
            "server_args": {**CPU_ARGUMENTS, **server_args},
        }


@pytest.fixture(params=VERSIONS)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineSite]:
    engine = installed(request.param)
    with Sshd(tmp_path / "sshd") as sshd:
        yield EngineSite(engine, sshd)
