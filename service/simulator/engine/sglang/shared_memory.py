"""The segments in /dev/shm of an engine, each with a note in the node's state, by which the fleet removes it."""

from __future__ import annotations

import mmap
import os
from typing import Dict, List

from .versions import Version, state_dir

DIRECTORY = "/dev/shm"  # noqa: S108 - the real engine's place
SEMAPHORE_BYTES = 32
LOADS_BYTES = 16396


class SharedMemory:
    """The segments of one engine: a semaphore, and from 0.5.16 the loads of its schedulers.

    A killed engine leaves both. One that ends by itself removes the semaphore and leaves the loads, as the real one
    was seen to do.
    """

    def __init__(self, version: Version) -> None:
        self._semaphore = f"sem.mp-{os.urandom(4).hex()}"
        self._sizes: Dict[str, int] = {self._semaphore: SEMAPHORE_BYTES}
        if version.has_new_texts:
            self._sizes[f"sglang_loads_{os.urandom(6).hex()}_{os.urandom(4).hex()}.shm"] = LOADS_BYTES
        self._maps: List[mmap.mmap] = []

    def create(self) -> None:
        """Create the segments and map them, so that they are in use for as long as this process or a child lives."""
        for name, size in self._sizes.items():
            os.close(os.open(os.path.join(state_dir(), "shm", name), os.O_CREAT | os.O_WRONLY, 0o600))
            descriptor = os.open(os.path.join(DIRECTORY, name), os.O_CREAT | os.O_RDWR, 0o600)
            os.ftruncate(descriptor, size)
            self._maps.append(mmap.mmap(descriptor, size))
            os.close(descriptor)

    def end(self) -> None:
        """Remove what the engine removes when it ends by itself."""
        for directory in (DIRECTORY, os.path.join(state_dir(), "shm")):
            path = os.path.join(directory, self._semaphore)
            if os.path.exists(path):
                os.unlink(path)
