"""Records what a watcher concluded: the move of a server, with the end or the readiness of its launch."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from service.clock import to_text
from service.db import findings as finding_queries
from service.db import history
from service.db.tables import Launch, LaunchPhase, Operation, Server
from service.errors import Overtaken
from service.operations import cleanup, diagnoses, events, journal, transitioning
from service.operations.changes import OPERATIONS_CHANGED
from service.operations.control import Control
from service.operations.verdicts import VerdictWatch
from service.servers.observation import Observation
from service.servers.operation import OperationKind, OperationState
from service.servers.states import SERVING_STATES, Move, State
from service.sglang.failures import Diagnosis
from service.sglang.phases import Phase
from service.sglang.startup_log import LogReading, Progress

ACTOR = "watcher"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a move was decided on, and what the log proves about it."""

    observation: Observation
    diagnosis: Diagnosis | None = None


async def record_move(control: Control, server: Server, move: Move, seen: Seen, *, at: datetime) -> Operation | None:
    """Record a move that `decide` asked for, guarded by the state it was decided on (Overtaken otherwise).

    Returns the cleanup that a failure begins, for the runner.
    """
    observation = seen.observation
    begun: Operation | None = None
    async with control.database.write() as session:
        row = await session.get_one(Server, server.id)
        _require_unmoved(row, server)
        launch = await session.get_one(Launch, server.launch_id)
        fold_log(session, launch, observation.log, at=at)
        launch.pid = observation.process.pid or launch.pid
        if launch.started_at is None and launch.pid is not None:
            launch.started_at = at  # the answer to its start was lost
        if move.after is State.FAILED:
            launch.exit_code = observation.process.exit_code
            launch.ended_at = observation.process.ended_at or at
            launch.diagnosis = diagnoses.diagnosis_json(seen.diagnosis)
            if launch.ready_at is None:
                keep_phases(session, launch, observation.log, has_ended_well=False)
            await diagnoses.reconcile(session, [], subject_id=launch.id, node_id=row.node_id, server_id=row.id, at=at)
            begun = await cleanup.record_failure(session, row, move, at=at, actor=ACTOR)
        else:
            waiting = await history.find_running_operation(session, server.id)
            await transitioning.record(
                session, row, move, at=at, actor=ACTOR, operation_id=waiting.id if waiting else None
            )
            if move.after is State.READY:
                if launch.ready_at is None:
                    launch.ready_at = at
                if launch.ready_at == at and not launch.is_adopted:
                    keep_phases(session, launch, observation.log, has_ended_well=True)
                await _end_waiting(session, waiting, at=at)
    control.changes.publish(server.id, server.node_id, OPERATIONS_CHANGED)
    return begun


async def record_verdict(control: Control, server: Server, launch_id: str, verdicts: VerdictWatch) -> None:
    """Keep a change of what is thought of a launch, with the signs of progress that it rests on."""
    thought = verdicts.thought
    if thought is None:
        return
    async with control.database.write() as session:
        launch = await session.get(Launch, launch_id)
        if launch is not None:
            launch.verdict = thought.details
            launch.marks = verdicts.record()
            transitioning.note_verdict(session, server, verdicts.kept or "unknown", thought.details, at=control.now())
    verdicts.kept = thought.verdict
    control.changes.publish(server.id)


async def record_marks(control: Control, launch_id: str, verdicts: VerdictWatch) -> None:
    """Keep the signs of progress of a start, so that a restart of the service knows what stood still before it."""
    async with control.database.write() as session:
        launch = await session.get(Launch, launch_id)
        if launch is not None and verdicts.thought is not None:
            launch.verdict = verdicts.thought.details
            launch.marks = verdicts.record()


async def record_progress(control: Control, launch_id: str, log: LogReading, *, log_offset: int) -> None:
    """Keep how far the log of a launch has come, and how much of it was read."""
    async with control.database.write() as session:
        launch = await session.get(Launch, launch_id)
        if launch is not None:
            fold_log(session, launch, log, at=control.now())
            launch.log_offset = log_offset


