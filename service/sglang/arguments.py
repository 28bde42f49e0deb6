"""The engine's arguments as Vigil handles them: which are secret, which are refused, and how a value becomes argv."""

import json
import re
from collections.abc import Sequence
from typing import TypeAlias

from pydantic import StrictFloat, StrictInt

ArgumentValue: TypeAlias = bool | int | float | str | list[StrictInt | StrictFloat | str] | dict[str, object] | None

SECRET_ARGUMENTS = frozenset({"api-key", "admin-api-key", "ssl-keyfile-password"})
"""Arguments whose value is a secret."""

RESERVED_ARGUMENTS = {
    "port": "the port belongs to the server, not to the profile",
    "model-path": "give it as model_path",
    "model": "give it as model_path",
    "delete-ckpt-after-loading": "it deletes the model directory after the start",
    "node-rank": "a server of several nodes is not supported",
    "nnodes": "a server of several nodes is not supported",
    "config": "Vigil writes the config file itself; give its keys as server_args",
}
"""Arguments that a profile may not set, each with the reason."""

_NAME = re.compile(r"^[a-z0-9][a-z0-9-]*$")


def plain_name(name: str) -> str:
    """Return an argument's name as the engine spells it: lower case, hyphens, no leading dashes."""
    return name.lstrip("-").replace("_", "-").lower()


def refusal(name: str, value: ArgumentValue) -> str | None:
    """Return why an argument may not be set, or None. Names the engine does not know pass: it judges them itself."""
    if not _NAME.match(name):
        return f"{name!r} is not an argument name"
    if name in SECRET_ARGUMENTS:
        return f"{name} is a secret: give it in secret_args, as a reference"
    if name in RESERVED_ARGUMENTS and value not in (None, False):
        return f"{name} cannot be set: {RESERVED_ARGUMENTS[name]}"
    if "\x00" in str(value):
        return f"the value of {name} holds a NUL character"
    return None


def argument_tokens(name: str, value: ArgumentValue) -> Sequence[str]:
    """Return the argv tokens of one argument; a value that begins with a dash is joined by `=`."""
    flag = f"--{name}"
    if value is None or value is False:
        return ()
    if value is True:
        return (flag,)
    if isinstance(value, list):
        return (flag, *(str(item) for item in value)) if value else ()
    text = json.dumps(value, separators=(",", ":")) if isinstance(value, dict) else str(value)
    return (f"{flag}={text}",) if text.startswith("-") else (flag, text)
