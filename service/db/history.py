"""Questions about transitions, operations and remembered answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db.paging import PageRequest, Rows, fetch_page
from service.db.tables import IdempotencyRecord, Operation, Transition
from service.errors import NotFound
from service.servers.operation import OperationState
from service.servers.states import Reason


@dataclass(frozen=True, slots=True)
class TransitionFilter:
    """What a list of transitions may be narrowed to; ids, not names."""

    subject: str | None = None
    server_id: str | None = None
    node_id: str | None = None
    launch_id: str | None = None
    reason: Reason | None = None
    since: datetime | None = None


async def list_transitions(session: AsyncSession, request: PageRequest, wanted: TransitionFilter) -> Rows[Transition]:
    """Return a page of transitions, newest first."""
    query = select(Transition)
    for column, value in (
        (col(Transition.subject), wanted.subject),
        (col(Transition.server_id), wanted.server_id),
        (col(Transition.node_id), wanted.node_id),
        (col(Transition.launch_id), wanted.launch_id),
        (col(Transition.reason), wanted.reason),
    ):
        if value is not None:
            query = query.where(column == value)
    if wanted.since is not None:
        query = query.where(col(Transition.at) >= wanted.since)
    return await fetch_page(session, query, col(Transition.id), request)


async def get_operation(session: AsyncSession, operation_id: str) -> Operation:
    """Return an operation by its id; NotFound if there is none."""
    operation = await session.get(Operation, operation_id)
    if operation is None:
        raise NotFound(f"there is no operation {operation_id!r}")
    return operation


async def find_running_operation(session: AsyncSession, server_id: str) -> Operation | None:
    """Return the operation that is under way on a server, or None; there is never more than one."""
    query = select(Operation).where(
        col(Operation.server_id) == server_id, col(Operation.state) == OperationState.RUNNING
    )
    return (await session.execute(query)).scalar_one_or_none()


async def running_operations(session: AsyncSession) -> Sequence[Operation]:
    """Return every operation that has not ended, oldest first."""
    query = select(Operation).where(col(Operation.state) == OperationState.RUNNING).order_by(col(Operation.id))
    return (await session.execute(query)).scalars().all()


async def list_operations(
    session: AsyncSession, request: PageRequest, *, server_id: str | None, state: OperationState | None
) -> Rows[Operation]:
    """Return a page of operations, newest first."""
    query = select(Operation)
    if server_id is not None:
        query = query.where(col(Operation.server_id) == server_id)
    if state is not None:
        query = query.where(col(Operation.state) == state)
    return await fetch_page(session, query, col(Operation.id), request)


async def find_remembered_answer(session: AsyncSession, scope: str, key: str) -> IdempotencyRecord | None:
    """Return the answer that was given under this key, or None."""
    query = select(IdempotencyRecord).where(col(IdempotencyRecord.scope) == scope, col(IdempotencyRecord.key) == key)
    return (await session.execute(query)).scalar_one_or_none()
