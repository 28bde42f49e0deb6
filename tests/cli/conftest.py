"""A service on the embedded fleet, once for each module, and the commands as an operator runs them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.simulator.fleet import EmbeddedFleet
from tests.contract.conftest import FleetSite, fleet
from tests.contract.vigil import Vigil

__all__ = ["fleet"]
PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Operator:
    """Somebody at a shell, with a service to talk to and a node to use."""

    vigil: Vigil
    site: FleetSite
    folder: Path

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "VIGIL_URL": self.vigil.url}

    def run(self, *arguments: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end, with its output in pipes."""
        argv = [sys.executable, "-m", "service", *arguments]
        return subprocess.run(
            argv, capture_output=True, text=True, env=self.environment(), input=stdin, timeout=PATIENCE_S, check=False
        )

    def begin(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Begin a command that goes on; its pipes are unbuffered, so that a line may be read before the rest."""
        argv = [sys.executable, "-m", "service", *arguments]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env=self.environment())

    def write(self, name: str, text: str) -> str:
        """Write a file and return its path."""
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def profile(self, name: str, server_args: Mapping[str, Any] | None = None, *, script: str = "fast") -> None:
        """Make a profile of the node's engine."""
        recipe = {**self.site.recipe(**(server_args or {})), "env": {"VIGIL_SIM_SCRIPT": script}}
        self.vigil.post("/profiles", {"name": name, "recipe": recipe}, expect=201)


@pytest.fixture(scope="module")
def operator(fleet: EmbeddedFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """Give an operator whose service knows one node with two GPUs."""
    folder = tmp_path_factory.mktemp("operator")
    site = FleetSite(fleet.nodes[0])
    with ExitStack() as ends:
        vigil = Vigil(folder / "vigil")
        ends.push(vigil.__exit__)
        vigil.start()
        vigil.post("/nodes", site.node(), expect=201)
        vigil.until_contact(site.name)
        yield Operator(vigil, site, folder)
        for server in vigil.get("/servers")["items"]:
            vigil.http.post(f"/api/v1/servers/{server['name']}/stop")
            vigil.until_at_rest(server["name"])
