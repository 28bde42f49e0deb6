"""The segments in /dev/shm that an engine leaves when it is killed, each with a note by which the node removes it."""

from __future__ import annotations

import os
import secrets
from typing import List

from .versions import Version, state_dir

DIRECTORY = "/dev/shm"  # noqa: S108 - the real engine's place


class SharedMemory:
    """The segments of one engine."""

    def __init__(self, version: Version) -> None:
        names = [f"sem.mp-{secrets.token_hex(4)}"]
        if version.has_new_texts:
            names.append(f"sglang_loads_{secrets.token_hex(6)}_{secrets.token_hex(4)}.shm")
        self._names: List[str] = names

    def create(self) -> None:
        """Create the segments."""
        for name in self._names:
            with open(os.path.join(state_dir(), "shm", name), "w", encoding="utf-8"):
                pass
            with open(os.path.join(DIRECTORY, name), "wb") as file:
                file.write(b"\0" * 32)

    def remove(self) -> None:
        """Remove the segments, as a clean end does."""
        for directory in (DIRECTORY, os.path.join(state_dir(), "shm")):
            for name in self._names:
                path = os.path.join(directory, name)
                if os.path.exists(path):
                    os.unlink(path)
