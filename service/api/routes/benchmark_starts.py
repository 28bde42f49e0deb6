"""Benchmark runs of Vigil's own: started on a server, and the logs of their clients."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, status
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import ActorNeeded, Id, IdempotencyKey, PartsNeeded
from service.api.idempotency import Answer, carry_out
from service.api.problems import problems
from service.api.routes.launches import LOG_ERRORS, MAX_LOG_BYTES
from service.api.schemas.benchmark_starts import BenchmarkRunAccepted, BenchmarkRunCreate
from service.api.schemas.common import MOST, MOST_BYTES
from service.api.schemas.history import operation_public
from service.db import benchmark_definitions
from service.db import benchmarks as benchmark_queries
from service.db import servers as server_queries
from service.db.benchmark_definitions import Definition
from service.db.benchmark_tables import BenchmarkRun
from service.db.tables import Node, Operation, Server
from service.errors import (
    IdempotencyKeyReused,
    IllegalMove,
    InvalidInput,
    NotFound,
    OperationInProgress,
    RemoteCommandFailed,
)
from service.operations import benchmarking, pairing
from service.operations.changes import OPERATIONS_CHANGED
from service.remote.messages import Refusal

router = APIRouter(prefix="/benchmark-runs", tags=["benchmarks"], route_class=GuardedRoute)


@router.post(
    "",
    status_code=status.HTTP_202_ACCEPTED,
    response_model=BenchmarkRunAccepted,
    responses=problems(NotFound, InvalidInput, IdempotencyKeyReused, IllegalMove, OperationInProgress),
)
@needs(Role.OPERATOR)
async def start_benchmark_run(
    body: BenchmarkRunCreate, parts: PartsNeeded, actor: ActorNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Measure a server that is ready, with its own engine's client, on its node.

    The client is run once for each point of load and repeat. Nothing else is done to the server meanwhile; a stop or
    restart takes the run's place, and `POST /operations/{operation}/cancel` ends it. What was measured is kept.

    With `against` a second server is measured in turns with the first, as a run of its own: both or neither.
    """
    begun: list[Operation] = []

    async def act(session: AsyncSession) -> Answer:
        names = [name for name in (body.server, body.against) if name is not None]
        servers = [await server_queries.get_server(session, name) for name in names]
        definition = await benchmark_definitions.get_definition(session, body.benchmark)
        if len({server.id for server in servers}) < len(servers):
            raise InvalidInput("against: a server cannot be measured in turns with itself")
        accepted = [
            await benchmarking.accept(
                session, server, definition, repeats=body.repeats, at=parts.control.now(), actor=actor
            )
            for server in servers
        ]
        runs = [run for _, run in accepted]
        if len(runs) > 1:
            pairing.link(*runs)
        public = [
            _public(server, definition, operation, run)
            for server, (operation, run) in zip(servers, accepted, strict=True)
        ]
        begun.extend(operation for operation, _ in accepted[1:])
        return Answer(
            status.HTTP_202_ACCEPTED,
            public[0].model_copy(update={"against": public[1] if len(public) > 1 else None}),
            f"/api/v1/benchmark-runs/{runs[0].id}",
            changed=[*(key for server in servers for key in (server.id, server.node_id)), OPERATIONS_CHANGED],
            operation=accepted[0][0],
        )

    answer = await carry_out(parts, request, key, act)
    for operation in begun:
        parts.runner.submit(operation)
    return answer


@router.get(
    "/{run}/log",
    response_class=PlainTextResponse,
    responses={
        200: {
            "description": "Bytes of a client's log, secrets masked by asterisks. `X-Log-Next-Offset` says where to "
            "read on, `X-Benchmark-Client` which client's it is.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problems(NotFound, InvalidInput, *LOG_ERRORS),
    },
)
@needs(Role.VIEWER)
async def read_benchmark_run_log(
    run: Id,
    parts: PartsNeeded,
    point: Annotated[int | None, Query(ge=0, le=MOST, description="The point of load, by its index.")] = None,
    repeat: Annotated[int | None, Query(ge=0, le=MOST, description="The repeat, by its index.")] = None,
    offset: Annotated[int | None, Query(ge=0, le=MOST_BYTES, description="Read from this byte on.")] = None,
    tail: Annotated[int | None, Query(ge=1, le=100_000, description="Only the last lines.")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LOG_BYTES, description="At most so many bytes.")] = MAX_LOG_BYTES,
) -> Response:
    """Read the log of one of a run's clients from the node; by default of the one that runs, else of the last."""
    if offset is not None and tail is not None:
        raise InvalidInput("give offset or tail, not both")
    if (point is None) != (repeat is None):
        raise InvalidInput("give both point and repeat, or neither")
    async with parts.control.database.read() as session:
        row = await benchmark_queries.get_run(session, run)
        client_id = await benchmarking.client_of(session, row, point_index=point, repeat_index=repeat)
        node = await session.get_one(Node, row.node_id)
    remote = await parts.control.node_session(node)
    try:
        part = await remote.read_log(client_id, offset=offset or 0, tail_lines=tail, limit_bytes=limit)
    except RemoteCommandFailed as error:
        if error.context.get("refusal") is Refusal.LAUNCH_ABSENT:
            raise NotFound(
                f"node {node.name} has no log of client {client_id}: it has not begun, or was removed"
            ) from error
        raise
    headers: Mapping[str, Any] = {
        "X-Log-Next-Offset": str(part.next_offset),
        "X-Log-Size": str(part.size),
        "X-Benchmark-Client": client_id,
    }
    return Response(part.data, media_type="text/plain; charset=utf-8", headers=headers)


def _public(server: Server, definition: Definition, operation: Operation, run: BenchmarkRun) -> BenchmarkRunAccepted:
    return BenchmarkRunAccepted(
        id=run.id,
        server=server.name,
        benchmark=definition.name,
        repeats=run.repeats,
        steps=len(definition.workload.points()) * run.repeats,
        operation=operation_public(operation, server.name),
    )
