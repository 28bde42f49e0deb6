"""After a launch ended by itself: its end is recorded, and a cleanup sweeps what is left and proves it gone."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import history
from service.db.tables import Operation, Server
from service.operations import journal, transitioning
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import Move


async def record_failure(session: AsyncSession, server: Server, move: Move, *, at: datetime, actor: str) -> Operation:
    """Move a server to `failed`, end the operation that waited for it, and begin the cleanup; one transaction.

    The claims are kept until the cleanup has proven that nothing is left.
    """
    waiting = await history.find_running_operation(session, server.id)
    operation_id = waiting.id if waiting else None
    await transitioning.record(session, server, move, at=at, actor=actor, operation_id=operation_id)
    if waiting is not None:
        problem = {"code": move.reason.value, "detail": move.message, "remedy": "Read the launch's log and diagnosis."}
        await journal.end(session, waiting.id, OperationState.FAILED, at=at, problem=problem)
    return await journal.begin(session, server, OperationKind.CLEANUP, OperationStep.STOPPING, at=at, actor="vigil")
