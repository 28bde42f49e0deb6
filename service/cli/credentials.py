"""The token that commands send: from VIGIL_TOKEN or a file, never from the command line, which others can read."""

import os
import re
import stat
from contextvars import ContextVar
from pathlib import Path

VARIABLE = "VIGIL_TOKEN"
_given: ContextVar[str | None] = ContextVar("given", default=None)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_VISIBLE = re.compile(r"[\x21-\x7e]{1,200}")


class TokenUnusable(Exception):
    """There is a token, but it cannot be read or sent; the message says why, and never what it is."""


def use_token_file(path: Path) -> None:
    """Send the token of this file from now on; TokenUnusable if it cannot be read, or can be by others."""
    try:
        if path.stat().st_mode & _OTHERS:
            raise TokenUnusable(f"{path} can be read by others; it must have mode 600")
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenUnusable(f"{path} cannot be read ({type(error).__name__})") from error
    _given.set(_usable(token, str(path)))


def headers() -> dict[str, str]:
    """Return what a request must carry: the token, if there is one; TokenUnusable if it cannot be sent."""
    token = _given.get()
    if token is None:
        variable = os.environ.get(VARIABLE, "").strip()
        token = _usable(variable, VARIABLE) if variable else None
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _usable(token: str, place: str) -> str:
    if not _VISIBLE.fullmatch(token):
        raise TokenUnusable(f"{place} holds no token: one is a line of visible ASCII characters")
    return token
