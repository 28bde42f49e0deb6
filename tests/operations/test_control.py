"""The way to a node for whoever asks for one: an answer in time, also while its connection is still awaited."""

import asyncio
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.db.engine import Database
from service.db.tables import Node
from service.errors import RemoteTimeout
from service.nodes.contact import Contact
from service.operations.control import Control
from service.remote.connections import Connections
from service.settings import Settings
from tests.sshd import make_key

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


async def test_who_asks_for_a_node_is_told_in_time_that_it_takes_too_long(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    make_key(tmp_path / "host_key")
    host_key = " ".join((tmp_path / "host_key.pub").read_text("utf-8").split()[:2])
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'none.db'}")
    connections = Connections(open_deadline_s=20)
    control = Control(Settings(state_dir=tmp_path, connect_deadline_s=0.2), database, connections)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        node = Node(
            id="nd_1", name="n", address="127.0.0.1", port=silent.getsockname()[1], user="u", host_key=host_key,
            credential={"kind": "key_file", "path": str(tmp_path / "key")}, engines=[], first_port=1, last_port=2,
            contact=Contact.UNKNOWN, contact_since_at=NOW, created_at=NOW,
        )  # fmt: skip
        async with asyncio.timeout(5):
            with pytest.raises(RemoteTimeout, match=r"takes longer than 0.2 s"):
                await control.node_session(node)
        await connections.close()
    await database.close()
