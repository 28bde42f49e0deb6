"""How old a look at a node is, told by the service's clock alone."""

from datetime import timedelta
from typing import cast

from service.db.tables import Node
from service.nodes.inventory import Inventory
from service.operations import inventories
from tests.watchers.conftest import NodeStandIn, Scene


class NodeInAnotherZone(NodeStandIn):
    """A node whose clock came back from a reboot eight hours ahead."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    async def inventory(self) -> Inventory:
        """Return what it has, as of its own clock."""
        return Inventory(
            at=self._scene.now() + timedelta(hours=8),
            boot_id="b",
            hostname="n",
            kernel="6",
            cpu_count=8,
            memory_total_mib=9,
            memory_available_mib=9,
            disks=(),
            shm_total_mib=9,
            shm_free_mib=9,
            driver_version=None,
            gpus=(),
            gpu_error=None,
            utc_offset_s=0,
            uid=0,
            user="u",
            launcher="setsid",
        )

    async def find_engines(self) -> tuple[()]:
        """Return none."""
        return ()

    async def engine_version(self, _python: str) -> str:
        """Return a version."""
        return "0.5.23"


async def node_of(scene: Scene) -> Node:
    async with scene.control.database.read() as session:
        return cast("Node", await session.get_one(Node, "nd_1"))


async def test_a_look_grows_old_though_the_clock_of_the_node_is_ahead(scene: Scene) -> None:
    scene.control.node = NodeInAnotherZone(scene)
    await inventories.refresh(scene.control, await node_of(scene))
    node = await node_of(scene)
    assert not inventories.is_older_than(node, 60, scene.now() + timedelta(seconds=30))
    assert inventories.is_older_than(node, 60, scene.now() + timedelta(seconds=600))
