"""Schedules: benchmark runs by the clock."""

from fastapi import APIRouter, Request, status
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import ActorNeeded, IdempotencyKey, PageNeeded, PartsNeeded, Reference
from service.api.idempotency import Answer, carry_out
from service.api.problems import problems
from service.api.schemas.common import Page
from service.api.schemas.schedules import ScheduleCreate, SchedulePublic, ScheduleUpdate, schedule_public
from service.db import benchmark_definitions
from service.db import schedules as queries
from service.db import servers as server_queries
from service.db.benchmark_tables import Schedule
from service.db.tables import Server
from service.errors import IdempotencyKeyReused, InvalidInput, NameTaken, NotFound
from service.ids import new_id
from service.operations.changes import SCHEDULES_CHANGED
from service.operations.scheduling import require_timezone

router = APIRouter(prefix="/schedules", tags=["benchmarks"], route_class=GuardedRoute)


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    response_model=SchedulePublic,
    responses=problems(NotFound, InvalidInput, NameTaken, IdempotencyKeyReused),
)
@needs(Role.OPERATOR)
async def create_schedule(
    body: ScheduleCreate, parts: PartsNeeded, actor: ActorNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Have a server measured by the clock.

    A turn is skipped, and the schedule says why, when the server is not ready, when something else is done to it, and
    when requests are running or queued on it. A turn that passed while Vigil did not run is not made up for.
    """

    async def act(session: AsyncSession) -> Answer:
        await queries.require_free_schedule_name(session, body.name)
        require_timezone(body.timezone)
        server = await server_queries.get_server(session, body.server)
        definition = await benchmark_definitions.get_definition(session, body.benchmark)
        at = parts.control.now()
        row = Schedule(
            id=new_id("sc", at),
            **body.model_dump(include={"name", "cron", "timezone", "repeats", "is_paused"}),
            server_id=server.id,
            benchmark=definition.name,
            actor=actor,
            created_at=at,
        )
        session.add(row)
        await session.flush()
        public = schedule_public(row, server.name)
        location = f"/api/v1/schedules/{row.name}"
        return Answer(status.HTTP_201_CREATED, public, location, changed=[SCHEDULES_CHANGED])

    return await carry_out(parts, request, key, act)


@router.get("", responses=problems(InvalidInput))
@needs(Role.VIEWER)
async def list_schedules(parts: PartsNeeded, page: PageNeeded) -> Page[SchedulePublic]:
    """List the schedules, newest first."""
    async with parts.control.database.read() as session:
        rows = await queries.list_schedules(session, page)
        names = await server_queries.names_of(session, {row.server_id for row in rows.items})
    items = [schedule_public(row, names[row.server_id]) for row in rows.items]
    return Page(items=items, next_cursor=rows.next_cursor)


@router.get("/{schedule}", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def get_schedule(schedule: Reference, parts: PartsNeeded) -> SchedulePublic:
    """Show a schedule: when its turn is next, and what came of the last one."""
    async with parts.control.database.read() as session:
        row = await queries.get_schedule(session, schedule)
        server = await session.get_one(Server, row.server_id)
    return schedule_public(row, server.name)


@router.patch(
    "/{schedule}", response_model=SchedulePublic, responses=problems(NotFound, InvalidInput, IdempotencyKeyReused)
)
@needs(Role.OPERATOR)
async def update_schedule(
    schedule: Reference, body: ScheduleUpdate, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Change when a schedule is due and how often it repeats, pause it, or let it go on."""

    async def act(session: AsyncSession) -> Answer:
        row = await queries.get_schedule(session, schedule)
        if body.timezone is not None:
            require_timezone(body.timezone)
        for name, value in body.model_dump(exclude_none=True).items():
            setattr(row, name, value)
        if row.is_paused or body.cron is not None or body.timezone is not None:
            row.next_at = None
        await session.flush()
        server = await session.get_one(Server, row.server_id)
        return Answer(status.HTTP_200_OK, schedule_public(row, server.name), changed=[SCHEDULES_CHANGED])

    return await carry_out(parts, request, key, act)


@router.delete(
    "/{schedule}",
    status_code=status.HTTP_204_NO_CONTENT,
    responses=problems(NotFound, InvalidInput, IdempotencyKeyReused),
)
@needs(Role.OPERATOR)
async def delete_schedule(
    schedule: Reference, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Remove a schedule; a run that it has begun goes on."""

    async def act(session: AsyncSession) -> Answer:
        row = await queries.get_schedule(session, schedule)
        row.deleted_at, row.next_at = parts.control.now(), None
        return Answer(status.HTTP_204_NO_CONTENT, changed=[SCHEDULES_CHANGED])

    return await carry_out(parts, request, key, act)
