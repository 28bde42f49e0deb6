"""A service that asks for a token, with one node of the embedded fleet in reach, as clients are told of them."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from service.simulator.node import SimulatedNode
from service.simulator.specs import TINY_LLAMA
from tests.contract.vigil import Vigil

TOKEN = "an-operator-chose-this-token-for-the-clients"  # noqa: S105  made up here


@dataclass(frozen=True, slots=True)
class Target:
    """What a client is pointed at."""

    vigil: Vigil
    node: SimulatedNode

    def environment(self) -> Mapping[str, str]:
        """Return the settings that the programs in `programs/` read."""
        return {
            "VIGIL_URL": self.vigil.url,
            "VIGIL_TOKEN": TOKEN,
            "NODE_ADDRESS": self.node.address,
            "NODE_PORT": str(self.node.port),
            "NODE_USER": self.node.user,
            "NODE_KEY": str(self.node.key_path),
            "ENGINE_PYTHON": self.node.engine_python,
            "MODEL_PATH": self.node.model_path(TINY_LLAMA.name),
        }

    def assert_launched_and_stopped(self, done: subprocess.CompletedProcess[str]) -> None:
        """Read what the client says that it did, and look by another way at what it did."""
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {
            "gpus": 2,
            "up": "succeeded",
            "down": "succeeded",
            "states": ["ready", "stopped"],
        }
        assert [after for _, after, _ in self.vigil.transitions("one")] == ["starting", "ready", "stopping", "stopped"]
        operations = self.vigil.get("/operations", server="one")["items"]
        assert {(item["kind"], item["state"], item["actor"]) for item in operations} == {
            ("launch", "succeeded", "token:admin"),
            ("stop", "succeeded", "token:admin"),
        }


@contextmanager
def guarded_service(directory: Path, node: SimulatedNode) -> Iterator[Target]:
    """Run a service whose first admin has `TOKEN`; whatever a client left running is stopped."""
    with Vigil(directory, environment={"VIGIL_ACCESS": "token", "VIGIL_ADMIN_TOKEN": TOKEN}) as vigil:
        vigil.http.headers["Authorization"] = f"Bearer {TOKEN}"
        yield Target(vigil, node)
        for server in vigil.get("/servers")["items"]:
            vigil.http.post(f"/api/v1/servers/{server['name']}/stop")
            vigil.until_at_rest(server["name"])
