"""Lets go of what is too old or too much: rows a few at a time, and directories of ended launches on their nodes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from service.db import retention as queries
from service.db.retention import Bound, History, OldFiles
from service.db.tables import Node
from service.errors import RemoteError
from service.logs import EventLog
from service.operations.control import Control
from service.remote.node import NodeSession
from service.settings import Settings

ANSWERS_KEPT_H = 24
"""How long the answer under an idempotency key is remembered."""
RUN_LIMIT_S = 600
"""One turn ends after so long; the next goes on where it ended."""
LEAST_PAUSE_S = 0.01
FILES_PER_NODE = 50
"""Directories that one turn removes on a node: each is a command there."""
NODES_AT_ONCE = 4
LAUNCHES_AT_ONCE = 20
_events = EventLog("retention")


@dataclass(slots=True)
class Removed:
    """What one turn removed, by kind."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, what: str, count: int) -> None:
        """Count more of a kind."""
        if count:
            self.counts[what] = self.counts.get(what, 0) + count


async def clean_up(control: Control) -> Removed:
    """Remove what the settings do not want kept; what was removed is logged by kind.

    Between two batches others get their turn for at least as long as a batch took, so that the service answers as
    quickly meanwhile. What is current or referred to stays, however old (see `service.db.retention`).
    """
    removed = Removed()
    until = monotonic() + RUN_LIMIT_S
    try:
        for kind, before in _bounds(control.settings, control.now()):
            await _remove_rows(control, kind, before, removed, until=until)
        await _remove_files(control, removed)
        await _remove_launches(control, removed, until=until)
    finally:
        for what, count in removed.counts.items():
            _events.info("history_removed", what=what, count=count)
    return removed


def _bounds(settings: Settings, now: datetime) -> tuple[tuple[History, datetime], ...]:
    """Return each kind of history with the instant before which it goes; what refers to others goes before them."""
    long_ago = now - timedelta(days=settings.keep_days)
    events = now - timedelta(days=min(settings.keep_events_days, settings.keep_days))
    return (
        (queries.ANSWERS, now - timedelta(hours=ANSWERS_KEPT_H)),
        (queries.EVENTS, events),
        (queries.DELIVERIES, events),
        (queries.TRANSITIONS, long_ago),
        (queries.FINDINGS, long_ago),
        (queries.OPERATIONS, long_ago),
        (queries.SAMPLES, long_ago),
        (queries.RESULT_FILES, long_ago),
    )


async def _remove_rows(control: Control, kind: History, before: datetime, removed: Removed, *, until: float) -> None:
    """Remove rows batch by batch: they are looked for while others may write, and deleted by their keys."""
    async with control.database.read() as session:
        floor = await queries.floor_of(session, kind, control.settings.keep_rows)
    bound, last = Bound(before, floor), None
    while monotonic() < until:
        began = monotonic()
        async with control.database.read() as session:
            keys = await queries.old_rows(session, kind, bound, after=last)
        if not keys:
            return
        async with control.database.write(is_long=True) as session:
            await queries.remove_rows(session, kind, keys)
        removed.add(kind.name, len(keys))
        last = keys[-1]
        await _let_others(began)


async def _remove_files(control: Control, removed: Removed) -> None:
    settings = control.settings
    before = control.now() - timedelta(days=min(settings.keep_launch_files_days, settings.keep_days))
    async with control.database.read() as session:
        old = await queries.old_files(session, before, keep_launches=settings.keep_launches, per_node=FILES_PER_NODE)
    places = asyncio.Semaphore(NODES_AT_ONCE)

    async def of_node(node_id: str, files: OldFiles) -> None:
        async with places:
            await _remove_files_of_node(control, node_id, files, removed)

    await asyncio.gather(*(of_node(node_id, files) for node_id, files in old.items()))


async def _remove_files_of_node(control: Control, node_id: str, old: OldFiles, removed: Removed) -> None:
    """Remove directories one by one; one that the node says is alive is kept, and a lost node keeps all the others."""
    gone = OldFiles()
    try:
        async with control.database.read() as session:
            node = await session.get_one(Node, node_id)
        remote = await control.node_session(node)
        for launch_id in old.launches:
            if await _is_removed(remote, launch_id):
                gone.launches.append(launch_id)
        clients = await _clients_of(remote, old.runs)
        for run_id in old.runs:
            if all([await _is_removed(remote, client_id) for client_id in clients.get(run_id, ())]):
                gone.runs.append(run_id)
    except RemoteError as error:
        _events.warning("launch_files_unreachable", node_id=node_id, code=error.code, detail=error.detail)
    if gone.launches or gone.runs:
        async with control.database.write() as session:
            await queries.note_files_removed(session, gone, control.now())
    removed.add("launch_files", len(gone.launches))
    removed.add("run_files", len(gone.runs))


async def _is_removed(remote: NodeSession, launch_id: str) -> bool:
    """Remove a directory; False when the node refuses, because something of it is alive."""
    try:
        await remote.remove_launch(launch_id)
    except RemoteError as error:
        if "refusal" not in error.context:
            raise
        _events.warning("launch_files_kept", launch_id=launch_id, detail=error.detail)
        return False
    return True


async def _clients_of(remote: NodeSession, run_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the clients of runs that have a directory: their ids are that of the run, the point and the repeat."""
    found: dict[str, list[str]] = {}
    for launch in await remote.list_launches() if run_ids else ():
        run_id = launch.launch_id.rsplit("_", 2)[0]
        if run_id in run_ids:
            found.setdefault(run_id, []).append(launch.launch_id)
    return found


async def _remove_launches(control: Control, removed: Removed, *, until: float) -> None:
    settings = control.settings
    before = control.now() - timedelta(days=settings.keep_days)
    while monotonic() < until:
        began = monotonic()
        async with control.database.read() as session:
            ids = await queries.old_launches(
                session, before, keep_launches=settings.keep_launches, limit=LAUNCHES_AT_ONCE
            )
        if not ids:
            return
        await _remove_samples(control, ids)
        async with control.database.write(is_long=True) as session:
            await queries.remove_launches(session, ids)
        removed.add("launches", len(ids))
        await _let_others(began)


async def _remove_samples(control: Control, launch_ids: Any) -> None:
    while True:
        began = monotonic()
        async with control.database.read() as session:
            keys = await queries.old_samples_of(session, launch_ids, limit=queries.SAMPLES.batch)
        if not keys:
            return
        async with control.database.write(is_long=True) as session:
            await queries.remove_rows(session, queries.SAMPLES, keys)
        await _let_others(began)


async def _let_others(began: float) -> None:
    await asyncio.sleep(max(LEAST_PAUSE_S, monotonic() - began))
