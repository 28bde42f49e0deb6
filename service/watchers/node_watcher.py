"""Watches one node: keeps the connection, listens to its observer, and gives each launch its turn."""

import asyncio
import random
from datetime import datetime, timedelta

from service.db import servers as server_queries
from service.db import starts
from service.db.tables import Launch, Node, Server
from service.errors import NodeUnreachable, Permanent, RemoteError, VigilError
from service.logs import EventLog
from service.nodes.contact import Contact
from service.operations import inventories
from service.operations.control import Control, endpoint_of
from service.operations.runner import OperationRunner
from service.remote.messages import Beat, GpuHoldersFact, Hello, LaunchFact, LogFact
from service.remote.observing import Fact, MetricsFact, MetricsWish, Observer, observe
from service.remote.ssh import SshConnection
from service.servers.progress import History
from service.servers.states import State
from service.sglang.metrics import METRIC_NAMES, METRICS_PATH
from service.watchers.launch_watch import LaunchWatch

RETRY_FIRST_S = 0.5
TURN_EVERY_S = 1.0
"""Deadlines are looked at this often even when nothing changes."""
METRICS_EVERY_S = 5.0
"""The counters are read at least this often, whatever the pause between two health questions: verdicts rest on them."""
LAUNCH_RETRY_S = 10.0
"""A launch whose turn failed, or that cannot be watched, is tried again after this: each try may log a traceback."""
INVENTORY_MAX_AGE_S = 60
"""A node is looked at again when contact is made and the last look is older than this."""
_events = EventLog("watchers")


