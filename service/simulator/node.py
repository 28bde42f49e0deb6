"""One simulated node: what a client needs to reach it, what lies on it, and the faults it can be given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from service.simulator.homes import engine_python, gpu_uuids, remove_shared_memory, state_dir
from service.simulator.processes import NodeProcess, find_processes, kill_processes
from service.simulator.specs import NodeSpec
from service.simulator.ssh_server import SshServer


class SimulatedNode:
    """A node of the embedded fleet."""

    def __init__(self, spec: NodeSpec, *, home: Path, server: SshServer, key_path: Path, port_range: range) -> None:
        self.spec = spec
        self.name = spec.name
        self.address = "127.0.0.1"
        self.user = server.user
        self.key_path = key_path
        self.home = home
        self.port_range = port_range
        self.gpu_uuids = gpu_uuids(spec)
        self._server = server

    @property
    def port(self) -> int:
        """The SSH port; it stays the same over `stop` and `start`."""
        return self._server.door.port

    @property
    def host_key_fingerprint(self) -> str:
        """The host key's fingerprint as `SHA256:…`."""
        return self._server.fingerprint()

    @property
    def host_key_line(self) -> str:
        """The host key as `ssh-ed25519 AAAA…`."""
        return self._server.public_line()

    @property
    def connection_count(self) -> int:
        """How many SSH connections are open."""
        return self._server.door.connection_count

    @property
    def engine_python(self) -> str:
        """The Python of the node's first engine environment."""
        return self.engine_pythons[self.spec.engine_versions[0]]

    @property
    def engine_pythons(self) -> dict[str, str]:
        """The Python of each engine environment, by version."""
        return {version: str(engine_python(self.home, version)) for version in self.spec.engine_versions}

    @property
    def models(self) -> Path:
        """The directory of the node's models."""
        return self.home / "models"

    def model_path(self, name: str) -> str:
        """Return the path of a model, as a profile names it. Raises KeyError for a model the node has not."""
        if all(model.name != name for model in self.spec.models):
            raise KeyError(name)
        return str(self.models / name)

    def describe(self) -> dict[str, object]:
        """Return all that a program elsewhere needs to use the node."""
        return {
            "name": self.name,
            "address": self.address,
            "port": self.port,
            "user": self.user,
            "key_path": str(self.key_path),
            "host_key": self.host_key_line,
            "host_key_fingerprint": self.host_key_fingerprint,
            "home": str(self.home),
            "engine_pythons": self.engine_pythons,
            "models": {model.name: self.model_path(model.name) for model in self.spec.models},
            "ports": [self.port_range.start, self.port_range.stop - 1],
            "gpus": list(self.gpu_uuids),
        }

    async def start(self) -> None:
        """Open the SSH port."""
        await self._server.start()

    def stop(self) -> None:
        """Close the SSH port and every connection; processes live on."""
        self._server.stop()

    def freeze(self) -> None:
        """Accept TCP connections and answer nothing, on old connections and new ones."""
        self._server.door.freeze()

    def thaw(self) -> None:
        """Answer again after `freeze`."""
        self._server.door.thaw()

    def drop_connections(self) -> None:
        """End every connection; new ones are welcome."""
        self._server.door.drop_connections()

    def refuse_login(self, *, is_refused: bool) -> None:
        """Refuse, or accept again, every login made from now on."""
        self._server.is_refusing_logins = is_refused

    async def change_host_key(self) -> None:
        """Offer another host key from now on; open connections go on."""
        await self._server.change_host_key()

    async def reboot(self, *, down_s: float = 0.0) -> None:
        """Kill every process of the node and be unreachable for a while. The boot id is the machine's and stays."""
        self.stop()
        await self.kill_processes()
        await asyncio.sleep(down_s)
        await self.start()

    def processes(self) -> list[NodeProcess]:
        """Return the living processes of the node."""
        return find_processes(self.home)

    async def kill_processes(self) -> int:
        """Kill every process of the node, remove what its engines left in /dev/shm, and return how many there were."""
        killed = await asyncio.to_thread(kill_processes, self.home)
        self.bury()
        return killed

    def bury(self) -> None:
        """Collect the node's killed processes and remove what its engines left in /dev/shm."""
        self._server.bury_commands()
        remove_shared_memory(self.home)

    def set_gpu_fault(self, fault: Mapping[str, object] | None) -> None:
        """Make nvidia-smi fail in a given way, or heal it; the keys are listed in engine/nvidia_smi.py."""
        path = state_dir(self.home) / "nvidia-smi.json"
        if fault is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(json.dumps(fault), encoding="utf-8")

    def set_script(self, script: str) -> None:
        """Let engines follow another script from their next start: a shipped name or the path of a JSON file."""
        (state_dir(self.home) / "default-script").write_text(script, encoding="utf-8")
