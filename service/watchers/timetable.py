"""The table of timed jobs: done again and again, never twice at once, each known by when it last went well."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from apscheduler.events import EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from service.benchmarks.cron import Cron
from service.logs import EventLog
from service.operations.changes import SCHEDULES_CHANGED
from service.operations.control import Control
from service.operations.live import LiveJob

_LATE_BY_S = 60
"""A timed job that comes late by less than this is still run; APScheduler's own default is one second."""
_events = EventLog("watchers")


class Timetable:
    """The jobs of one service, kept in memory; what they did well is told in `control.live.jobs`."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._scheduler = AsyncIOScheduler(
            job_defaults={"misfire_grace_time": _LATE_BY_S, "coalesce": True, "max_instances": 1}
        )
        self._scheduler.add_listener(self._tell_missed, EVENT_JOB_MISSED)

    def every(self, seconds: float, name: str, job: Callable[[], Awaitable[object]], *, is_vital: bool = True) -> None:
        """Have a job done every so many seconds; without a vital one the service does not do its work."""
        self._control.live.jobs[name] = LiveJob(every_s=seconds, is_vital=is_vital, known_at=self._control.now())
        self._scheduler.add_job(self._run, "interval", args=(name, job), seconds=seconds, id=name)

    def by_cron(self, cron: Cron, zone: ZoneInfo, name: str, job: Callable[[], Awaitable[object]]) -> None:
        """Have a job done at the times of a cron, in the place of an earlier one of this name.

        One that is late by a minute or more is not done at all; then SCHEDULES_CHANGED is published.
        """
        fields = {"minute": cron.minutes, "hour": cron.hours, "day": cron.days, "month": cron.months}
        trigger = CronTrigger(
            **{field: _expression(values) for field, values in fields.items()},
            day_of_week=_expression(cron.weekday_names),
            timezone=zone,
        )
        self._scheduler.add_job(self._run_once, trigger, args=(name, job), id=name, replace_existing=True)

    def drop(self, name: str) -> None:
        """Do a job no more; one that is not there is no error."""
        with contextlib.suppress(JobLookupError):
            self._scheduler.remove_job(name)

    def next_at(self, name: str) -> datetime | None:
        """Return when a job is due next, in UTC; None when it is not there or never due again."""
        job = self._scheduler.get_job(name)
        due_at: datetime | None = getattr(job, "next_run_time", None)
        return None if due_at is None else due_at.astimezone(UTC)

    def start(self) -> None:
        """Begin to keep the time."""
        self._scheduler.start()

    def close(self) -> None:
        """Begin no job any more; those that run are cut off."""
        self._scheduler.shutdown(wait=False)

    def _tell_missed(self, event: JobExecutionEvent) -> None:
        _events.warning("job_missed", job=event.job_id)
        self._control.changes.publish(SCHEDULES_CHANGED)

    async def _run(self, name: str, job: Callable[[], Awaitable[object]]) -> None:
        if await self._run_once(name, job):
            self._control.live.jobs[name].done_at = self._control.now()

    async def _run_once(self, name: str, job: Callable[[], Awaitable[object]]) -> bool:
        """Do a job; True when it went well."""
        try:
            await job()
        except asyncio.CancelledError:
            return False  # the timetable was closed; the scheduler would call it an error, with a traceback
        except Exception:  # noqa: BLE001  the next time may go well; until then its age tells
            _events.failure("job_failed", job=name)
            return False
        return True


def _expression(values: Sequence[int | str] | None) -> str:
    return "*" if values is None else ",".join(map(str, values))
