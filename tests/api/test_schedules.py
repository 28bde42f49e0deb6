"""Schedules over HTTP, and their jobs in the timetable; no server is ready here, so every turn is skipped."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import update
from sqlmodel import col

from service.benchmarks.cron import parse_cron
from service.db import schedules
from service.db.benchmark_tables import Schedule
from service.operations.changes import SCHEDULES_CHANGED
from service.watchers.schedule_watch import ScheduleWatch
from service.watchers.timetable import Timetable
from tests.api.bench_files import get
from tests.api.conftest import Api

NIGHTLY = {"name": "nightly", "cron": "30 2 * * *", "server": "one", "benchmark": "smoke"}


@pytest.fixture
async def placed(api: Api) -> Api:
    await api.add_node()
    await api.add_server()
    return api


@pytest.fixture
async def timetable(placed: Api) -> AsyncIterator[Timetable]:
    """Give a timetable of the test's own beside the application's."""
    made = Timetable(placed.parts.control)
    made.start()
    yield made
    made.close()


async def until(api: Api, is_true: Any) -> Any:
    async with asyncio.timeout(10):
        while not is_true(found := await get(api, "/schedules/nightly")):
            await asyncio.sleep(0.02)
    return found


async def test_a_schedule_is_made_and_knows_its_next_turn(placed: Api) -> None:
    status, made = await placed.call("POST", "/schedules", {**NIGHTLY, "timezone": "Europe/Berlin"})
    assert (status, made["repeats"], made["server"], made["actor"]) == (201, 5, "one", "open")
    found = await until(placed, lambda item: item["next_at"])
    at = datetime.fromisoformat(found["next_at"]).astimezone(ZoneInfo("Europe/Berlin"))
    assert (at.hour, at.minute) == (2, 30)
    assert timedelta(0) < at - datetime.now(UTC) <= timedelta(days=1)
    assert (await get(placed, "/schedules"))["items"] == [found]
    assert (await placed.call("POST", "/schedules", NIGHTLY))[1]["code"] == "name_taken"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"cron": "61 * * * *"}, "invalid_input"),
        ({"cron": "0 0 1 * mon"}, "invalid_input"),
        ({"timezone": "Mars/Olympus"}, "invalid_input"),
        ({"timezone": "../../etc/passwd"}, "invalid_input"),
        ({"repeats": 0}, "invalid_input"),
        ({"server": "two"}, "not_found"),
        ({"benchmark": "no-such"}, "not_found"),
        ({"unknown": 1}, "invalid_input"),
    ],
)
async def test_a_schedule_that_cannot_be_kept_is_refused(placed: Api, change: dict[str, Any], code: str) -> None:
    status, problem = await placed.call("POST", "/schedules", {**NIGHTLY, **change})
    assert (status in {404, 422}, problem["code"]) == (True, code)
    assert (await get(placed, "/schedules"))["items"] == []


async def test_it_is_changed_paused_and_removed(placed: Api) -> None:
    await placed.call("POST", "/schedules", NIGHTLY)
    first = await until(placed, lambda item: item["next_at"])
    await placed.call("PATCH", "/schedules/nightly", {"cron": "30 3 * * *"})
    second = await until(placed, lambda item: item["next_at"] not in {None, first["next_at"]})
    assert second["cron"] == "30 3 * * *"
    status, paused = await placed.call("PATCH", "/schedules/nightly", {"is_paused": True, "repeats": 3})
    assert (status, paused["next_at"], paused["repeats"]) == (200, None, 3)
    await placed.call("PATCH", "/schedules/nightly", {"is_paused": False})
    assert (await until(placed, lambda item: item["next_at"]))["next_at"] == second["next_at"]
    assert (await placed.call("PATCH", "/schedules/nightly", {"timezone": "x"}))[0] == 422
    assert (await placed.call("DELETE", "/schedules/nightly"))[0] == 204
    assert (await placed.call("GET", "/schedules/nightly"))[0] == 404
    assert (await placed.call("POST", "/schedules", NIGHTLY))[0] == 201


async def test_the_clock_takes_the_turn_and_says_why_nothing_was_begun(placed: Api, timetable: Timetable) -> None:
    _, made = await placed.call("POST", "/schedules", NIGHTLY)
    watch = ScheduleWatch(placed.parts.control, placed.parts.runner, timetable)
    await watch.match_jobs()
    name = f"schedule {made['id']}"
    due_at = timetable.next_at(name)
    assert due_at is not None
    timetable._scheduler.modify_job(name, next_run_time=datetime.now(UTC))
    found = await until(placed, lambda item: item["last_skip"])
    assert (found["last_skip"], found["last_skip_detail"]) == ("not_ready", "server one is stopped")
    assert found["last_run_id"] is None
    assert timetable.next_at(name) == due_at


async def test_a_turn_that_nobody_was_there_for_is_told_and_not_made_up_for(placed: Api, timetable: Timetable) -> None:
    _, made = await placed.call("POST", "/schedules", NIGHTLY)
    await until(placed, lambda item: item["next_at"])
    control = placed.parts.control
    missed_at = datetime.now(UTC) - timedelta(hours=3)
    async with control.database.write() as session:
        await schedules.note_next(session, made["id"], missed_at)
    await ScheduleWatch(control, placed.parts.runner, timetable).match_jobs()
    found = await get(placed, "/schedules/nightly")
    assert found["last_skip"] == "missed"
    assert datetime.fromisoformat(found["last_at"]) == missed_at.replace(
        microsecond=missed_at.microsecond // 1000 * 1000
    )
    assert datetime.fromisoformat(found["next_at"]) > datetime.now(UTC)


async def test_a_turn_that_the_clock_came_too_late_for_is_told_as_missed(placed: Api, timetable: Timetable) -> None:
    """As on a machine that was suspended: the scheduler passes the turn over, and says so to nobody but itself."""
    _, made = await placed.call("POST", "/schedules", NIGHTLY)
    await until(placed, lambda item: item["next_at"])
    control = placed.parts.control
    await ScheduleWatch(control, placed.parts.runner, timetable).match_jobs()
    missed_at = datetime.now(UTC) - timedelta(minutes=3)
    async with control.database.write() as session:
        await schedules.note_next(session, made["id"], missed_at)
    timetable._scheduler.modify_job(f"schedule {made['id']}", next_run_time=missed_at)
    found = await until(placed, lambda item: item["last_skip"])
    assert found["last_skip"] == "missed"
    assert datetime.fromisoformat(found["next_at"]) > datetime.now(UTC)


async def test_a_paused_schedule_has_no_job(placed: Api, timetable: Timetable) -> None:
    _, made = await placed.call("POST", "/schedules", NIGHTLY)
    watch = ScheduleWatch(placed.parts.control, placed.parts.runner, timetable)
    await watch.match_jobs()
    await placed.call("PATCH", "/schedules/nightly", {"is_paused": True})
    await watch.match_jobs()
    assert timetable.next_at(f"schedule {made['id']}") is None


@pytest.mark.parametrize("broken", [{"timezone": "Mars/Olympus"}, {"cron": "61 * * * *"}])
async def test_a_schedule_that_cannot_be_read_any_more_keeps_no_other_from_its_turns(
    placed: Api, timetable: Timetable, broken: dict[str, str]
) -> None:
    """As after a change of the system's time zones: what was accepted once is refused now."""
    control = placed.parts.control
    _, bad = await placed.call("POST", "/schedules", NIGHTLY)
    _, good = await placed.call("POST", "/schedules", {**NIGHTLY, "name": "another"})
    await until(placed, lambda item: item["next_at"])
    async with control.database.write() as session:
        await session.execute(update(Schedule).where(col(Schedule.id) == bad["id"]).values(**broken))
    watch = ScheduleWatch(control, placed.parts.runner, timetable)
    await watch.match_jobs()
    assert timetable.next_at(f"schedule {good['id']}") is not None
    found = await get(placed, "/schedules/nightly")
    assert (found["next_at"], found["last_skip"]) == (None, "refused")
    assert next(iter(broken.values())) in found["last_skip_detail"]
    await placed.call("PATCH", "/schedules/nightly", {"timezone": "UTC", "cron": NIGHTLY["cron"]})
    await watch.match_jobs()
    assert timetable.next_at(f"schedule {bad['id']}") is not None


