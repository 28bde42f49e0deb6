"""What must be clear before a launch is accepted: nothing stands against it, and its preflight has passed."""

from collections.abc import Collection
from typing import Any

from service.api.dependencies import Parts
from service.api.schemas.servers import LaunchWish
from service.db import servers as server_queries
from service.db.tables import Node
from service.operations import candidates, launching, preflighting
from service.operations.candidates import Candidate
from service.operations.placing import Wish
from service.sglang.checks import CheckCode


async def clear_wish(parts: Parts, wish: Wish, override: Collection[CheckCode]) -> dict[str, Any]:
    """Return the preflight of a server that is about to be placed and launched; raises what refuses it."""
    async with parts.control.database.read() as session:
        await server_queries.require_free_server_name(session, wish.name)
        candidate = await candidates.of_wish(session, wish)
    launching.require_launchable(candidate.node)
    return await _passed(parts, candidate, override)


async def clear_launch(parts: Parts, server: str, wish: LaunchWish) -> dict[str, Any]:
    """Return the preflight of a server's launch; raises what refuses it, the server's state before anything else."""
    async with parts.control.database.read() as session:
        row = await server_queries.get_server(session, server)
        await launching.require_acceptable(session, row, await session.get_one(Node, row.node_id))
        candidate = await candidates.of_server(session, row, version=wish.version)
    return await _passed(parts, candidate, wish.override)


async def clear_restart(parts: Parts, server: str, wish: LaunchWish) -> dict[str, Any]:
    """Return the preflight of a restart, made while the present launch runs on; raises what refuses it."""
    async with parts.control.database.read() as session:
        row = await server_queries.get_server(session, server)
        candidate = await candidates.of_server(session, row, version=wish.version)
    launching.require_launchable(candidate.node)
    return await _passed(parts, candidate, wish.override)


async def _passed(parts: Parts, candidate: Candidate, override: Collection[CheckCode]) -> dict[str, Any]:
    preflight = await preflighting.check(parts.control, candidate)
    preflighting.require_passed(preflight, override)
    return preflight.document(override)
