"""Webhooks: addresses that are told what happens, signed, until they have taken it."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, status
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import ActorNeeded, Id, IdempotencyKey, PageNeeded, Parts, PartsNeeded
from service.api.idempotency import Answer, carry_out, find_replay
from service.api.problems import problems
from service.api.schemas.common import Page
from service.api.schemas.webhooks import (
    DeliveryPublic,
    WebhookCreate,
    WebhookCreated,
    WebhookPublic,
    delivery_public,
    webhook_public,
)
from service.db import events as event_queries
from service.db import nodes as node_queries
from service.db import servers as server_queries
from service.db import webhooks as webhook_queries
from service.db.event_tables import Webhook
from service.errors import IdempotencyKeyReused, InvalidInput, NotFound, SecretUnavailable, TargetRefused
from service.ids import new_id
from service.operations import notifying, webhook_secrets
from service.operations.changes import WEBHOOKS_CHANGED
from service.operations.webhook_targets import require_callable
from service.servers.event import DeliveryState

router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=GuardedRoute)
IN_CLEAR = "http sends what happens in the clear: whoever stands in between reads it, and can hold it back"


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    response_model=WebhookCreated,
    responses=problems(NotFound, InvalidInput, TargetRefused, SecretUnavailable, IdempotencyKeyReused),
)
@needs(Role.ADMIN)
async def create_webhook(
    body: WebhookCreate, parts: PartsNeeded, actor: ActorNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Tell an address of every event from now on.

    Each event is sent as the body of a POST, signed as the Standard Webhooks say, and sent again for a day until the
    answer is 2xx. An address on this machine or link-local is refused, unless the settings allow its network.
    """
    replay = await find_replay(parts, request, key)
    if replay is not None:
        return replay
    await require_callable(body.url, parts.control.settings.webhook_networks)
    if body.secret is not None:
        webhook_secrets.read(body.secret.model_dump(exclude_none=True))

    async def act(session: AsyncSession) -> Answer:
        await notifying.require_room(session)
        webhook, secret = await _new_webhook(parts, session, body, actor)
        session.add(webhook)
        await session.flush()
        public = await _public(session, webhook)
        warnings = [IN_CLEAR] if body.url.startswith("http:") else []
        return Answer(
            status.HTTP_201_CREATED,
            WebhookCreated(webhook=public, secret=secret, warnings=warnings),
            f"/api/v1/webhooks/{webhook.id}",
            changed=[WEBHOOKS_CHANGED],
            kept=WebhookCreated(webhook=public, secret=None, warnings=warnings),
        )

    return await carry_out(parts, request, key, act)


@router.get("", responses=problems(InvalidInput))
@needs(Role.ADMIN)
async def list_webhooks(parts: PartsNeeded, page: PageNeeded) -> Page[WebhookPublic]:
    """List the webhooks, newest first."""
    async with parts.control.database.read() as session:
        rows = await webhook_queries.list_webhooks(session, page)
        items = [await _public(session, row) for row in rows.items]
    return Page(items=items, next_cursor=rows.next_cursor)


@router.get("/{webhook}", responses=problems(NotFound))
@needs(Role.ADMIN)
async def get_webhook(webhook: Id, parts: PartsNeeded) -> WebhookPublic:
    """Show a webhook, and how many deliveries wait."""
    async with parts.control.database.read() as session:
        return await _public(session, await webhook_queries.get_webhook(session, webhook))


@router.delete("/{webhook}", status_code=status.HTTP_204_NO_CONTENT, responses=problems(NotFound, IdempotencyKeyReused))
@needs(Role.ADMIN)
async def delete_webhook(webhook: Id, parts: PartsNeeded, request: Request, key: IdempotencyKey = None) -> JSONResponse:
    """Tell an address no more; what still waits is not sent."""

    async def act(session: AsyncSession) -> Answer:
        row = await webhook_queries.get_webhook(session, webhook)
        row.deleted_at = parts.control.now()
        await webhook_queries.give_up_pending(session, row.id, "the webhook was deleted", at=row.deleted_at)
        return Answer(status.HTTP_204_NO_CONTENT, changed=[WEBHOOKS_CHANGED])

    return await carry_out(parts, request, key, act)


