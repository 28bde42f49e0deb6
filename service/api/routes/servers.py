"""Servers: place, launch, stop, restart, wait, remove."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, status
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.clearance import clear_launch, clear_restart, clear_wish
from service.api.dependencies import ActorNeeded, IdempotencyKey, PageNeeded, Parts, PartsNeeded, Reference
from service.api.idempotency import Answer, carry_out, find_replay
from service.api.problems import problems
from service.api.schemas.common import Page
from service.api.schemas.history import OperationPublic, operation_public
from service.api.schemas.servers import (
    LaunchPublic,
    LaunchWish,
    ServerAdopt,
    ServerCreate,
    ServerCreated,
    ServerPublic,
    launch_public,
    server_public,
)
from service.api.server_texts import WrittenResponse
from service.db import nodes as node_queries
from service.db import profiles as profile_queries
from service.db import servers as server_queries
from service.db.servers import ServerFilter, ServerRow
from service.db.tables import Node, Operation, Server
from service.errors import (
    ChannelRefused,
    GpusUnavailable,
    GpuTaken,
    IdempotencyKeyReused,
    IllegalMove,
    InUse,
    InvalidInput,
    LeftoversRemain,
    NameTaken,
    NodeDraining,
    NodeUnreachable,
    NotFound,
    OperationInProgress,
    Overtaken,
    PortTaken,
    PreflightFailed,
    RemoteCommandFailed,
    RemoteTimeout,
)
from service.nodes.contact import Contact
from service.operations import adopting, launching, placing, stopping
from service.operations.changes import OPERATIONS_CHANGED
from service.servers.operation import OperationState
from service.servers.states import State

router = APIRouter(prefix="/servers", tags=["servers"], route_class=GuardedRoute)
LOOK_ERRORS = (NodeUnreachable, RemoteTimeout, ChannelRefused, RemoteCommandFailed)
CONFLICTS = (IllegalMove, OperationInProgress, Overtaken)
NO_WISH = LaunchWish()
"""What a launch is wished for with when the body is left out."""
LAUNCH_ERRORS = (
    *CONFLICTS,
    GpuTaken,
    PortTaken,
    GpusUnavailable,
    LeftoversRemain,
    NodeDraining,
    PreflightFailed,
    *LOOK_ERRORS,
)


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    response_model=ServerCreated,
    responses=problems(NotFound, NameTaken, InvalidInput, IdempotencyKeyReused, *LAUNCH_ERRORS),
)
@needs(Role.OPERATOR)
async def create_server(
    body: ServerCreate, parts: PartsNeeded, actor: ActorNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Place a profile on a node, and launch it at once with `launch: true`: then both happen or neither."""
    replay = await find_replay(parts, request, key)
    if replay is not None:
        return replay
    wish = placing.Wish(body.name, body.profile, body.version, body.node, body.gpus, body.gpu_count, body.port)
    preflight = await clear_wish(parts, wish, body.override) if body.launch else None

    async def act(session: AsyncSession) -> Answer:
        at = parts.control.now()
        server = await placing.place(session, wish, at=at)
        operation = None
        if preflight is not None:
            node = await session.get_one(Node, server.node_id)
            operation = await launching.accept(session, server, node, at=at, actor=actor, preflight=preflight)
        public = ServerCreated(
            server=await _public(parts, session, server),
            operation=operation_public(operation, server.name) if operation else None,
        )
        changed = [server.id, server.node_id, OPERATIONS_CHANGED]
        where = f"/api/v1/servers/{server.name}"
        return Answer(status.HTTP_201_CREATED, public, where, changed=changed, operation=operation)

    return await carry_out(parts, request, key, act)


