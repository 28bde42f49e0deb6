"""The environment that an engine gets: the login's variables, its own programs first on the path, then the order's."""

from __future__ import annotations

import os
import re
from typing import Dict

from .answering import Refused

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELL_OWN = frozenset(
    [
        "UID",
        "EUID",
        "PPID",
        "GROUPS",
        "SHELLOPTS",
        "BASHOPTS",
        "BASH_VERSINFO",
        "BASH_ENV",
        "ENV",
        "PS4",
        "IFS",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "OPTIND",
    ]
)
"""Variables that a shell keeps read-only (setting them ends it) or that would change what it does."""
_LOGIN_OWN = ("SSH_", "VIGIL_", "XDG_SESSION", "LS_COLORS", "MAIL", "TERM")


def engine_variables(program: str, wanted: Dict[str, str]) -> Dict[bytes, bytes]:
    """Return all variables of an engine whose program this is.

    A virtual environment's own programs come first on the path, as its `activate` would have it: engines call ninja
    and the like by name. Refused for a name that no shell can set, and for text that is not Unicode.
    """
    variables: Dict[bytes, bytes] = {}
    for name, value in os.environb.items():
        text = name.decode("ascii", "replace")
        if _NAME.fullmatch(text) and text not in _SHELL_OWN and not text.startswith(_LOGIN_OWN):
            variables[name] = value
    if os.path.isabs(program):
        own = os.path.dirname(program).encode("utf-8", "surrogateescape")
        variables[b"PATH"] = own + b":" + variables.get(b"PATH", os.defpath.encode("ascii"))
    for wish, text in wanted.items():
        if not _NAME.fullmatch(wish) or wish in _SHELL_OWN:
            raise Refused("order_invalid", "%r cannot be the name of a variable here" % wish)
        variables[wish.encode("ascii")] = encoded(text)
    return variables


def encoded(text: str) -> bytes:
    """Return a text as the system takes it."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Refused("order_invalid", "a text that is not Unicode") from error
    if b"\0" in data:
        raise Refused("order_invalid", "a text with a NUL character")
    return data
