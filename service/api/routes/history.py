"""Operations and transitions: what was asked for, and what happened."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, status
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import ActorNeeded, Id, IdempotencyKey, PageNeeded, PartsNeeded
from service.api.idempotency import Answer, carry_out
from service.api.problems import problems
from service.api.schemas.common import GivenInstant, Page
from service.api.schemas.history import OperationPublic, TransitionPublic, operation_public, transition_public
from service.api.schemas.judgements import FindingPublic, finding_public
from service.db import findings as finding_queries
from service.db import history
from service.db import nodes as node_queries
from service.db import servers as server_queries
from service.db.history import TransitionFilter
from service.db.tables import Server
from service.errors import IdempotencyKeyReused, IllegalMove, InvalidInput, NotFound, OperationInProgress, Overtaken
from service.operations import benchmarking, stopping
from service.operations.changes import OPERATIONS_CHANGED
from service.servers.operation import OperationKind, OperationState
from service.servers.states import Reason

router = APIRouter(route_class=GuardedRoute)


@router.get("/operations", tags=["operations"], responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def list_operations(
    parts: PartsNeeded,
    page: PageNeeded,
    server: Annotated[str | None, Query(description="Only operations on this server.")] = None,
    state: Annotated[OperationState | None, Query(description="Only operations in this state.")] = None,
) -> Page[OperationPublic]:
    """List the operations, newest first."""
    async with parts.control.database.read() as session:
        server_id = (await server_queries.get_server(session, server)).id if server is not None else None
        rows = await history.list_operations(session, page, server_id=server_id, state=state)
        names = await server_queries.names_of(session, {row.server_id for row in rows.items})
    items = [operation_public(row, names[row.server_id]) for row in rows.items]
    return Page(items=items, next_cursor=rows.next_cursor)


@router.get("/operations/{operation}", tags=["operations"], responses=problems(NotFound))
@needs(Role.VIEWER)
async def get_operation(operation: Id, parts: PartsNeeded) -> OperationPublic:
    """Show an operation: its state, and why it failed or what stands in its way."""
    async with parts.control.database.read() as session:
        row = await history.get_operation(session, operation)
        server = await session.get_one(Server, row.server_id)
    return operation_public(row, server.name)


@router.post(
    "/operations/{operation}/cancel",
    tags=["operations"],
    status_code=status.HTTP_202_ACCEPTED,
    response_model=OperationPublic,
    responses=problems(NotFound, IdempotencyKeyReused, IllegalMove, OperationInProgress, Overtaken),
)
@needs(Role.OPERATOR)
async def cancel_operation(
    operation: Id, parts: PartsNeeded, actor: ActorNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Cancel what is under way.

    A launch or restart: the server is stopped with proof, and the answer is that stop. A benchmark: its client is ended
    on the node, the server goes on, and the answer is the operation itself, which ends once the client has.
    """

    async def act(session: AsyncSession) -> Answer:
        row = await history.get_operation(session, operation)
        if row.state is not OperationState.RUNNING:
            raise IllegalMove(f"operation {row.id} has ended: {row.state}", remedy="There is nothing left to cancel.")
        server = await session.get_one(Server, row.server_id)
        match row.kind:
            case OperationKind.LAUNCH | OperationKind.RESTART:
                follow = await stopping.accept_stop(session, server, at=parts.control.now(), actor=actor)
            case OperationKind.BENCHMARK:
                follow = await benchmarking.accept_cancel(session, row, at=parts.control.now())
            case _:
                raise IllegalMove(
                    f"a {row.kind} cannot be canceled: it would leave the server in between", remedy="Wait for its end."
                )
        return Answer(
            status.HTTP_202_ACCEPTED,
            operation_public(follow, server.name),
            f"/api/v1/operations/{follow.id}",
            changed=[server.id, server.node_id, OPERATIONS_CHANGED],
            operation=follow,
        )

    return await carry_out(parts, request, key, act)


@router.get("/findings", tags=["history"], responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def list_findings(
    parts: PartsNeeded,
    page: PageNeeded,
    server: Annotated[str | None, Query(description="Only of this server.")] = None,
    node: Annotated[str | None, Query(description="Only of this node and its servers.")] = None,
    is_open: Annotated[bool | None, Query(description="Only those that go on, or only those that are over.")] = None,
) -> Page[FindingPublic]:
    """List the findings, newest first: what is or was wrong with serving engines and with GPUs."""
    async with parts.control.database.read() as session:
        rows = await finding_queries.list_findings(
            session,
            page,
            server_id=(await server_queries.get_server(session, server)).id if server is not None else None,
            node_id=(await node_queries.get_node(session, node)).id if node is not None else None,
            is_open=is_open,
        )
    return Page(items=[finding_public(row) for row in rows.items], next_cursor=rows.next_cursor)


@router.get("/transitions", tags=["history"], responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def list_transitions(
    parts: PartsNeeded,
    page: PageNeeded,
    subject: Annotated[
        Literal["server", "node", "verdict", "policy"] | None, Query(description="Only of this kind.")
    ] = None,
    server: Annotated[str | None, Query(description="Only of this server.")] = None,
    node: Annotated[str | None, Query(description="Only of this node and its servers.")] = None,
    launch: Annotated[str | None, Query(description="Only of this launch, by its id.")] = None,
    reason: Annotated[Reason | None, Query(description="Only for this reason.")] = None,
    since: Annotated[GivenInstant | None, Query(description="Only from this instant on.")] = None,
) -> Page[TransitionPublic]:
    """List the transitions, newest first: what changed, why, by whom, on what evidence."""
    async with parts.control.database.read() as session:
        wanted = TransitionFilter(
            subject=subject,
            server_id=(await server_queries.get_server(session, server)).id if server is not None else None,
            node_id=(await node_queries.get_node(session, node)).id if node is not None else None,
            launch_id=(await server_queries.get_launch(session, launch)).id if launch is not None else None,
            reason=reason,
            since=since,
        )
        rows = await history.list_transitions(session, page, wanted)
    return Page(items=[transition_public(row) for row in rows.items], next_cursor=rows.next_cursor)