@router.post(
    "/adopt",
    status_code=status.HTTP_201_CREATED,
    response_model=ServerPublic,
    responses=problems(
        NotFound, NameTaken, InUse, InvalidInput, IdempotencyKeyReused, GpuTaken, PortTaken, *LOOK_ERRORS
    ),
)
@needs(Role.OPERATOR)
async def adopt_server(
    body: ServerAdopt, parts: PartsNeeded, actor: ActorNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Take over an engine that runs on a node and that Vigil did not launch.

    It goes on undisturbed, is watched from now on, and can be stopped. A profile of the same name is made from its
    command line; secrets of that are not kept, so add them to the profile before it is launched again.
    """
    replay = await find_replay(parts, request, key)
    if replay is not None:
        return replay
    async with parts.control.database.read() as session:
        await server_queries.require_free_server_name(session, body.name)
        await profile_queries.require_free_profile_name(session, body.name)
        node = await node_queries.get_node(session, body.node)
    adoption = await adopting.take_over(parts.control, node, body.pid)

    async def act(session: AsyncSession) -> Answer:
        server = await adopting.record(session, parts.control, adoption, name=body.name, actor=actor)
        where = f"/api/v1/servers/{server.name}"
        changed = [server.id, server.node_id]
        return Answer(status.HTTP_201_CREATED, await _public(parts, session, server), where, changed=changed)

    return await carry_out(parts, request, key, act)


@router.get("", response_model=Page[ServerPublic], responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def list_servers(
    parts: PartsNeeded,
    page: PageNeeded,
    state: Annotated[State | None, Query(description="Only servers in this state.")] = None,
    node: Annotated[str | None, Query(description="Only servers on this node.")] = None,
    profile: Annotated[str | None, Query(description="Only servers of this profile.")] = None,
    contact: Annotated[Contact | None, Query(description="Only servers whose node has this contact.")] = None,
) -> JSONResponse:
    """List the servers, newest first."""
    async with parts.control.database.read() as session:
        wanted = ServerFilter(
            state=state,
            node_id=(await node_queries.get_node(session, node)).id if node is not None else None,
            profile_id=(await profile_queries.get_profile(session, profile)).id if profile is not None else None,
            contact=contact,
        )
        rows = await parts.recorded_servers.page(session, page, wanted)
    return WrittenResponse(parts.server_texts.page(rows, parts.control.live, parts.control.now()))


@router.get("/{server}", response_model=ServerPublic, responses=problems(NotFound))
@needs(Role.VIEWER)
async def get_server(server: Reference, parts: PartsNeeded) -> JSONResponse:
    """Show a server: its state with the reason, its current launch, and how old the facts are."""
    async with parts.control.database.read() as session:
        row = await parts.recorded_servers.one(session, server)
    return WrittenResponse(parts.server_texts.one(row, parts.control.live, parts.control.now()))


@router.delete(
    "/{server}",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=problems(NotFound, IllegalMove, OperationInProgress, LeftoversRemain, IdempotencyKeyReused),
)
@needs(Role.OPERATOR)
async def delete_server(
    server: Reference, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Remove a server that is stopped, or failed with nothing left; its launches and transitions stay."""

    async def act(session: AsyncSession) -> Answer:
        row = await server_queries.get_server(session, server)
        await placing.remove(session, row, at=parts.control.now())
        return Answer(status.HTTP_204_NO_CONTENT, changed=[row.id, row.node_id])

    return await carry_out(parts, request, key, act)


@router.post(
    "/{server}/launch",
    status_code=status.HTTP_202_ACCEPTED,
    response_model=OperationPublic,
    responses=problems(NotFound, IdempotencyKeyReused, *LAUNCH_ERRORS),
)
@needs(Role.OPERATOR)
async def launch_server(
    server: Reference,
    parts: PartsNeeded,
    actor: ActorNeeded,
    request: Request,
    body: LaunchWish = NO_WISH,
    key: IdempotencyKey = None,
) -> JSONResponse:
    """Launch a stopped or failed server. The operation succeeds when it is ready, and fails when the start does.

    Before it is accepted the checks of a preflight are made, which takes seconds; one that fails refuses the launch.
    """
    replay = await find_replay(parts, request, key)
    if replay is not None:
        return replay
    preflight = await clear_launch(parts, server, body)

    async def act(session: AsyncSession) -> Answer:
        row = await server_queries.get_server(session, server)
        await placing.move_to_version(session, row, body.version)
        node = await session.get_one(Node, row.node_id)
        at = parts.control.now()
        return _accepted(row, await launching.accept(session, row, node, at=at, actor=actor, preflight=preflight))

    return await carry_out(parts, request, key, act)


@router.post(
    "/{server}/stop",
    status_code=status.HTTP_202_ACCEPTED,
    response_model=OperationPublic,
    responses=problems(NotFound, IdempotencyKeyReused, *CONFLICTS),
)
@needs(Role.OPERATOR)
async def stop_server(
    server: Reference, parts: PartsNeeded, actor: ActorNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Stop a server and prove it gone.

    SIGTERM, grace, SIGKILL, sweep; then no process, listener, GPU memory or shared memory is left. For a failed server
    this sweeps and proves again. A launch under way is canceled.
    """

    async def act(session: AsyncSession) -> Answer:
        row = await server_queries.get_server(session, server)
        return _accepted(row, await stopping.accept_stop(session, row, at=parts.control.now(), actor=actor))

    return await carry_out(parts, request, key, act)


@router.post(
    "/{server}/restart",
    status_code=status.HTTP_202_ACCEPTED,
    response_model=OperationPublic,
    responses=problems(NotFound, IdempotencyKeyReused, *LAUNCH_ERRORS),
)
@needs(Role.OPERATOR)
async def restart_server(
    server: Reference,
    parts: PartsNeeded,
    actor: ActorNeeded,
    request: Request,
    body: LaunchWish = NO_WISH,
    key: IdempotencyKey = None,
) -> JSONResponse:
    """Stop a server with proof, then launch it again. A stopped server is launched.

    The checks of a preflight are made first, while it runs on: one that fails leaves it untouched.
    """
    replay = await find_replay(parts, request, key)
    if replay is not None:
        return replay
    preflight = await clear_restart(parts, server, body)

    async def act(session: AsyncSession) -> Answer:
        row = await server_queries.get_server(session, server)
        await placing.move_to_version(session, row, body.version)
        node = await session.get_one(Node, row.node_id)
        at = parts.control.now()
        begun = await stopping.accept_restart(session, row, node, at=at, actor=actor, preflight=preflight)
        return _accepted(row, begun)

    return await carry_out(parts, request, key, act)


@router.get("/{server}/launches", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def list_server_launches(server: Reference, parts: PartsNeeded, page: PageNeeded) -> Page[LaunchPublic]:
    """List the launches of a server, newest first."""
    async with parts.control.database.read() as session:
        row = await server_queries.get_server(session, server)
        node = await session.get_one(Node, row.node_id)
        rows = await server_queries.list_launches(session, row.id, page)
    items = [launch_public(launch, parts.control.live, server=row.name, node=node.name) for launch in rows.items]
    return Page(items=items, next_cursor=rows.next_cursor)


def _accepted(server: Server, operation: Operation) -> Answer:
    return Answer(
        status.HTTP_202_ACCEPTED,
        operation_public(operation, server.name),
        f"/api/v1/operations/{operation.id}",
        changed=[server.id, server.node_id, OPERATIONS_CHANGED],
        operation=operation if operation.state is OperationState.RUNNING else None,
    )


async def _public(parts: Parts, session: AsyncSession, server: Server) -> ServerPublic:
    return server_public(await _row(session, server), parts.control.live, parts.control.now())


async def _row(session: AsyncSession, server: Server) -> ServerRow:
    (row,) = await server_queries.with_surroundings(session, [server])
    return row
