"""How a launch's secrets are hidden in what leaves the node: by as many stars as they have bytes, so offsets hold."""

from __future__ import annotations

import json
import os
from typing import Iterable, List, Optional, Set
from urllib.parse import quote

from .places import read_file

SHORTEST_BYTES = 4
"""A shorter value would be found everywhere; such an order is refused."""


class Masker:
    """Hides every occurrence of some values, also as Python, JSON and URLs write them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        needles: Set[bytes] = set()
        for secret in secrets:
            for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret, safe="")):
                needles.update(line for line in form.encode("utf-8", "surrogateescape").split(b"\n"))
        self._needles: List[bytes] = sorted(needle for needle in needles if len(needle) >= SHORTEST_BYTES)
        self.longest = max((len(needle) for needle in self._needles), default=0)

    def mask(self, data: bytes) -> bytes:
        """Return the data with every byte of every occurrence, also of overlapping ones, replaced by a star."""
        masked = None
        for needle in self._needles:
            at = data.find(needle)
            while at >= 0:
                masked = masked or bytearray(data)
                masked[at : at + len(needle)] = b"*" * len(needle)
                at = data.find(needle, at + 1)
        return bytes(masked) if masked is not None else data

    def mask_text(self, text: str) -> str:
        """Return the text masked."""
        return self.mask(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def held_back(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of a secret, whose rest has not been written yet."""
        held = 0
        for needle in self._needles:
            for length in range(min(len(needle) - 1, len(data)), held, -1):
                if data.endswith(needle[:length]):
                    held = length
                    break
        return held


def find_masker(directory: str) -> Optional[Masker]:
    """Return the masker of a launch, None when its secrets are not known."""
    secrets = find_secrets(directory)
    try:
        return None if secrets is None else Masker(secrets)
    except ValueError:
        return None


def find_secrets(directory: str) -> Optional[List[str]]:
    """Return the secrets of a launch, None when they are not known: it is not staged, or the file is garbled."""
    text = read_file(os.path.join(directory, "secrets"))
    if text is None:
        return None
    try:
        return [str(json.loads(line)) for line in text.splitlines() if line]
    except ValueError:
        return None
