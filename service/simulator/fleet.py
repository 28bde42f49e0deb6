"""The embedded fleet: nodes with a real SSH server on loopback, real processes, and nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from service.simulator.homes import USER, build_home, session_environment
from service.simulator.node import SimulatedNode
from service.simulator.ports import PortRanges
from service.simulator.processes import kill_processes
from service.simulator.specs import NodeSpec
from service.simulator.ssh_server import SSHKey, SshServer, new_key, write_private_key

DEFAULT_PORTS_PER_NODE = 20


class EmbeddedFleet:
    """Simulated nodes under one directory: `async with EmbeddedFleet(root, specs) as fleet`."""

    def __init__(self, root: Path, nodes: Sequence[NodeSpec], *, ports_per_node: int = DEFAULT_PORTS_PER_NODE) -> None:
        """Plan a fleet. Raises ValueError when two nodes have the same name."""
        if len({spec.name for spec in nodes}) < len(nodes):
            raise ValueError("two nodes have the same name")
        self.root = root.resolve()
        self.key_path = self.root / "client_key"
        self.nodes: tuple[SimulatedNode, ...] = ()
        self._specs = tuple(nodes)
        self._ports_per_node = ports_per_node
        self._ports = PortRanges()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def node(self, name: str) -> SimulatedNode:
        """Return a node by its name. Raises KeyError when there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def describe(self) -> dict[str, object]:
        """Return the fleet as plain values that become one JSON object."""
        return {"root": str(self.root), "nodes": [node.describe() for node in self.nodes]}

    async def start(self) -> None:
        """Build the homes, open the SSH ports, and end what a killed fleet left running in the same directory."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        await asyncio.to_thread(kill_processes, self.root)
        client_key = new_key()
        write_private_key(client_key, self.key_path)
        try:
            for spec in self._specs:
                await self._add(spec, client_key)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every port, kill every process of the nodes and give their ports back. The files stay."""
        for node in self.nodes:
            node.stop()
        await asyncio.to_thread(kill_processes, self.root)
        for node in self.nodes:
            node.bury()
        self._ports.release()
        await asyncio.sleep(0)

    async def _add(self, spec: NodeSpec, client_key: SSHKey) -> None:
        home = self.root / spec.name
        await asyncio.to_thread(build_home, spec, home)
        server = SshServer(user=USER, client_key=client_key, home=home, environment=session_environment(spec, home))
        await server.start()
        ports = self._ports.take(self._ports_per_node)
        node = SimulatedNode(spec, home=home, server=server, key_path=self.key_path, port_range=ports)
        self.nodes = (*self.nodes, node)
