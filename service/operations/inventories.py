"""Looks at what a node has, and keeps the last look with the node."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from service.db import nodes as node_queries
from service.db import servers as server_queries
from service.db.tables import Node
from service.errors import RemoteCommandFailed
from service.logs import EventLog
from service.nodes.inventory import Gpu, Inventory
from service.operations import diagnoses
from service.operations.control import Control
from service.remote.messages import FoundEngine
from service.remote.node import NodeSession

_events = EventLog("operations")
_GPUS = TypeAdapter(tuple[Gpu, ...])
_JSON = TypeAdapter(dict[str, Any])


def stored_gpus(node: Node) -> tuple[Gpu, ...]:
    """Return the GPUs of the last look at a node; none before the first look."""
    return _GPUS.validate_python((node.inventory or {}).get("gpus", []))


async def refresh(control: Control, node: Node) -> Inventory:
    """Look at a node now and keep what was seen; a RemoteError says why it cannot be looked at.

    A look that took so long that a later one was kept meanwhile is not kept.
    """
    live = control.live.node(node.id)
    live.looks += 1
    number = live.looks
    remote = await control.node_session(node)
    pythons = await _pythons(control, node)
    inventory, running, engines = await asyncio.gather(
        remote.inventory(), _running(remote), asyncio.gather(*(_engine(remote, python) for python in pythons))
    )
    before = (node.inventory or {}).get("found_engines", [])
    found = before if running is None else [asdict(engine) for engine in await _unknown(control, running)]
    document = _JSON.dump_python({**asdict(inventory), "engines": engines, "found_engines": found}, mode="json")
    async with control.database.write() as session:
        row = await session.get(Node, node.id)
        if row is not None and number > live.kept_look:
            live.kept_look = number
            row.inventory = document
            row.inventory_at = control.now()  # its age is told by this clock: a node's own may be hours ahead
            complaints = diagnoses.complaints_of_inventory(inventory)
            await diagnoses.reconcile(
                session, complaints, subject_id=node.id, node_id=node.id, server_id=None, at=inventory.at
            )
    control.changes.publish(node.id)
    return inventory


def is_older_than(node: Node, seconds: float, now: datetime) -> bool:
    """Tell whether the last look at a node is missing or older than so many seconds."""
    return node.inventory_at is None or (now - node.inventory_at).total_seconds() > seconds


async def _pythons(control: Control, node: Node) -> list[str]:
    """Return the environments to look at: those named for the node, and those of the profiles placed on it."""
    async with control.database.read() as session:
        placed = await node_queries.pythons_of_node(session, node.id)
    return list(dict.fromkeys([*node.engines, *placed]))


async def _running(remote: NodeSession) -> tuple[FoundEngine, ...] | None:
    """Return the engines that run on a node; None where they cannot be looked for, which keeps nobody from the rest."""
    try:
        return await remote.find_engines()
    except RemoteCommandFailed as error:
        _events.warning("engines_not_found", detail=error.detail)
        return None


async def _unknown(control: Control, running: Sequence[FoundEngine]) -> list[FoundEngine]:
    """Return the engines that are no launch of this database: somebody else's, or younger than a backup put back."""
    async with control.database.read() as session:
        known = await server_queries.known_launches(session, [engine.launch_id or "" for engine in running])
    return [engine for engine in running if engine.launch_id not in known]


async def _engine(remote: NodeSession, python: str) -> dict[str, str | None]:
    try:
        return {"python": python, "sglang_version": await remote.engine_version(python), "error": None}
    except RemoteCommandFailed as error:
        return {"python": python, "sglang_version": None, "error": error.detail}
