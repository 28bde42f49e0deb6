"""Ranges of loopback ports for engines, so that fleets of several programs on one machine do not collide."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

FIRST_PORT = 20_000
LAST_PORT = 32_000
"""Below the range from which the kernel takes ports for outgoing connections (32768 to 60999 by default)."""
BLOCK_SIZE = 10


class PortRanges:
    """Hands out ranges of ports; each is locked until `release` by a name in the abstract socket namespace.

    Such a name vanishes with the process that bound it, so a killed program leaves no lock behind.
    """

    def __init__(self) -> None:
        self._locks: list[socket.socket] = []

    def take(self, size: int) -> range:
        """Return a range of at least `size` ports that no other program has taken this way.

        Raises RuntimeError when no such range is left.
        """
        blocks = -(-size // BLOCK_SIZE)
        total = (LAST_PORT - FIRST_PORT) // BLOCK_SIZE
        first = random.randrange(total)  # noqa: S311 - spreads programs, guards nothing
        for step in range(total):
            start = (first + step) % total
            if start + blocks <= total and self._lock(range(start, start + blocks)):
                return range(FIRST_PORT + start * BLOCK_SIZE, FIRST_PORT + (start + blocks) * BLOCK_SIZE)
        raise RuntimeError(f"no {size} adjacent ports are free between {FIRST_PORT} and {LAST_PORT}")

    def release(self) -> None:
        """Give all ranges back."""
        for lock in self._locks:
            lock.close()
        self._locks.clear()

    def _lock(self, blocks: Iterable[int]) -> bool:
        taken: list[socket.socket] = []
        for block in blocks:
            lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            taken.append(lock)
            try:
                lock.bind(f"\0vigil-simulator-ports-{block}")
            except OSError:
                for one in taken:
                    one.close()
                return False
        self._locks += taken
        return True