async def record_offsets(control: Control) -> int:
    """Keep how much of each launch's log was read by now, of all launches in one transaction; returns of how many.

    After a restart the service reads the log of a ready server from there on.
    """
    moved = {launch_id: live for launch_id, live in control.live.launches.items() if live.has_unkept_log}
    offsets = {launch_id: live.recent_log.end_offset for launch_id, live in moved.items()}
    if offsets:
        async with control.database.write() as session:
            rows = [{"id": launch_id, "log_offset": offset} for launch_id, offset in offsets.items()]
            await session.execute(update(Launch), rows)
    for launch_id, live in moved.items():
        live.kept_offset = offsets[launch_id]
    return len(offsets)


async def record_complaints(
    control: Control,
    server: Server,
    launch_id: str,
    complaints: Sequence[diagnoses.Complaint],
    *,
    undecided: frozenset[str],
    at: datetime,
) -> None:
    """Keep what a serving engine complains of as findings with a beginning and an end.

    Nothing is written when there is nothing to say and nothing to end, as of most servers when their watch begins:
    a thousand of them would keep other writers waiting. Nor of a launch that was stopped meanwhile: its findings were
    ended with it.
    """
    if not complaints:
        async with control.database.read() as session:
            if not await finding_queries.open_findings(session, launch_id):
                return
    async with control.database.write() as session:
        row = await session.get_one(Server, server.id)
        if row.launch_id != launch_id or row.state not in SERVING_STATES:
            return
        await diagnoses.reconcile(
            session,
            complaints,
            subject_id=launch_id,
            node_id=server.node_id,
            server_id=server.id,
            at=at,
            undecided=undecided,
        )
    control.changes.publish(server.id)


def fold_log(session: AsyncSession, launch: Launch, log: LogReading, *, at: datetime) -> None:
    """Put the phases that the log tells into the launch's row; once it was ready its start is history.

    After a restart of the service the log is read anew: until it has come as far again, what is known stays.
    """
    known = len(launch.timeline)
    if log.phase is None or launch.ready_at is not None or len(log.phases) < known:
        return
    events.tell_phases(session, launch, log.phases, known=known, at=at)
    launch.phase = log.phase
    launch.progress = progress_json(log.progress)
    launch.timeline = [
        {
            "phase": span.phase,
            "started_at": to_text(span.started_at) if span.started_at else None,
            "ended_at": to_text(span.ended_at) if span.ended_at else None,
            "progress": progress_json(span.progress),
        }
        for span in log.phases
    ]
    launch.engine_version = launch.engine_version or log.engine_version


def keep_phases(session: AsyncSession, launch: Launch, log: LogReading, *, has_ended_well: bool) -> None:
    """Keep how long each stay in a phase took: later starts are measured by it. A failure cuts the last one short."""
    spans = [span for span in log.phases if span.phase is not Phase.SERVING and span.started_at is not None]
    for position, span in enumerate(spans):
        following = spans[position + 1].started_at if position + 1 < len(spans) else None
        ended_at = span.ended_at or following
        if span.started_at is None or ended_at is None:
            continue
        session.add(
            LaunchPhase(
                launch_id=launch.id,
                position=position,
                phase=span.phase,
                duration_s=max(0.0, (ended_at - span.started_at).total_seconds()),
                total=span.progress.total if span.progress else None,
                has_ended_well=has_ended_well or position + 1 < len(spans),
            )
        )


def progress_json(progress: Progress | None) -> dict[str, object] | None:
    """Return n of m as plain JSON values."""
    return asdict(progress) if progress else None


def _require_unmoved(row: Server, decided_on: Server) -> None:
    """Raise Overtaken when the row is no longer the one that the decision was made on."""
    if row.state is not decided_on.state or row.launch_id != decided_on.launch_id:
        raise Overtaken(f"server {row.name} was moved by somebody else meanwhile")


async def _end_waiting(session: AsyncSession, waiting: Operation | None, *, at: datetime) -> None:
    if waiting is not None and waiting.kind in {OperationKind.LAUNCH, OperationKind.RESTART}:
        await journal.end(session, waiting.id, OperationState.SUCCEEDED, at=at)