async def test_one_paused_and_resumed_between_two_looks_tells_its_next_turn_again(placed: Api) -> None:
    """The watch sees the last of the changes alone; the job it keeps is the right one, yet its time was wiped."""
    _, made = await placed.call("POST", "/schedules", NIGHTLY)
    before = await until(placed, lambda item: item["next_at"])
    control = placed.parts.control
    async with control.database.write() as session:
        await schedules.note_next(session, made["id"], None)
    control.changes.publish(SCHEDULES_CHANGED)
    assert await until(placed, lambda item: item["next_at"]) == before


async def test_a_turn_noted_after_a_pause_is_not_told(placed: Api) -> None:
    _, made = await placed.call("POST", "/schedules", NIGHTLY)
    await until(placed, lambda item: item["next_at"])
    await placed.call("PATCH", "/schedules/nightly", {"is_paused": True})
    async with placed.parts.control.database.write() as session:
        await schedules.note_next(session, made["id"], datetime.now(UTC))
    assert (await get(placed, "/schedules/nightly"))["next_at"] is None


async def test_the_timetable_reads_weekdays_as_cron_does(timetable: Timetable) -> None:
    """APScheduler counts weekdays from Monday, cron from Sunday."""

    async def job() -> None: ...

    timetable.by_cron(parse_cron("0 12 * * 0"), ZoneInfo("UTC"), "sundays", job)
    timetable.by_cron(parse_cron("0 12 * * 1-5/2"), ZoneInfo("UTC"), "odd days", job)
    sunday, odd = timetable.next_at("sundays"), timetable.next_at("odd days")
    assert sunday is not None
    assert odd is not None
    assert (sunday.isoweekday(), sunday.hour) == (7, 12)
    assert odd.isoweekday() in {1, 3, 5}
    timetable.drop("sundays")
    timetable.drop("sundays")
    assert timetable.next_at("sundays") is None
