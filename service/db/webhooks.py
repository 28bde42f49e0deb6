"""Questions about webhooks and their deliveries."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db.columns import one_of
from service.db.event_tables import Webhook, WebhookDelivery
from service.db.paging import PageRequest, Rows, fetch_page
from service.errors import NotFound
from service.servers.event import DeliveryState

_ALIVE = col(Webhook.deleted_at).is_(None)
_PENDING = col(WebhookDelivery.state) == DeliveryState.PENDING


async def get_webhook(session: AsyncSession, webhook_id: str) -> Webhook:
    """Return a webhook by its id; NotFound if there is none."""
    row = await session.get(Webhook, webhook_id)
    if row is None or row.deleted_at is not None:
        raise NotFound(f"there is no webhook {webhook_id!r}")
    return row


async def all_webhooks(session: AsyncSession) -> Sequence[Webhook]:
    """Return every webhook that is not deleted."""
    return (await session.execute(select(Webhook).where(_ALIVE))).scalars().all()


async def list_webhooks(session: AsyncSession, request: PageRequest) -> Rows[Webhook]:
    """Return a page of webhooks, newest first."""
    return await fetch_page(session, select(Webhook).where(_ALIVE), col(Webhook.id), request)


async def pending_counts(session: AsyncSession, webhook_ids: Sequence[str]) -> dict[str, int]:
    """Return how many deliveries wait, by webhook; none is left out."""
    query = (
        select(col(WebhookDelivery.webhook_id), func.count())
        .where(one_of(col(WebhookDelivery.webhook_id), webhook_ids), _PENDING)
        .group_by(col(WebhookDelivery.webhook_id))
    )
    counts = dict.fromkeys(webhook_ids, 0)
    counts.update((row[0], row[1]) for row in await session.execute(query))
    return counts


async def get_delivery(session: AsyncSession, webhook_id: str, delivery_id: str) -> WebhookDelivery:
    """Return a delivery of a webhook; NotFound if there is none."""
    row = await session.get(WebhookDelivery, delivery_id)
    if row is None or row.webhook_id != webhook_id:
        raise NotFound(f"webhook {webhook_id} has no delivery {delivery_id!r}")
    return row


async def list_deliveries(
    session: AsyncSession, webhook_id: str, request: PageRequest, *, state: DeliveryState | None
) -> Rows[WebhookDelivery]:
    """Return a page of the deliveries of a webhook, newest first."""
    query = select(WebhookDelivery).where(col(WebhookDelivery.webhook_id) == webhook_id)
    if state is not None:
        query = query.where(col(WebhookDelivery.state) == state)
    return await fetch_page(session, query, col(WebhookDelivery.id), request)


async def due_deliveries(
    session: AsyncSession, webhook_id: str, now: datetime, *, limit: int
) -> Sequence[WebhookDelivery]:
    """Return the deliveries of a webhook whose time has come, in the order of their events."""
    query = (
        select(WebhookDelivery)
        .where(col(WebhookDelivery.webhook_id) == webhook_id, _PENDING, col(WebhookDelivery.next_at) <= now)
        .order_by(col(WebhookDelivery.event_id), col(WebhookDelivery.id))
        .limit(limit)
    )
    return (await session.execute(query)).scalars().all()


async def next_due_at(session: AsyncSession, webhook_id: str) -> datetime | None:
    """Return when the next delivery of a webhook is due; None when none waits."""
    query = select(func.min(col(WebhookDelivery.next_at))).where(
        col(WebhookDelivery.webhook_id) == webhook_id, _PENDING
    )
    return (await session.execute(query)).scalar_one()


async def give_up_pending(session: AsyncSession, webhook_id: str, why: str, *, at: datetime) -> None:
    """End every delivery of a webhook that waits."""
    await session.execute(
        update(WebhookDelivery)
        .where(col(WebhookDelivery.webhook_id) == webhook_id, _PENDING)
        .values(state=DeliveryState.FAILED, error=why, ended_at=at),
        execution_options={"synchronize_session": False},
    )
