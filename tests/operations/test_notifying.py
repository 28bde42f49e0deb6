"""Events whose telling is cut off, and deliveries of them for a webhook that is deleted."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import event

from service.db import migrating, overview
from service.db.engine import Database
from service.db.event_tables import Webhook
from service.db.events import id_range
from service.db.tables import Node
from service.errors import NodeUnreachable
from service.nodes.contact import Contact
from service.operations import notifying
from service.operations.control import Control
from service.remote.connections import Connections
from service.settings import Settings

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


async def test_no_delivery_is_made_for_a_webhook_that_was_deleted_meanwhile(tmp_path: Path) -> None:
    """What waited for it was ended with it: nobody would send this one, and it would count as pending for ever."""
    migrating.upgrade(url := f"sqlite+aiosqlite:///{tmp_path / 'hooks.db'}")
    control = Control(Settings(state_dir=tmp_path), Database(url), Connections())
    node = Node(
        id="nd_1", name="n", address="h", port=22, user="u", credential={"kind": "agent"}, engines=[],
        first_port=1, last_port=9, contact=Contact.OK, contact_since_at=NOW, created_at=NOW,
    )  # fmt: skip
    async with control.database.write() as session:
        session.add(node)
        session.add(Webhook(id="wh_1", url="http://h/", event_id=0, actor="somebody", created_at=NOW))
    await control.contacts.note(node, Contact.LOST, at=NOW, error=NodeUnreachable("the cable is out"))
    await control.feed.start()
    async with control.database.read() as session:
        served = await session.get_one(Webhook, "wh_1")
    async with control.database.write() as session:
        (await session.get_one(Webhook, "wh_1")).deleted_at = NOW
    while await notifying.take_in(control, served):
        pass
    async with control.database.read() as session:
        assert await overview.pending_deliveries(session) == 0
    await control.feed.close()
    await control.database.close()


async def test_an_event_whose_teller_was_cut_off_at_the_commit_is_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the database, and nobody was woken for it."""
    monkeypatch.setattr("service.operations.event_feed.LOOK_S", 0.05)
    migrating.upgrade(url := f"sqlite+aiosqlite:///{tmp_path / 'cut.db'}")
    control = Control(Settings(state_dir=tmp_path), database := Database(url), Connections())
    node = Node(
        id="nd_1", name="n", address="h", port=22, user="u", credential={"kind": "agent"}, engines=[],
        first_port=1, last_port=9, contact=Contact.OK, contact_since_at=NOW, created_at=NOW,
    )  # fmt: skip
    async with database.write() as session:
        session.add(node)
    await control.feed.start()
    await asyncio.sleep(0.2)
    telling = asyncio.create_task(control.contacts.note(node, Contact.LOST, at=NOW, error=NodeUnreachable("gone")))
    engine = database._write_engine.sync_engine
    event.listen(engine, "commit", lambda _: asyncio.get_running_loop().call_soon(telling.cancel), once=True)
    await asyncio.gather(telling, return_exceptions=True)
    assert telling.cancelled()
    async with database.read() as session:
        assert await id_range(session) == (1, 1)
    assert await control.feed.wait(0, timeout_s=2)
    await control.feed.close()
    await database.close()
