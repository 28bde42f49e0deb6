"""Wakes, inside this process, whoever waits for something to change; what changed is in the database."""

import asyncio
from collections import OrderedDict, defaultdict
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


MOST_KEYS = 10_000
"""So many keys are remembered: those that were changed or asked for last. Each launch has one, and there is no end of
launches."""


class Changes:
    """Numbers the changes of keys (ids of nodes, servers, launches) and wakes those who wait for the next one.

    A waiter reads the number first, then the database, then waits for a higher one: no change is missed between. A key
    that is no longer remembered has the highest number that was forgotten: who waits for it may be woken once for
    nothing, and misses nothing.
    """

    def __init__(self) -> None:
        self._newest = 0
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._forgotten = 0
        self._waiters: dict[str, set[asyncio.Event]] = defaultdict(set)

    def count(self, *keys: str) -> int:
        """Return the number of the last change that one of the keys has had."""
        return max(self._remember(key, self._numbers.get(key, self._forgotten)) for key in keys)

    def publish(self, *keys: str) -> None:
        """Give one change of each key its number and wake its waiters; call it after the commit."""
        for key in keys:
            self._newest += 1
            self._remember(key, self._newest)
            for event in self._waiters.get(key, ()):
                event.set()

    def _remember(self, key: str, number: int) -> int:
        self._numbers[key] = number
        self._numbers.move_to_end(key)
        if len(self._numbers) > MOST_KEYS:
            _, forgotten = self._numbers.popitem(last=False)
            self._forgotten = max(self._forgotten, forgotten)
        return number

    async def wait(self, keys: Iterable[str], *, after: int, timeout_s: float | None) -> bool:
        """Wait until one of the keys has had a change after the one of that number; False if the time was up first."""
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
