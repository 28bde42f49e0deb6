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
    return operation


async def require_idle(session: AsyncSession, server: Server) -> None:
    """Raise OperationInProgress if a server has an operation that has not ended."""
    running = await history.find_running_operation(session, server.id)
    if running is not None:
        raise OperationInProgress(f"operation {running.id} ({running.kind}) is under way", operation=running.id)


async def advance(
    session: AsyncSession, operation_id: str, step: OperationStep, *, launch_id: str | None = None
) -> None:
    """Note what a running operation does now; what stood in its way before is forgotten."""
    values: dict[str, object] = {"step": step, "problem": None}
    if launch_id is not None:
        values["launch_id"] = launch_id
    await _update_running(session, operation_id, values)


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
    await _update_running(
        session,
        operation_id,
        {"state": outcome, "step": OperationStep.DONE, "ended_at": at, "problem": dict(problem) if problem else None},
    )


def problem_of(error: VigilError) -> dict[str, object]:
    """Return what an operation keeps of an error."""
    return {"code": error.code, "detail": error.detail, "remedy": error.remedy_text}


async def _update_running(session: AsyncSession, operation_id: str, values: dict[str, object]) -> None:
    await session.execute(
        update(Operation)
        .where(col(Operation.id) == operation_id, col(Operation.state) == OperationState.RUNNING)
        .values(**values),
        execution_options={"synchronize_session": "fetch"},
    )