@router.post(
    "/{webhook}/test",
    status_code=status.HTTP_202_ACCEPTED,
    response_model=DeliveryPublic,
    responses=problems(NotFound, IdempotencyKeyReused),
)
@needs(Role.ADMIN)
async def try_webhook(webhook: Id, parts: PartsNeeded, request: Request, key: IdempotencyKey = None) -> JSONResponse:
    """Send a `test` to a webhook, once and at once; the delivery says what came of it."""

    async def act(session: AsyncSession) -> Answer:
        row = await webhook_queries.get_webhook(session, webhook)
        delivery = notifying.new_test(row, at=parts.control.now())
        session.add(delivery)
        return Answer(
            status.HTTP_202_ACCEPTED,
            delivery_public(delivery),
            f"/api/v1/webhooks/{row.id}/deliveries/{delivery.id}",
            changed=[row.id],
        )

    return await carry_out(parts, request, key, act)


@router.get("/{webhook}/deliveries", responses=problems(NotFound, InvalidInput))
@needs(Role.ADMIN)
async def list_deliveries(
    webhook: Id,
    parts: PartsNeeded,
    page: PageNeeded,
    state: Annotated[DeliveryState | None, Query(description="Only those that are so.")] = None,
) -> Page[DeliveryPublic]:
    """List the deliveries of a webhook, newest first: what was sent, what came of it, and what waits."""
    async with parts.control.database.read() as session:
        await webhook_queries.get_webhook(session, webhook)
        rows = await webhook_queries.list_deliveries(session, webhook, page, state=state)
    return Page(items=[delivery_public(row) for row in rows.items], next_cursor=rows.next_cursor)


@router.get("/{webhook}/deliveries/{delivery}", responses=problems(NotFound))
@needs(Role.ADMIN)
async def get_delivery(webhook: Id, delivery: Id, parts: PartsNeeded) -> DeliveryPublic:
    """Show a delivery."""
    async with parts.control.database.read() as session:
        await webhook_queries.get_webhook(session, webhook)
        return delivery_public(await webhook_queries.get_delivery(session, webhook, delivery))


@router.post(
    "/{webhook}/deliveries/{delivery}/redeliver",
    status_code=status.HTTP_202_ACCEPTED,
    response_model=DeliveryPublic,
    responses=problems(NotFound, IdempotencyKeyReused),
)
@needs(Role.ADMIN)
async def redeliver(
    webhook: Id, delivery: Id, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Send a delivery again, taken or not, now and for another day; it keeps its id and its body."""

    async def act(session: AsyncSession) -> Answer:
        await webhook_queries.get_webhook(session, webhook)
        row = await webhook_queries.get_delivery(session, webhook, delivery)
        notifying.again(row, at=parts.control.now())
        return Answer(
            status.HTTP_202_ACCEPTED,
            delivery_public(row),
            f"/api/v1/webhooks/{webhook}/deliveries/{row.id}",
            changed=[webhook],
        )

    return await carry_out(parts, request, key, act)


async def _new_webhook(
    parts: Parts, session: AsyncSession, body: WebhookCreate, actor: str
) -> tuple[Webhook, str | None]:
    """Return the row, and the secret that was made because none was given."""
    at = parts.control.now()
    webhook_id = new_id("wh", at)
    state_dir = parts.control.settings.resolved_state_dir()
    secret = webhook_secrets.derive(state_dir, webhook_id) if body.secret is None else None
    row = Webhook(
        id=webhook_id,
        url=body.url,
        kinds=[kind.value for kind in body.kinds] if body.kinds else None,
        server_id=(await server_queries.get_server(session, body.server)).id if body.server else None,
        node_id=(await node_queries.get_node(session, body.node)).id if body.node else None,
        secret=body.secret.model_dump(exclude_none=True) if body.secret else None,
        secret_hash=webhook_secrets.hash_of(secret) if secret else None,
        event_id=parts.control.feed.newest_id,
        actor=actor,
        created_at=at,
    )
    return row, secret


async def _public(session: AsyncSession, row: Webhook) -> WebhookPublic:
    names = await event_queries.names_of(session, [item for item in (row.server_id, row.node_id) if item])
    counts = await webhook_queries.pending_counts(session, [row.id])
    return webhook_public(row, names, counts[row.id])
