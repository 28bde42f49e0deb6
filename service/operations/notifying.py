"""Telling webhooks: events become deliveries in the database, and deliveries are sent until somebody has taken them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import perf_counter
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from service.clock import to_text
from service.db import webhooks as webhook_queries
from service.db.event_tables import Webhook, WebhookDelivery
from service.errors import InvalidInput, VigilError
from service.ids import new_id
from service.operations import webhook_secrets
from service.operations.control import Control
from service.operations.event_feed import Wanted, document_text, gap_text
from service.remote.http import RequestClient, post
from service.servers.event import DeliveryState, EventKind

DEADLINE_S = 10
"""How long one attempt may take, from the lookup of the name to the answer."""
TRIED_FOR_S = 86_400
FIRST_PAUSE_S = 5
LONGEST_PAUSE_S = 3_600
MOST_WEBHOOKS = 100
MOST_PENDING = 10_000
"""So many deliveries wait for one receiver; later events wait in their own table until there is room."""
POSITION_EVERY = 1_000
"""After so many events that nobody wanted it is kept how far was looked."""
TEST = "test"
GAP = "gap"
_GONE = 410


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one attempt: a status, or why there is none."""

    status: int | None
    error: str | None
    duration_ms: int

    @property
    def is_taken(self) -> bool:
        """Tell whether the receiver took it."""
        return self.status is not None and 200 <= self.status < 300  # noqa: PLR2004  the statuses of success


async def require_room(session: AsyncSession) -> None:
    """Raise InvalidInput when there are as many webhooks as are served."""
    if len(await webhook_queries.all_webhooks(session)) >= MOST_WEBHOOKS:
        raise InvalidInput(f"there are {MOST_WEBHOOKS} webhooks; delete one that nobody needs")


async def take_in(control: Control, webhook: Webhook) -> bool:
    """Make deliveries of the events after the last that was looked at; True when there may be more.

    `webhook.event_id` is moved on, and kept with what it made.
    """
    stretch = await control.feed.after(webhook.event_id)
    has_gap = stretch.begins_after != webhook.event_id
    wanted = [told for told in stretch.told if _wish(webhook).covers(told)]
    if wanted and await _is_full(control, webhook):
        return False
    at = control.now()
    rows = [_row(webhook, told.kind, told.text, event_id=told.id, at=at) for told in wanted]
    if has_gap:
        rows.insert(0, _row(webhook, GAP, gap_text(webhook.event_id, stretch.begins_after, to_text(at)), at=at))
    before, webhook.event_id = webhook.event_id, stretch.told[-1].id if stretch.told else stretch.begins_after
    if rows or webhook.event_id // POSITION_EVERY != before // POSITION_EVERY:
        try:
            await _keep(control, webhook, rows)
        except BaseException:
            webhook.event_id = before
            raise
    return bool(stretch.told) or has_gap


async def attempt(control: Control, client: RequestClient, webhook: Webhook, delivery: WebhookDelivery) -> Outcome:
    """Send a delivery once, signed with the secret as it is now."""
    began = perf_counter()
    try:
        secret = secret_of(control, webhook)
    except VigilError as error:
        return Outcome(None, error.detail, 0)
    body = delivery.body.encode()
    headers = {
        "content-type": "application/json",
        "user-agent": "vigil",
        **webhook_secrets.headers(secret, delivery.id, control.now(), body),
    }
    answer = await post(client, webhook.url, content=body, headers=headers, deadline_s=DEADLINE_S)
    duration_ms = round((perf_counter() - began) * 1000)
    if answer.status is None:
        return Outcome(None, answer.detail, duration_ms)
    outcome = Outcome(answer.status, None, duration_ms)
    return (
        outcome if outcome.is_taken else Outcome(answer.status, f"the receiver answered {answer.status}", duration_ms)
    )


