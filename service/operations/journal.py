"""The journal of operations: begun with the request that was accepted, ended with the fact that ends them."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from service.db import history
from service.db.tables import Operation, Server
from service.errors import OperationInProgress, VigilError
from service.ids import new_id
from service.operations import events
from service.servers.event import EventKind
from service.servers.operation import OperationKind, OperationState, OperationStep


async def begin(
    session: AsyncSession, server: Server, kind: OperationKind, step: OperationStep, *, at: datetime, actor: str
) -> Operation:
    """Write a new operation; OperationInProgress if the server has one that has not ended."""
    await require_idle(session, server)
    operation = Operation(
        id=new_id("op", at),
        kind=kind,
        server_id=server.id,
        launch_id=server.launch_id,
        state=OperationState.RUNNING,
        step=step,
        actor=actor,
        created_at=at,
    )
    session.add(operation)
    await session.flush()
    events.tell_operation(session, EventKind.OPERATION_BEGAN, operation, node_id=server.node_id, at=at)
    return operation


async def require_idle(session: AsyncSession, server: Server) -> None:
    """Raise OperationInProgress if a server has an operation that has not ended."""
    running = await history.find_running_operation(session, server.id)
    if running is not None:
        raise OperationInProgress(f"operation {running.id} ({running.kind}) is under way", operation=running.id)


async def advance(
    session: AsyncSession, operation_id: str, step: OperationStep, *, at: datetime, launch_id: str | None = None
) -> None:
    """Note what a running operation does now; what stood in its way before is forgotten."""
    values: dict[str, object] = {"step": step, "problem": None}
    if launch_id is not None:
        values["launch_id"] = launch_id
    before = await session.get_one(Operation, operation_id)
    is_next = before.step is not step
    if await _update_running(session, operation_id, values) and is_next:
        await _tell(session, EventKind.OPERATION_ADVANCED, operation_id, at=at)


async def note_obstacle(session: AsyncSession, operation_id: str, error: VigilError) -> None:
    """Note what stands in the way of a running operation that goes on trying."""
    await _update_running(session, operation_id, {"problem": problem_of(error)})


async def end(
    session: AsyncSession,
    operation_id: str,
    outcome: OperationState,
    *,
    at: datetime,
    problem: Mapping[str, object] | None = None,
) -> None:
    """End an operation that is still running; one that has ended stays as it is."""
    has_ended = await _update_running(
        session,
        operation_id,
        {"state": outcome, "step": OperationStep.DONE, "ended_at": at, "problem": dict(problem) if problem else None},
    )
    if has_ended:
        await _tell(session, EventKind.OPERATION_ENDED, operation_id, at=at)


def problem_of(error: VigilError) -> dict[str, object]:
    """Return what an operation keeps of an error."""
    return {"code": error.code, "detail": error.detail, "remedy": error.remedy_text}


async def _update_running(session: AsyncSession, operation_id: str, values: dict[str, object]) -> bool:
    """Change an operation that has not ended; tell whether there was one."""
    result = await session.execute(
        update(Operation)
        .where(col(Operation.id) == operation_id, col(Operation.state) == OperationState.RUNNING)
        .values(**values)
        .returning(col(Operation.id)),
        execution_options={"synchronize_session": "fetch"},
    )
    return result.scalar_one_or_none() is not None


async def _tell(session: AsyncSession, kind: EventKind, operation_id: str, *, at: datetime) -> None:
    operation = await session.get_one(Operation, operation_id)
    server = await session.get_one(Server, operation.server_id)
    events.tell_operation(session, kind, operation, node_id=server.node_id, at=at)
