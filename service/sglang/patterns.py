"""Regular expressions written as lists of alternatives, one a line, so that rules can be read and reviewed."""

import re


def any_of(*alternatives: str) -> re.Pattern[str]:
    """Return a pattern that matches where any of the alternatives does."""
    return re.compile("|".join(alternatives))


def any_of_bytes(*alternatives: bytes) -> re.Pattern[bytes]:
    """Return the same for raw bytes."""
    return re.compile(b"|".join(alternatives))
