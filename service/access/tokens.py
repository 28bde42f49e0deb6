"""Bearer tokens: what one looks like, what is kept of it, and how two are compared.

A token is `vgl_` and 256 random bits in 43 characters. Kept is its SHA-256. A slow hash with a salt is for passwords,
which people choose and attackers guess: nobody guesses 256 random bits, so a fast hash gives nothing away, and every
request may afford it.
"""

import base64
import hashlib
import hmac
import re

PREFIX = "vgl_"
RANDOM_BYTES = 32
MIN_GIVEN_LENGTH, MAX_LENGTH = 32, 200
"""A token that an operator gives must be this long: its bits are not known to be random, its length is."""
_GIVEN = re.compile(rf"[\x21-\x7e]{{{MIN_GIVEN_LENGTH},{MAX_LENGTH}}}")
_AUTHORIZATION = re.compile(rf"(?i:bearer) +([\x21-\x7e]{{1,{MAX_LENGTH}}}) *")


def token_of(randomness: bytes) -> str:
    """Return the token that 32 random bytes make."""
    if len(randomness) != RANDOM_BYTES:
        raise ValueError("a token is made of 32 random bytes")
    return PREFIX + base64.urlsafe_b64encode(randomness).decode("ascii").rstrip("=")


def is_acceptable(token: str) -> bool:
    """Tell whether a token that an operator chose may be one: 32 to 200 visible ASCII characters."""
    return _GIVEN.fullmatch(token) is not None


def digest_of(token: str) -> str:
    """Return what is kept of a token: its SHA-256 in hexadecimal."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_same(digest: str, other: str) -> bool:
    """Compare two digests in a time that does not tell where they differ."""
    return hmac.compare_digest(digest, other)


def token_in(authorization: str) -> str | None:
    """Return the token of an Authorization header of the scheme Bearer, or None for anything else."""
    found = _AUTHORIZATION.fullmatch(authorization)
    return found.group(1) if found else None
