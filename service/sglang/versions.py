"""Versions of the engine, as it and its packages write them."""

import re
from typing import NamedTuple

_NUMBERS = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})")


class Version(NamedTuple):
    """A release; post releases and candidates count as their release."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse_version(text: str | None) -> Version | None:
    """Return the version that a text begins with, None when it names none."""
    match = _NUMBERS.match(text or "")
    return Version(int(match[1]), int(match[2]), int(match[3])) if match else None