class NodeWatcher:
    """One task per node. Its faults are its own: no node can slow or end the watch over another."""

    def __init__(self, control: Control, runner: OperationRunner, node: Node) -> None:
        self._control = control
        self._runner = runner
        self._node = node
        self._watches: dict[str, LaunchWatch] = {}
        self._held: set[str] = set()
        """The launches with a live picture, which outlasts a connection, unlike their watches."""
        self._rests: dict[str, float] = {}
        """Until when launches are left alone whose watch failed, by the clock that nobody sets."""
        self._awake = asyncio.Event()
        self._closed: VigilError | None = None
        self._observer: Observer | None = None
        self._has_fresh_facts = False
        self._had_contact = False

    async def run(self) -> None:
        """Watch until cancelled or the node is deleted.

        After a passing fault it tries again, each time later; after one that lasts it waits for somebody to act.
        Nothing that goes wrong here ends the watch, not even while a loss is being written.
        """
        pause_s = RETRY_FIRST_S
        while True:
            seen = self._control.changes.count(self._node.id)
            wait_s: float | None = pause_s * random.uniform(0.7, 1.3)  # noqa: S311
            live = self._control.live.node(self._node.id)
            live.tried_at, live.is_resting = self._control.now(), False
            try:
                if not await self._reload_node():
                    return
                if await self._attempt():
                    wait_s = None
            except Exception:  # noqa: BLE001  the watcher goes on; what failed is logged with its traceback
                _events.failure("node_watch_failed", node_id=self._node.id)
            next_s = RETRY_FIRST_S if self._had_contact else pause_s * 2
            pause_s = min(next_s, self._control.settings.retry_max_s)
            live.is_resting = wait_s is None
            await self._control.changes.wait([self._node.id], after=seen, timeout_s=wait_s)

    async def _attempt(self) -> bool:
        """Watch until a fault of the way to the node, and record it; True when it lasts until somebody acts."""
        try:
            await self._watch()
        except RemoteError as error:
            await self._lose_contact(error)
            return isinstance(error, Permanent)
        return False

    async def _watch(self) -> None:
        """Connect, observe, and take turns until the connection or the node is gone."""
        self._had_contact = False
        connection = await self._control.connections.get(self._node.id, endpoint_of(self._node))
        self._closed = None
        every_s = min(METRICS_EVERY_S, self._control.settings.health_interval_s)
        wish = MetricsWish(METRICS_PATH, METRIC_NAMES, every_s=every_s)
        self._observer = await observe(connection, metrics=wish, on_fact=self._on_fact, on_close=self._on_close)
        try:
            await self._make_contact(connection)
            self._had_contact = True
            await self._take_turns(connection)
        finally:
            await self._observer.close()
            for watch in self._watches.values():
                await watch.end()
            self._watches.clear()
            self._rests.clear()

    async def _take_turns(self, connection: SshConnection) -> None:
        seen = -1
        while True:
            count = self._control.changes.count(self._node.id)
            if count != seen or self._is_unwatched_due():
                seen = count
                if not await self._reload_node():
                    return
                await self._refresh_watches(connection)
            await self._turn()
            await self._pause()
            if self._closed is not None:
                raise self._closed
            self._require_heard()

    async def _turn(self) -> None:
        """Give each launch its turn; where none goes well, none was taken: that may be more than one launch's fault."""
        went_well = [await self._turn_of(watch) for watch in list(self._watches.values())]
        if any(went_well) or not went_well:
            self._control.live.node(self._node.id).turn_at = self._control.now()

    async def _turn_of(self, watch: LaunchWatch) -> bool:
        """Give one launch its turn; a fault costs that launch alone, and its turn is taken again after a rest."""
        if self._is_resting(watch.launch.id):
            return False
        try:
            await watch.turn()
        except Exception:  # noqa: BLE001  no launch can end the watch over another
            self._rest("launch_turn_failed", watch.launch)
            return False
        return True

    def _rest(self, event: str, launch: Launch) -> None:
        """Log the fault that is being handled, and leave the launch alone for a while."""
        _events.failure(event, node_id=self._node.id, launch_id=launch.id)
        self._rests[launch.id] = self._control.monotonic_s() + LAUNCH_RETRY_S

    def _is_resting(self, launch_id: str) -> bool:
        return self._control.monotonic_s() < self._rests.get(launch_id, 0.0)

    def _is_unwatched_due(self) -> bool:
        """Tell whether a launch that could not be watched is to be tried again."""
        return any(not self._is_resting(launch_id) for launch_id in set(self._rests) - set(self._watches))

    async def _pause(self) -> None:
        """Sleep until something changed here or a second has gone by."""
        if not self._has_fresh_facts and self._closed is None:
            self._awake.clear()
            try:
                async with asyncio.timeout(TURN_EVERY_S):
                    await self._awake.wait()
            except TimeoutError:
                pass
        self._has_fresh_facts = False

    def _require_heard(self) -> None:
        heard_at = self._control.live.node(self._node.id).heard_at
        limit = timedelta(seconds=self._control.settings.beat_lost_after_s)
        if heard_at is not None and self._control.now() - heard_at > limit:
            raise NodeUnreachable(
                f"the observer on node {self._node.name} has been silent since {heard_at.isoformat()}"
            )

    async def _refresh_watches(self, connection: SshConnection) -> None:
        """Watch exactly the launches that may be alive, and tell the observer so."""
        async with self._control.database.read() as session:
            running = await server_queries.running_servers_of_node(session, self._node.id)
            histories = {
                launch.id: await starts.history_of(session, launch)
                for server, launch in running
                if launch.id not in self._watches and server.state is State.STARTING
            }
        wanted = {launch.id for _, launch in running}
        for launch_id in self._held - wanted:
            await self._let_go(launch_id)
        self._held = wanted
        self._rests = {launch_id: until for launch_id, until in self._rests.items() if launch_id in wanted}
        for server, launch in running:
            watch = self._watches.get(launch.id)
            if watch is not None:
                watch.update(server, launch)
            elif not self._is_resting(launch.id):
                self._begin_watch(connection, server, launch, histories.get(launch.id, History()))
        if self._observer is not None:
            self._observer.watch([watch.wanted() for watch in self._watches.values()])

    def _begin_watch(self, connection: SshConnection, server: Server, launch: Launch, history: History) -> None:
        """Watch one launch more; one that cannot be watched, as of a recipe that is refused now, is tried again."""
        try:
            watch = LaunchWatch(
                self._control,
                connection,
                server,
                launch,
                history=history,
                utc_offset_s=int((self._node.inventory or {}).get("utc_offset_s", 0)),
                submit=self._runner.submit,
            )
        except Exception:  # noqa: BLE001  no launch can keep another from being watched
            self._rest("launch_not_watched", launch)
            return
        self._watches[launch.id] = watch
        self._rests.pop(launch.id, None)
        watch.begin(self._wake)

    async def _let_go(self, launch_id: str) -> None:
        """End the watch over a launch that has ended, maybe while there was none, and drop what is known of it live."""
        watch = self._watches.pop(launch_id, None)
        if watch is not None:
            await watch.end()
        self._control.live.launches.pop(launch_id, None)

    def _on_fact(self, fact: Fact) -> None:
        now = self._control.now()
        live = self._control.live.node(self._node.id)
        live.heard_at = now
        match fact:
            case LaunchFact() | LogFact() | MetricsFact():
                watch = self._watches.get(fact.launch_id)
                if watch is not None:
                    watch.fold(fact)
                    self._wake()
            case Beat():
                self._note_beat(fact, now)
            case GpuHoldersFact():
                live.gpu_holders = fact
            case Hello():
                pass

    def _note_beat(self, beat: Beat, now: datetime) -> None:
        live = self._control.live.node(self._node.id)
        live.disk_free_mib = beat.disk_free_mib if beat.disk_free_mib is not None else live.disk_free_mib
        live.shm_free_mib = beat.shm_free_mib if beat.shm_free_mib is not None else live.shm_free_mib
        for watch in self._watches.values():
            if watch.live.has_reported:
                watch.live.observed_at = now

    def _on_close(self, error: VigilError | None) -> None:
        self._closed = error or NodeUnreachable(f"the observer on node {self._node.name} ended")
        self._wake()

    def _wake(self) -> None:
        self._has_fresh_facts = True
        self._awake.set()

    async def _reload_node(self) -> bool:
        """Read the node's row again; False when it was deleted."""
        async with self._control.database.read() as session:
            row = await session.get(Node, self._node.id)
        if row is None or row.deleted_at is not None:
            return False
        self._node = row
        return True

    async def _make_contact(self, connection: SshConnection) -> None:
        """Say that the node answers, once it is known what it has: a launch needs that."""
        now = self._control.now()
        self._control.live.node(self._node.id).heard_at = now
        if inventories.is_older_than(self._node, INVENTORY_MAX_AGE_S, now):
            await inventories.refresh(self._control, self._node)
            await self._reload_node()
        await self._control.contacts.note(self._node, Contact.OK, at=self._control.now())
        self._control.changes.publish(self._node.id)
        _events.info("contact_made", node_id=self._node.id, name=self._node.name, endpoint=connection.label)

    async def _lose_contact(self, error: VigilError) -> None:
        _events.warning("contact_lost", node_id=self._node.id, code=error.code, detail=error.detail)
        await self._control.connections.forget(self._node.id)
        await self._control.contacts.note(self._node, Contact.LOST, at=self._control.now(), error=error)
