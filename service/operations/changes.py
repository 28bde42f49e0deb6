"""Wakes, inside this process, whoever waits for something to change; what changed is in the database."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable

NODES_CHANGED = "nodes"
"""The key of a node that was added or deleted."""
OPERATIONS_CHANGED = "operations"
SCHEDULES_CHANGED = "schedules"
EVENTS_WRITTEN = "events written"
"""Published by the database after each commit that wrote events."""
WEBHOOKS_CHANGED = "webhooks"
"""The key of a webhook that was made or deleted; a delivery that somebody asks for is published under its id."""
EVENTS_FED = "events fed"
"""Published once they were read for all who follow them."""


class Changes:
    """Counts the changes of each key (an id of a node, server or launch) and wakes those who wait for the next one.

    A waiter reads the count first, then the database, then waits for a higher count: no change is missed between.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = defaultdict(int)
        self._waiters: dict[str, set[asyncio.Event]] = defaultdict(set)

    def count(self, *keys: str) -> int:
        """Return how many changes the keys have had together."""
        return sum(self._counts[key] for key in keys)

    def publish(self, *keys: str) -> None:
        """Count one change of each key and wake its waiters; call it after the commit."""
        for key in keys:
            self._counts[key] += 1
            for event in self._waiters.get(key, ()):
                event.set()

    async def wait(self, keys: Iterable[str], *, after: int, timeout_s: float | None) -> bool:
        """Wait until the keys have had more than `after` changes; False if the time was up first."""
        wanted = tuple(keys)
        event = asyncio.Event()
        for key in wanted:
            self._waiters[key].add(event)
        try:
            async with asyncio.timeout(timeout_s):
                while self.count(*wanted) <= after:
                    event.clear()
                    await event.wait()
        except TimeoutError:
            return False
        else:
            return True
        finally:
            for key in wanted:
                self._waiters[key].discard(event)
                if not self._waiters[key]:
                    del self._waiters[key]
