"""Serves each webhook by a task of its own: one receiver that is slow or away keeps no other waiting."""

import asyncio
import random
from datetime import datetime, timedelta

from service.db import webhooks as webhook_queries
from service.db.event_tables import Webhook
from service.logs import EventLog
from service.operations import notifying
from service.operations.changes import EVENTS_FED, WEBHOOKS_CHANGED
from service.operations.control import Control
from service.operations.webhook_targets import refuse_by
from service.remote.http import RequestClient, outgoing_client

SENT_AT_ONCE = 50
"""So many deliveries are read from the database together; they are sent one after the other."""
REST_S = 60.0
"""The longest rest of a webhook whose receiver is away: meanwhile nothing is sent, whatever is due."""
RETRY_S = 5.0
_events = EventLog("webhooks")


class WebhookCourier:
    """Begins and ends the service of webhooks as they come and go."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._main: asyncio.Task[None] | None = None
        self._client: RequestClient | None = None

    def start(self) -> None:
        """Begin to serve every webhook; what waited before a restart is sent now."""
        self._main = asyncio.create_task(self._follow(), name="webhooks")

    async def close(self) -> None:
        """End it; what was not taken is sent after the next start."""
        tasks = [*self._tasks.values(), *([self._main] if self._main else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    async def _follow(self) -> None:
        while True:
            seen = self._control.changes.count(WEBHOOKS_CHANGED)
            timeout_s = None
            try:
                await self._match()
            except Exception:  # noqa: BLE001  webhooks are served again once it passes
                _events.failure("webhooks_not_read")
                timeout_s = RETRY_S
            await self._control.changes.wait([WEBHOOKS_CHANGED], after=seen, timeout_s=timeout_s)

    async def _match(self) -> None:
        """Serve exactly the webhooks that there are."""
        async with self._control.database.read() as session:
            found = {row.id: row for row in await webhook_queries.all_webhooks(session)}
        for webhook_id in set(self._tasks) - set(found):
            task = self._tasks.pop(webhook_id)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for webhook in found.values():
            if webhook.id not in self._tasks:
                line = _Line(self._control, self._opened_client(), webhook)
                self._tasks[webhook.id] = asyncio.create_task(line.serve(), name=f"webhook {webhook.id}")

    def _opened_client(self) -> RequestClient:
        """Return the client of all; it is made for the first webhook, since it reads the system's certificates."""
        if self._client is None:
            self._client = outgoing_client(refuse_by(self._control.settings.webhook_networks))
        return self._client


class _Line:
    """What is on its way to one receiver."""

    def __init__(self, control: Control, client: RequestClient, webhook: Webhook) -> None:
        self._control = control
        self._client = client
        self._webhook = webhook
        self._failures = 0
        self._rest_until: datetime | None = None

    async def serve(self) -> None:
        """Send what there is until cancelled; a fault is logged, and it goes on."""
        keys = (EVENTS_FED, self._webhook.id)
        asked = 0
        while True:
            seen = self._control.changes.count(*keys)
            if self._control.changes.count(self._webhook.id) != asked:
                asked = self._control.changes.count(self._webhook.id)
                self._rest_until = None  # somebody asked for a delivery: the receiver may be back
            try:
                wait_s = await self._turn()
            except Exception:  # noqa: BLE001  what failed is logged; the deliveries are in the database
                _events.failure("webhook_turn_failed", webhook_id=self._webhook.id)
                wait_s = RETRY_S
            await self._control.changes.wait(keys, after=seen, timeout_s=wait_s)

    async def _turn(self) -> float | None:
        """Take in what is new, send what is due; return when to look again, None when nothing waits."""
        while await notifying.take_in(self._control, self._webhook):
            pass
        now = self._control.now()
        if self._rest_until is not None and now < self._rest_until:
            return (self._rest_until - now).total_seconds()
        async with self._control.database.read() as session:
            due = await webhook_queries.due_deliveries(session, self._webhook.id, now, limit=SENT_AT_ONCE)
        for delivery in due:
            outcome = await notifying.attempt(self._control, self._client, self._webhook, delivery)
            await notifying.note_outcome(self._control, delivery, outcome)
            self._control.changes.publish(delivery.id)
            if not self._goes_on(outcome):
                break
        async with self._control.database.read() as session:
            next_at = await webhook_queries.next_due_at(session, self._webhook.id)
        if next_at is None:
            return None
        return max(0.0, (max(next_at, self._rest_until or next_at) - self._control.now()).total_seconds())

    def _goes_on(self, outcome: notifying.Outcome) -> bool:
        """Tell whether to send more now; after failures in a row the receiver is left alone for a while."""
        if outcome.is_taken:
            self._failures, self._rest_until = 0, None
            return True
        self._failures += 1
        rest_s = min(2.0 ** min(self._failures, 10), REST_S) * random.uniform(0.8, 1.2)  # noqa: S311
        self._rest_until = self._control.now() + timedelta(seconds=rest_s)
        _events.warning(
            "webhook_not_taken",
            webhook_id=self._webhook.id,
            status=outcome.status,
            error=outcome.error,
            failures=self._failures,
        )
        return False