async def note_outcome(control: Control, delivery: WebhookDelivery, outcome: Outcome) -> None:
    """Keep what came of an attempt: it is over, or tried again later, until a day has gone by.

    Nothing is kept of a delivery that was ended meanwhile.
    """
    at = control.now()
    attempts = delivery.attempts + 1
    values: dict[str, Any] = {
        "attempts": attempts,
        "status": outcome.status,
        "duration_ms": outcome.duration_ms,
        "error": outcome.error,
    }
    is_last = delivery.kind == TEST or outcome.status == _GONE or at >= delivery.give_up_at
    if outcome.is_taken:
        values |= {"state": DeliveryState.DELIVERED, "ended_at": at}
    elif is_last:
        values |= {"state": DeliveryState.FAILED, "ended_at": at}
    else:
        values |= {"next_at": min(at + timedelta(seconds=pause_s(attempts)), delivery.give_up_at)}
    async with control.database.write() as session:
        await session.execute(
            update(WebhookDelivery)
            .where(
                col(WebhookDelivery.id) == delivery.id,
                col(WebhookDelivery.state) == DeliveryState.PENDING,
                col(WebhookDelivery.give_up_at) == delivery.give_up_at,
            )
            .values(**values),
            execution_options={"synchronize_session": False},
        )


def pause_s(attempts: int) -> float:
    """Return how long to wait after so many attempts: doubled each time up to an hour, and somewhat by chance."""
    full: float = min(FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 20), LONGEST_PAUSE_S)
    return full * random.uniform(0.8, 1.2)  # noqa: S311


def new_test(webhook: Webhook, *, at: datetime) -> WebhookDelivery:
    """Return the delivery that shows whether a webhook works; it is sent once."""
    text = document_text({"kind": TEST, "at": to_text(at), "webhook_id": webhook.id})
    return WebhookDelivery(**_row(webhook, TEST, text, at=at))


def again(delivery: WebhookDelivery, *, at: datetime) -> None:
    """Let a delivery be sent again, now and, if need be, for another day; what is sent and its id stay."""
    delivery.state = DeliveryState.PENDING
    delivery.next_at = at
    delivery.give_up_at = at + timedelta(seconds=TRIED_FOR_S)
    delivery.ended_at = None
    delivery.error = None


def secret_of(control: Control, webhook: Webhook) -> str:
    """Return the secret of a webhook; SecretUnavailable or InvalidInput says why there is none."""
    if webhook.secret is not None:
        return webhook_secrets.read(webhook.secret)
    secret = webhook_secrets.derive(control.settings.resolved_state_dir(), webhook.id)
    if webhook_secrets.hash_of(secret) != webhook.secret_hash:
        raise InvalidInput(
            f"{webhook_secrets.KEY_FILE} is not the one that this webhook's secret was made with: restore it, or make "
            "the webhook anew"
        )
    return secret


def _wish(webhook: Webhook) -> Wanted:
    kinds = frozenset(EventKind(kind) for kind in webhook.kinds) if webhook.kinds is not None else None
    return Wanted(kinds=kinds, node_id=webhook.node_id, server_id=webhook.server_id)


def _row(webhook: Webhook, kind: str, body: str, *, event_id: int | None = None, at: datetime) -> dict[str, Any]:
    return {
        "id": new_id("wd", at),
        "webhook_id": webhook.id,
        "event_id": event_id,
        "kind": kind,
        "body": body,
        "state": DeliveryState.PENDING,
        "attempts": 0,
        "next_at": at,
        "give_up_at": at + timedelta(seconds=TRIED_FOR_S),
        "created_at": at,
    }


async def _is_full(control: Control, webhook: Webhook) -> bool:
    async with control.database.read() as session:
        counts = await webhook_queries.pending_counts(session, [webhook.id])
    return counts[webhook.id] >= MOST_PENDING


async def _keep(control: Control, webhook: Webhook, rows: Sequence[dict[str, Any]]) -> None:
    """Keep deliveries and how far was looked; nothing of a webhook that was deleted meanwhile: nobody would send it."""
    async with control.database.write() as session:
        changed = await session.execute(
            update(Webhook)
            .where(col(Webhook.id) == webhook.id, col(Webhook.deleted_at).is_(None))
            .values(event_id=webhook.event_id)
            .returning(col(Webhook.id)),
            execution_options={"synchronize_session": False},
        )
        if rows and changed.scalar_one_or_none() is not None:
            await session.execute(insert(WebhookDelivery), list(rows))
