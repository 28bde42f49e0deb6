"""Options and arguments that several commands have, in one wording."""

import math
import re
from typing import Annotated
from urllib.parse import urlsplit

import typer

from service.cli.completion import nodes, profiles, servers

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_WAIT_S = 900
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def http_url(value: str | None) -> str | None:
    """Return an address that can be asked, without what would stand before the paths of the API."""
    if value is None:
        return None
    if not value.startswith(("http://", "https://")):
        raise typer.BadParameter("an address begins with http:// or https://")
    if not _is_address(value):
        raise typer.BadParameter("an address is http://HOST:PORT, perhaps with a path: no spaces, '?' or '#'")
    return value.rstrip("/")


def _is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return bool(parts.hostname) and parts.port != 0 and not re.search(r"[\s?#]", value)
    except ValueError:
        return False


def checked_name(value: str) -> str:
    """Refuse what would be the address of something else: no name is that of the list, `../x` of another resource."""
    if not _NAME.fullmatch(value):
        raise typer.BadParameter("a name or an id is of letters, digits, '.', '_' and '-', a letter or digit first")
    return value


def wait_time(value: float) -> float:
    """Refuse what is no time to wait for something: one below zero, one without an end, and what is no number."""
    if not 0 <= value < math.inf:
        raise typer.BadParameter("a time is a number of seconds, 0 or more, and has an end")
    return value


UrlOption = Annotated[
    str, typer.Option("--url", envvar="VIGIL_URL", callback=http_url, help="Where the service answers.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, in the shapes of the API.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until it is there, with a live line.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0, callback=wait_time, help="With --wait: seconds to wait at most.")
]
OverrideOption = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="CHECK", help="Launch although this check fails; may be given several times."),
]
GpusOption = Annotated[str | None, typer.Option(help="Indexes or uuids of GPUs, with commas.")]
ServerArgument = Annotated[
    str, typer.Argument(help="The name or id of the server.", autocompletion=servers, callback=checked_name)
]
NodeArgument = Annotated[
    str, typer.Argument(help="The name or id of the node.", autocompletion=nodes, callback=checked_name)
]
ProfileArgument = Annotated[
    str, typer.Argument(help="The name or id of the profile.", autocompletion=profiles, callback=checked_name)
]
ServerOption = Annotated[str | None, typer.Option("--server", help="Only of this server.", autocompletion=servers)]
NodeOption = Annotated[str | None, typer.Option("--node", help="Only of this node.", autocompletion=nodes)]
ProfileOption = Annotated[str | None, typer.Option("--profile", help="Only of this profile.", autocompletion=profiles)]


def chosen_gpus(text: str | None) -> list[int | str] | None:
    """Return the GPUs that an option names: numbers are indexes, the rest uuids."""
    return [int(item) if item.isdigit() else item for item in text.split(",")] if text else None
