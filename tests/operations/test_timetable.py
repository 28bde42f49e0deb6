"""The timetable: what a job's failure and its being cut off leave in the log."""

import asyncio
import logging
from pathlib import Path

import pytest

from service.db.engine import Database
from service.operations.control import Control
from service.remote.connections import Connections
from service.settings import Settings
from service.watchers.timetable import Timetable


async def test_a_job_that_is_cut_off_at_the_end_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'vigil.db'}")
    control, begun = Control(Settings(state_dir=tmp_path), database, Connections()), asyncio.Event()
    timetable = Timetable(control)

    async def never_ends() -> None:
        begun.set()
        await asyncio.Event().wait()

    timetable.every(0.01, "slow", never_ends)
    timetable.start()
    await asyncio.wait_for(begun.wait(), 5)
    with caplog.at_level(logging.ERROR):
        timetable.close()
        await asyncio.sleep(0.05)
    assert caplog.records == []
    assert control.live.jobs["slow"].done_at is None
