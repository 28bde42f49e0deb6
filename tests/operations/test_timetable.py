"""Timed jobs and the fleet watch: one failure is told and ends nothing."""

import asyncio
from pathlib import Path

import pytest

from service.db import migrating
from service.db import nodes as node_queries
from service.db.engine import Database
from service.operations.control import Control
from service.operations.runner import OperationRunner
from service.remote.connections import Connections
from service.settings import Settings
from service.watchers import fleet_watch
from service.watchers.fleet_watch import FleetWatch
from service.watchers.timetable import Timetable


@pytest.fixture
def control(tmp_path: Path) -> Control:
    """Give a control plane on an empty database."""
    migrating.upgrade(url := f"sqlite+aiosqlite:///{tmp_path / 'vigil.db'}")
    return Control(Settings(state_dir=tmp_path), Database(url), Connections())


async def test_a_job_that_fails_is_done_again_and_its_age_tells(control: Control) -> None:
    turns: list[int] = []
    is_done = asyncio.Event()

    async def job() -> None:
        turns.append(len(turns))
        if len(turns) == 1:
            raise OSError("the disk is full")
        is_done.set()

    table = Timetable(control)
    table.every(0.05, "sweep", job)
    assert control.live.jobs["sweep"].done_at is None
    table.start()
    async with asyncio.timeout(10):
        await is_done.wait()
        while control.live.jobs["sweep"].done_at is None:
            await asyncio.sleep(0.01)
    table.close()
    assert turns[:2] == [0, 1]
    await control.database.close()


async def test_the_fleet_watch_outlives_a_fault_of_the_database(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [OSError("disk I/O error")]
    really = node_queries.all_nodes

    async def all_nodes(session: object) -> object:
        if faults:
            raise faults.pop()
        return await really(session)  # type: ignore[arg-type]

    monkeypatch.setattr(node_queries, "all_nodes", all_nodes)
    monkeypatch.setattr(fleet_watch, "RETRY_S", 0.01)
    monkeypatch.setattr(fleet_watch, "BEAT_S", 0.02)
    fleet = FleetWatch(control, OperationRunner(control))
    await fleet.start()
    async with asyncio.timeout(10):
        while control.live.fleet_at is None:
            await asyncio.sleep(0.01)
        first = control.live.fleet_at
        while control.live.fleet_at == first:
            await asyncio.sleep(0.01)
    assert not faults
    await fleet.close()
    await control.database.close()
