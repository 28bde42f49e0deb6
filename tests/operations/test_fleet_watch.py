"""The timed jobs of a fleet: no more at once than the rest can bear, and one that fails is only itself."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.db import migrating
from service.db.engine import Database
from service.db.tables import Node
from service.errors import NodeUnreachable
from service.nodes.contact import Contact
from service.operations import inventories
from service.operations.control import Control
from service.operations.runner import OperationRunner
from service.remote.connections import Connections
from service.settings import Settings
from service.watchers.fleet_watch import LOOKS_AT_ONCE, FleetWatch

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
NODE_COUNT = 3 * LOOKS_AT_ONCE


async def test_a_few_nodes_are_looked_at_at_once_and_all_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrating.upgrade(url := f"sqlite+aiosqlite:///{tmp_path / 'fleet.db'}")
    control = Control(Settings(state_dir=tmp_path), Database(url), Connections())
    async with control.database.write() as session:
        session.add_all(
            Node(
                id=f"nd_{number}", name=f"n{number}", address="h", port=22, user="u", credential={"kind": "agent"},
                engines=[], first_port=1, last_port=2, created_at=NOW, contact_since_at=NOW,
                contact=Contact.OK if number else Contact.LOST,
            )
            for number in range(NODE_COUNT)
        )  # fmt: skip
    looking: set[str] = set()
    looked: list[str] = []
    counts: list[int] = []

    async def refresh(_control: Control, node: Node) -> None:
        looking.add(node.id)
        counts.append(len(looking))
        await asyncio.sleep(0)
        looking.remove(node.id)
        looked.append(node.id)
        if node.id == "nd_5":
            raise NodeUnreachable("gone meanwhile")

    monkeypatch.setattr(inventories, "refresh", refresh)
    await FleetWatch(control, OperationRunner(control))._look_again()
    assert sorted(looked) == sorted(f"nd_{number}" for number in range(1, NODE_COUNT))
    assert max(counts) == LOOKS_AT_ONCE
    await control.database.close()
