"""The watcher of one node: what it holds in memory is of the launches that may be alive, and of no others."""

from typing import Any, cast

from service.db.tables import Node, Server
from service.operations.runner import OperationRunner
from service.servers.states import State
from service.watchers.node_watcher import NodeWatcher
from tests.watchers.conftest import Scene


async def end_watches(watcher: NodeWatcher) -> None:
    """Do what a lost connection does to the watches."""
    for watch in watcher._watches.values():
        await watch.end()
    watcher._watches.clear()


async def test_a_launch_that_ended_while_the_connection_was_lost_is_let_go_of(scene: Scene) -> None:
    """Else its last log would be held for ever, and whoever follows it would wait for more for ever."""
    control, connection = scene.control, cast("Any", None)
    async with control.database.read() as session:
        watcher = NodeWatcher(control, OperationRunner(control), await session.get_one(Node, "nd_1"))
    await watcher._refresh_watches(connection)
    assert set(control.live.launches) == {"ln_1"}
    await end_watches(watcher)
    assert set(control.live.launches) == {"ln_1"}
    async with control.database.write() as session:
        server = await session.get_one(Server, "sv_1")
        server.sqlmodel_update({"state": State.STOPPED})
    await watcher._refresh_watches(connection)
    assert not control.live.launches
