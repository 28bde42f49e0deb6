"""Lets requests that are repetitions of each other go one after the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """One turn at a time for each key; a key that nobody waits for takes no room."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, ...], tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def of(self, key: tuple[str, ...]) -> AsyncIterator[None]:
        """Wait for those who came before with this key, for as long as they take."""
        lock, count = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, count + 1
        try:
            async with lock:
                yield
        finally:
            lock, count = self._locks.pop(key)
            if count > 1:
                self._locks[key] = lock, count - 1

    def count(self) -> int:
        """Return how many keys somebody has or waits for."""
        return len(self._locks)
