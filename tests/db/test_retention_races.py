"""History that goes: what somebody wants again between the look and the deletion stays."""

from datetime import UTC, datetime, timedelta

from service.db import retention
from service.db.engine import Database
from service.db.event_tables import Webhook, WebhookDelivery
from service.db.retention import Bound
from service.operations import notifying
from service.servers.event import DeliveryState

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


async def test_a_delivery_that_is_asked_for_again_meanwhile_is_not_removed(database: Database) -> None:
    async with database.write() as session:
        session.add(Webhook(id="wh_1", url="http://h/", event_id=0, actor="somebody", created_at=NOW))
        await session.flush()
        session.add_all(
            WebhookDelivery(
                id=f"wd_{number}", webhook_id="wh_1", kind="test", body="{}", state=DeliveryState.FAILED, next_at=NOW,
                give_up_at=NOW, created_at=NOW,
            )
            for number in range(3)
        )  # fmt: skip
    async with database.read() as session:
        keys = await retention.old_rows(session, retention.DELIVERIES, Bound(NOW + timedelta(days=9)), after=None)
    assert list(keys) == ["wd_0", "wd_1"]
    async with database.write() as session:
        notifying.again(await session.get_one(WebhookDelivery, "wd_1"), at=NOW)
    async with database.write() as session:
        await retention.remove_rows(session, retention.DELIVERIES, keys)
    async with database.read() as session:
        assert await session.get(WebhookDelivery, "wd_0") is None
        assert await session.get(WebhookDelivery, "wd_1") is not None
