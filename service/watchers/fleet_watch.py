"""Keeps one watcher task per node, and the table of timed jobs."""

import asyncio
from datetime import timedelta

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from service.db import history
from service.db import nodes as node_queries
from service.db.tables import Node
from service.errors import RemoteError
from service.logs import EventLog
from service.nodes.contact import Contact
from service.operations import inventories, recording
from service.operations.changes import NODES_CHANGED
from service.operations.control import Control
from service.operations.runner import OperationRunner
from service.watchers.node_watcher import NodeWatcher

ANSWERS_KEPT_H = 24
"""How long the answer under an idempotency key is remembered."""
OFFSETS_EVERY_S = 60
"""How often it is kept how much of each log was read: so much is read again after a restart."""
LOOKS_AT_ONCE = 32
"""A look at a node is three commands on it and a write here: a thousand at once would keep everything else waiting."""
_LATE_BY_S = 60
"""A timed job that comes late by less than this is still run; APScheduler's own default is one second."""
_events = EventLog("watchers")


class FleetWatch:
    """Starts and ends node watchers as nodes come and go."""

    def __init__(self, control: Control, runner: OperationRunner) -> None:
        self._control = control
        self._runner = runner
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._main: asyncio.Task[None] | None = None
        self._timers = AsyncIOScheduler(
            job_defaults={"misfire_grace_time": _LATE_BY_S, "coalesce": True, "max_instances": 1}
        )

    async def start(self) -> None:
        """Begin to watch every node."""
        self._main = asyncio.create_task(self._follow_nodes(), name="fleet watch")
        self._timers.add_job(
            self._look_again, "interval", seconds=self._control.settings.inventory_interval_s, id="inventory"
        )
        self._timers.add_job(self._keep_offsets, "interval", seconds=OFFSETS_EVERY_S, id="offsets")
        self._timers.add_job(self._forget_answers, "interval", hours=1, id="idempotency")
        self._timers.start()

    async def close(self) -> None:
        """End all watchers."""
        self._timers.shutdown(wait=False)
        tasks = [*self._tasks.values(), *([self._main] if self._main else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_nodes(self) -> None:
        while True:
            seen = self._control.changes.count(NODES_CHANGED)
            async with self._control.database.read() as session:
                nodes = {node.id: node for node in await node_queries.all_nodes(session)}
            for node_id in set(self._tasks) - set(nodes):
                await self._end(node_id)
            for node in nodes.values():
                if node.id not in self._tasks:
                    self._begin(node)
            await self._control.changes.wait([NODES_CHANGED], after=seen, timeout_s=None)

    def _begin(self, node: Node) -> None:
        watcher = NodeWatcher(self._control, self._runner, node)
        self._tasks[node.id] = asyncio.create_task(watcher.run(), name=f"watch {node.name}")

    async def _end(self, node_id: str) -> None:
        task = self._tasks.pop(node_id)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._control.connections.forget(node_id)
        self._control.live.forget_node(node_id)

    async def _forget_answers(self) -> None:
        """Let go of answers that nobody will ask for again."""
        before = self._control.now() - timedelta(hours=ANSWERS_KEPT_H)
        async with self._control.database.write() as session:
            await history.forget_answers(session, before)

    async def _keep_offsets(self) -> None:
        await recording.record_offsets(self._control)

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
