"""Keeps one job in the timetable for each schedule that is not paused, and has its turns taken."""

import asyncio
from datetime import datetime
from functools import partial

from sqlalchemy.ext.asyncio import AsyncSession

from service.benchmarks.cron import parse_cron
from service.benchmarks.runs import SkipReason
from service.db import schedules
from service.db.benchmark_tables import Schedule
from service.logs import EventLog
from service.operations import scheduling
from service.operations.changes import SCHEDULES_CHANGED
from service.operations.control import Control
from service.operations.runner import OperationRunner
from service.watchers.timetable import Timetable

RETRY_S = 1.0
_events = EventLog("schedules")


class ScheduleWatch:
    """Follows the schedules in the database; the timetable keeps their time in memory."""

    def __init__(self, control: Control, runner: OperationRunner, timetable: Timetable) -> None:
        self._control = control
        self._runner = runner
        self._timetable = timetable
        self._kept: dict[str, tuple[str, str]] = {}
        """The cron and time zone of each schedule that has a job."""

    async def run(self) -> None:
        """Keep the time for ever, and note what was missed while nobody did."""
        while True:
            seen = self._control.changes.count(SCHEDULES_CHANGED)
            try:
                await self.match_jobs()
            except Exception:  # noqa: BLE001  without it no turn would ever come again
                _events.failure("schedules_not_matched")
                await asyncio.sleep(RETRY_S)
                continue
            await self._control.changes.wait([SCHEDULES_CHANGED], after=seen, timeout_s=None)

    async def match_jobs(self) -> None:
        """Give each schedule its job, take away the jobs of those that are paused or gone, and note what is due when.

        One that cannot be read any more, as when the system has lost its time zone, is told and keeps no other from its
        job; it is tried again with the next change. The time noted is compared with the job's own each time: a schedule
        that was paused and resumed since the last look has lost the one and kept the other. One that went by was
        missed: the service or its machine stood still.
        """
        async with self._control.database.read() as session:
            wanted = {schedule.id: schedule for schedule in await schedules.kept_schedules(session)}
        for schedule_id in set(self._kept) - set(wanted):
            self._timetable.drop(_job_name(schedule_id))
            del self._kept[schedule_id]
        unread = {schedule.id: why for schedule in wanted.values() if (why := self._keep_job(schedule)) is not None}
        due = {schedule_id: self._timetable.next_at(_job_name(schedule_id)) for schedule_id in wanted}
        unlike = [schedule for schedule in wanted.values() if schedule.next_at != due[schedule.id]]
        if unlike:
            async with self._control.database.write() as session:
                for schedule in unlike:
                    await self._note(session, schedule, due[schedule.id], unread.get(schedule.id))

    async def _note(
        self, session: AsyncSession, schedule: Schedule, due_at: datetime | None, unread: str | None
    ) -> None:
        """Note when a schedule is due next, and before that what came of the turn that it had."""
        now = self._control.now()
        if unread is None:
            await scheduling.note_missed(session, schedule, now=now)
        else:
            await schedules.note_turn(session, schedule.id, at=now, skip=SkipReason.REFUSED, detail=unread)
        await schedules.note_next(session, schedule.id, due_at)

    async def _take_turn(self, schedule_id: str) -> None:
        await scheduling.take_turn(self._control, schedule_id, self._runner.submit, at=self._control.now())
        async with self._control.database.write() as session:
            await schedules.note_next(session, schedule_id, self._timetable.next_at(_job_name(schedule_id)))

    def _keep_job(self, schedule: Schedule) -> str | None:
        """Give a schedule its job, unless it has it; return why it has none when its time cannot be read."""
        if self._kept.get(schedule.id) == (schedule.cron, schedule.timezone):
            return None
        name = _job_name(schedule.id)
        try:
            zone, cron = scheduling.require_timezone(schedule.timezone), parse_cron(schedule.cron)
            self._timetable.by_cron(cron, zone, name, partial(self._take_turn, schedule.id))
        except Exception as error:  # noqa: BLE001  no schedule can keep another from its turns
            _events.failure("schedule_not_kept", schedule_id=schedule.id)
            self._timetable.drop(name)
            self._kept.pop(schedule.id, None)
            return f"{schedule.cron!r} in time zone {schedule.timezone!r} cannot be read: {error}"
        self._kept[schedule.id] = (schedule.cron, schedule.timezone)
        return None


def _job_name(schedule_id: str) -> str:
    return f"schedule {schedule_id}"
