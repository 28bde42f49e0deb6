"""Identifiers and names: what an id looks like, and which names a person may give."""

import re
import secrets
from datetime import datetime

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
"""A name is lower case, starts with a letter or digit, and fits a file name, a URL segment and a unit name."""


def new_id(prefix: str, at: datetime) -> str:
    """Return an id that sorts by creation time: prefix, 9 characters of milliseconds, 8 random ones.

    Ids made in the same millisecond sort at random among themselves; 40 random bits keep them apart.
    """
    milliseconds = int(at.timestamp() * 1000)
    return f"{prefix}_{_encode(milliseconds, 9)}{_encode(secrets.randbits(40), 8)}"


def is_name(text: str) -> bool:
    """Tell whether `text` may be the name of a node, profile or server."""
    return re.fullmatch(NAME_PATTERN, text) is not None


def _encode(number: int, width: int) -> str:
    characters = []
    for _ in range(width):
        number, digit = divmod(number, 32)
        characters.append(_ALPHABET[digit])
    return "".join(reversed(characters))
