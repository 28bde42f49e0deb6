"""An SSH client for the tests: the host key is pinned, nothing is read from the user's configuration."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncssh

from service.simulator.node import SimulatedNode

Client = asyncssh.SSHClientConnection


@contextlib.asynccontextmanager
async def connect(node: SimulatedNode, **changes: Any) -> AsyncIterator[Client]:
    """Connect to a node as the fleet's user, unless told otherwise."""
    pinned = asyncssh.import_public_key(node.host_key_line)
    options: dict[str, Any] = {
        "username": node.user,
        "client_keys": [str(node.key_path)],
        "known_hosts": ([pinned], [], []),
        "config": None,
        "agent_path": None,
        **changes,
    }
    async with asyncssh.connect(node.address, node.port, **options) as connection:
        yield connection
