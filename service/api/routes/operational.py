"""Operational endpoints: is the process alive, and does it do its work."""

from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from service.access.roles import Role
from service.api.access import GuardedRoute, needs, needs_no_token
from service.api.dependencies import PartsNeeded
from service.api.metrics.exposition import CONTENT_TYPE
from service.api.metrics.meter import Meter
from service.db import nodes as node_queries
from service.db.nodes import NodeContact
from service.operations.control import Control
from service.operations.lateness import age_s, late_jobs, late_names

router = APIRouter(tags=["operational"], route_class=GuardedRoute)


class Health(BaseModel):
    """The process answers."""

    state: str


class Readiness(BaseModel):
    """Whether the service does its work, and what does not."""

    is_ready: bool
    database: str
    watchers: dict[str, float | None]
    """Node → seconds since the last good turn of its watcher; null before the first. Empty for who has no token."""
    jobs: dict[str, float]
    """Timed job → seconds since it was last done well, or since the service started."""
    late: list[str]
    """What was not done for too long: names of nodes that are not watched, `fleet watch`, names of timed jobs.

    Who has no token is told how many nodes, such as `nodes: 2`, in the place of their names.
    """
    late_upkeep: list[str]
    """Timed jobs that are late, too, but without which the fleet is watched as well: backups, retention."""


@router.get("/healthz")
@needs_no_token
async def get_health() -> Health:
    """Answer while the process lives; nothing else is looked at."""
    return Health(state="ok")


@router.get(
    "/readyz",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Something does not work."}},
)
@needs_no_token
async def get_readiness(parts: PartsNeeded, request: Request) -> JSONResponse:
    """Look at the database and at the age of each watcher's last good turn; 503 names what is late.

    A watcher in contact with its node takes a turn each second; one without tries again and again, or waits for
    somebody to act, which is no lateness. Nodes are named to callers with a token only.
    """
    try:
        async with parts.control.database.read() as session:
            await session.execute(text("SELECT 1"))
            nodes = await node_queries.node_contacts(session)
    except SQLAlchemyError as error:
        readiness = Readiness(
            is_ready=False, database=type(error).__name__, watchers={}, jobs={}, late=[], late_upkeep=[]
        )
    else:
        readiness = _readiness(parts.control, nodes)
    if not await parts.gate.is_admitted(request):
        readiness = _without_names(readiness)
    return JSONResponse(readiness.model_dump(mode="json"), status_code=200 if readiness.is_ready else 503)


def _readiness(control: Control, nodes: Sequence[NodeContact]) -> Readiness:
    now, live = control.now(), control.live
    turns = {node.name: live.node(node.id).turn_at for node in nodes}
    late = late_names(control.settings, live, nodes, now)
    return Readiness(
        is_ready=not late,
        database="ok",
        watchers={name: (now - turn_at).total_seconds() if turn_at else None for name, turn_at in turns.items()},
        jobs={name: age_s(job, now) for name, job in live.jobs.items()},
        late=late,
        late_upkeep=late_jobs(live, now, is_vital=False),
    )


def _without_names(readiness: Readiness) -> Readiness:
    nodes = [name for name in readiness.late if name in readiness.watchers]
    others = [name for name in readiness.late if name not in readiness.watchers]
    late = [*others, *([f"nodes: {len(nodes)}"] if nodes else [])]
    return readiness.model_copy(update={"watchers": {}, "late": late})


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "Prometheus' text format 0.0.4.", "content": {"text/plain": {}}}},
)
@needs(Role.VIEWER)
async def get_metrics(request: Request) -> Response:
    """Tell Prometheus of the fleet as it is now, and what was counted since the service started.

    Labels are names of servers, nodes, profiles and benchmarks; `docs/operations/metrics.md` explains each metric.
    """
    meter = request.app.state.meter
    if not isinstance(meter, Meter):
        raise TypeError("the application was not started")
    return Response(await meter.scrape(), media_type=CONTENT_TYPE)
