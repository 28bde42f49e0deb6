"""Names for the shell's completion, asked of the service; when it does not answer at once there are none."""

# ruff: noqa: PLC0415  # the shell waits: nothing is imported that a command without names does not need

import os
from pathlib import Path

import typer

PATIENCE_S = 2.0
MAX_NAMES = 200


def servers(incomplete: str) -> list[str]:
    """Return the names of servers that begin so."""
    return _names("/servers", incomplete)


def nodes(incomplete: str) -> list[str]:
    """Return the names of nodes that begin so."""
    return _names("/nodes", incomplete)


def profiles(incomplete: str) -> list[str]:
    """Return the names of profiles that begin so."""
    return _names("/profiles", incomplete)


def _names(path: str, incomplete: str) -> list[str]:
    import asyncio

    from service.cli.asking import Api, Refused
    from service.cli.client import Unreachable
    from service.cli.credentials import TokenUnusable, use_token_file
    from service.cli.options import DEFAULT_URL, http_url

    token_file = os.environ.get("VIGIL_TOKEN_FILE")

    async def ask(url: str) -> list[str]:
        async with asyncio.timeout(PATIENCE_S):
            page = await Api(url).collect(path, limit=MAX_NAMES)
        return sorted(item["name"] for item in page["items"] if item["name"].startswith(incomplete))

    try:
        if token_file:
            use_token_file(Path(token_file))
        return asyncio.run(ask(http_url(os.environ.get("VIGIL_URL")) or DEFAULT_URL))
    except (Refused, Unreachable, TokenUnusable, TimeoutError, typer.BadParameter):
        return []
