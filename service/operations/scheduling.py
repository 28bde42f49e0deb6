"""Benchmark runs by the clock: begun when the server is ready and idle, else skipped with the reason."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy.ext.asyncio import AsyncSession

from service.benchmarks.runs import SkipReason
from service.clock import to_text
from service.db import benchmark_definitions, history, schedules
from service.db.benchmark_tables import BenchmarkRun, Schedule
from service.db.tables import Operation, Server
from service.errors import InvalidInput, VigilError
from service.logs import EventLog
from service.operations import benchmarking
from service.operations.changes import OPERATIONS_CHANGED
from service.operations.control import Control
from service.servers.states import State

COUNTERS_FRESH_S = 60
"""Older counters do not tell what a server does now; they are read every few seconds."""
MISSED_AFTER = timedelta(seconds=60)
"""A turn that is later than this is not made up for."""
_events = EventLog("schedules")


@dataclass(frozen=True, slots=True)
class Skipped:
    """Why a turn began no run."""

    reason: SkipReason
    detail: str


async def take_turn(control: Control, schedule_id: str, submit: Callable[[Operation], None], *, at: datetime) -> None:
    """Begin the run that is due, or note why not. A schedule that was paused or removed meanwhile does nothing."""
    async with control.database.write() as session:
        schedule = await session.get(Schedule, schedule_id)
        if schedule is None or schedule.is_paused or schedule.deleted_at is not None:
            return
        begun = await _begin(control, session, schedule, at)
        if isinstance(begun, Skipped):
            await schedules.note_turn(session, schedule.id, at=at, skip=begun.reason, detail=begun.detail)
        else:
            await schedules.note_turn(session, schedule.id, at=at, run_id=begun[1].id)
    if isinstance(begun, Skipped):
        _events.info("turn_skipped", schedule_id=schedule.id, reason=begun.reason, detail=begun.detail)
        return
    operation, run = begun
    _events.info("turn_begun", schedule_id=schedule.id, run_id=run.id)
    control.changes.publish(run.server_id or "", run.node_id or "", OPERATIONS_CHANGED)
    submit(operation)


async def note_missed(session: AsyncSession, schedule: Schedule, *, now: datetime) -> None:
    """Note that a turn passed while the service did not run, if one did."""
    due_at = schedule.next_at
    if due_at is not None and now - due_at > MISSED_AFTER:
        detail = f"Vigil did not run at {to_text(due_at)}"
        await schedules.note_turn(session, schedule.id, at=due_at, skip=SkipReason.MISSED, detail=detail)


def require_timezone(name: str) -> ZoneInfo:
    """Return a time zone by its name; InvalidInput if there is none of this name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidInput(f"timezone: there is no time zone {name!r}; UTC and Europe/Berlin are such") from error


async def _begin(
    control: Control, session: AsyncSession, schedule: Schedule, at: datetime
) -> tuple[Operation, BenchmarkRun] | Skipped:
    server = await session.get_one(Server, schedule.server_id)
    definition = await benchmark_definitions.find_definition(session, schedule.benchmark)
    if definition is None:
        return Skipped(SkipReason.BENCHMARK_GONE, f"there is no benchmark {schedule.benchmark!r}")
    obstacle = await _obstacle(control, session, server, at)
    if obstacle is not None:
        return obstacle
    actor = f"schedule:{schedule.name}"
    try:
        async with session.begin_nested():
            return await benchmarking.accept(session, server, definition, repeats=schedule.repeats, at=at, actor=actor)
    except VigilError as error:
        return Skipped(SkipReason.REFUSED, error.detail)


async def _obstacle(control: Control, session: AsyncSession, server: Server, at: datetime) -> Skipped | None:
    """Return what stands against measuring a server now; None when it is ready and idle."""
    if server.deleted_at is not None:
        return Skipped(SkipReason.SERVER_GONE, f"server {server.name} was removed")
    if server.state is not State.READY:
        return Skipped(SkipReason.NOT_READY, f"server {server.name} is {server.state}")
    running = await history.find_running_operation(session, server.id)
    if running is not None:
        return Skipped(SkipReason.OPERATION_IN_PROGRESS, f"operation {running.id} ({running.kind}) is under way")
    return _load_obstacle(control, server, at)


def _load_obstacle(control: Control, server: Server, at: datetime) -> Skipped | None:
    live = control.live.launches.get(server.launch_id or "")
    flow = live.verdicts.flow if live is not None and live.verdicts is not None else None
    counters = flow.counters if flow is not None else None
    if flow is None or counters is None or flow.at is None or (at - flow.at).total_seconds() > COUNTERS_FRESH_S:
        return Skipped(SkipReason.LOAD_UNKNOWN, "the server's /metrics do not say how many requests run")
    if counters.running_requests is None and counters.queued_requests is None:
        return Skipped(SkipReason.LOAD_UNKNOWN, "the server's /metrics do not count requests")
    running, queued = counters.running_requests or 0, counters.queued_requests or 0
    if running or queued:
        return Skipped(SkipReason.SERVING_REQUESTS, f"{running:g} requests were running and {queued:g} queued")
    return None
