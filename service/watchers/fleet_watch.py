"""Keeps one watcher task per node, and says which jobs are done by the clock."""

import asyncio
from functools import partial

from service.db import nodes as node_queries
from service.db.tables import Node
from service.errors import RemoteError
from service.logs import EventLog
from service.nodes.contact import Contact
from service.operations import acceptance, backups, inventories, recording, retention
from service.operations.changes import NODES_CHANGED
from service.operations.control import Control
from service.operations.runner import OperationRunner
from service.watchers.node_watcher import NodeWatcher
from service.watchers.schedule_watch import ScheduleWatch
from service.watchers.timetable import Timetable

RETENTION_EVERY_S = 3600
BACKUP_LOOK_S = 600
"""How often it is looked whether a backup is due."""
SAMPLES_EVERY_S = 5
"""How often it is looked which launches have a sample of acceptance due."""
OFFSETS_EVERY_S = 60
"""How often it is kept how much of each log was read: so much is read again after a restart."""
RESUME_EVERY_S = 30
"""How often it is looked whether an accepted operation has nobody who carries it out."""
LOOKS_AT_ONCE = 32
"""A look at a node is three commands on it and a write here: a thousand at once would keep everything else waiting."""
BEAT_S = 15.0
"""The fleet watch shows this often that it lives, though no node comes or goes."""
RETRY_S = 1.0
_events = EventLog("watchers")


class FleetWatch:
    """Starts and ends node watchers as nodes come and go."""

    def __init__(self, control: Control, runner: OperationRunner) -> None:
        self._control = control
        self._runner = runner
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._main: asyncio.Task[None] | None = None
        self._schedules: asyncio.Task[None] | None = None
        self._timetable = Timetable(control)

    async def start(self) -> None:
        """Begin to watch every node."""
        self._main = asyncio.create_task(self._follow_nodes(), name="fleet watch")
        control = self._control
        self._timetable.every(control.settings.inventory_interval_s, "inventory", self._look_again)
        self._timetable.every(OFFSETS_EVERY_S, "offsets", partial(recording.record_offsets, control))
        self._timetable.every(SAMPLES_EVERY_S, "acceptance", partial(acceptance.keep_samples, control))
        self._timetable.every(RESUME_EVERY_S, "operations", self._runner.resume)
        self._timetable.every(
            RETENTION_EVERY_S, "retention", partial(retention.clean_up, self._control), is_vital=False
        )
        if self._control.settings.backup_dir is not None:
            self._timetable.every(BACKUP_LOOK_S, "backups", partial(backups.keep_up, self._control), is_vital=False)
        self._timetable.start()
        schedules = ScheduleWatch(control, self._runner, self._timetable)
        self._schedules = asyncio.create_task(schedules.run(), name="schedules")

    async def close(self) -> None:
        """End all watchers."""
        self._timetable.close()
        tasks = [*self._tasks.values(), *filter(None, (self._main, self._schedules))]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_nodes(self) -> None:
        """Keep exactly one watcher per node, for ever: what goes wrong here is told and tried again."""
        while True:
            seen = self._control.changes.count(NODES_CHANGED)
            try:
                await self._match_watchers()
            except Exception:  # noqa: BLE001  without it no new node would be watched
                _events.failure("fleet_watch_failed")
                await asyncio.sleep(RETRY_S)
                continue
            self._control.live.fleet_at = self._control.now()
            while not await self._control.changes.wait([NODES_CHANGED], after=seen, timeout_s=BEAT_S):
                self._control.live.fleet_at = self._control.now()

    async def _match_watchers(self) -> None:
        async with self._control.database.read() as session:
            nodes = {node.id: node for node in await node_queries.all_nodes(session)}
        for node_id in set(self._tasks) - set(nodes):
            await self._end(node_id)
        for node in nodes.values():
            if node.id not in self._tasks:
                self._begin(node)

    def _begin(self, node: Node) -> None:
        watcher = NodeWatcher(self._control, self._runner, node)
        self._tasks[node.id] = asyncio.create_task(watcher.run(), name=f"watch {node.name}")

    async def _end(self, node_id: str) -> None:
        task = self._tasks.pop(node_id)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._control.connections.forget(node_id)
        self._control.live.forget_node(node_id)

    async def _look_again(self) -> None:
        """Look at the inventory of every node that answers; one that fails is told by its watcher."""
        async with self._control.database.read() as session:
            nodes = [node for node in await node_queries.all_nodes(session) if node.contact is Contact.OK]
        places = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def look(node: Node) -> None:
            async with places:
                await inventories.refresh(self._control, node)

        results = await asyncio.gather(*(look(node) for node in nodes), return_exceptions=True)
        for node, result in zip(nodes, results, strict=True):
            if isinstance(result, RemoteError):
                _events.warning("inventory_failed", node_id=node.id, code=result.code, detail=result.detail)
            elif isinstance(result, Exception):
                _events.warning("inventory_failed", node_id=node.id, detail=repr(result))
