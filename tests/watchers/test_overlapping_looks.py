"""Looks at one node that overlap: what the later one saw stays."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from service.db.tables import Node
from service.nodes.inventory import Inventory
from service.operations import inventories
from service.remote.messages import FoundEngine
from service.remote.node import NodeSession
from tests.watchers.conftest import Scene

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
INVENTORY = Inventory(
    at=NOW, boot_id="b", hostname="early", kernel="k", cpu_count=1, memory_total_mib=1, memory_available_mib=1,
    disks=(), shm_total_mib=1, shm_free_mib=1, driver_version=None, gpus=(), gpu_error=None, utc_offset_s=0, uid=0,
    user="u", launcher="setsid",
)  # fmt: skip


class Slow(NodeSession):
    """A node that says at once what it has, and takes its time for which engines run."""

    def __init__(self, hostname: str) -> None:
        self.hostname = hostname
        self.way = asyncio.Event()

    async def inventory(self, *, paths: Any = ()) -> Inventory:
        """Return what there is."""
        return replace(INVENTORY, hostname=self.hostname, disks=tuple(paths))

    async def find_engines(self) -> tuple[FoundEngine, ...]:
        """Return that none runs, after a while."""
        await self.way.wait()
        return ()

    async def engine_version(self, python: str) -> str | None:
        """Return that there is none."""
        return None if python else ""


async def test_a_look_that_took_long_does_not_undo_what_a_later_one_saw(scene: Scene) -> None:
    control = scene.control
    async with control.database.read() as session:
        node = await session.get_one(Node, "nd_1")
    early, late = Slow("early"), Slow("late")
    looks = []
    for remote in (early, late):
        scene.control.node = cast("Any", remote)
        looks.append(asyncio.create_task(inventories.refresh(control, node)))
        await asyncio.sleep(0.1)
    for remote, look in ((late, looks[1]), (early, looks[0])):
        remote.way.set()
        assert (await look).hostname == remote.hostname
    async with control.database.read() as session:
        row = await session.get_one(Node, "nd_1")
    assert (row.inventory or {})["hostname"] == "late"
