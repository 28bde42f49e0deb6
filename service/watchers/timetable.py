"""The table of timed jobs: done again and again, never twice at once, each known by when it last went well."""

import asyncio
from collections.abc import Awaitable, Callable

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from service.logs import EventLog
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

    def every(self, seconds: float, name: str, job: Callable[[], Awaitable[object]], *, is_vital: bool = True) -> None:
        """Have a job done every so many seconds; without a vital one the service does not do its work."""
        self._control.live.jobs[name] = LiveJob(every_s=seconds, is_vital=is_vital, known_at=self._control.now())
        self._scheduler.add_job(self._run, "interval", args=(name, job), seconds=seconds, id=name)

    def start(self) -> None:
        """Begin to keep the time."""
        self._scheduler.start()

    def close(self) -> None:
        """Begin no job any more; those that run are cut off."""
        self._scheduler.shutdown(wait=False)

    async def _run(self, name: str, job: Callable[[], Awaitable[object]]) -> None:
        try:
            await job()
        except asyncio.CancelledError:
            return  # the timetable was closed; the scheduler would call it an error, with a traceback
        except Exception:  # noqa: BLE001  the next time may go well; until then its age tells
            _events.failure("job_failed", job=name)
            return
        self._control.live.jobs[name].done_at = self._control.now()
