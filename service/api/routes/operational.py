"""Operational endpoints: is the process alive, and does it do its work."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from service.api.access import GuardedRoute, needs_no_token
from service.api.dependencies import PartsNeeded
from service.db import nodes as node_queries
from service.nodes.contact import Contact

router = APIRouter(tags=["operational"], route_class=GuardedRoute)
TURN_TOO_OLD_S = 30


class Health(BaseModel):
    """The process answers."""

    state: str


class Readiness(BaseModel):
    """Whether the service does its work, and what does not."""

    is_ready: bool
    database: str
    watchers: dict[str, float | None]
    """Node → seconds since the last good turn of its watcher; null before the first."""
    late: list[str]
    """Nodes in contact whose watcher took no turn for too long."""


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
async def get_readiness(parts: PartsNeeded) -> JSONResponse:
    """Look at the database and at the age of each watcher's last good turn; 503 names what is late."""
    try:
        async with parts.control.database.read() as session:
            await session.execute(text("SELECT 1"))
            nodes = await node_queries.all_nodes(session)
    except SQLAlchemyError as error:
        broken = Readiness(is_ready=False, database=type(error).__name__, watchers={}, late=[])
        return JSONResponse(broken.model_dump(mode="json"), status_code=503)
    now = parts.control.now()
    ages = {}
    late = []
    for node in nodes:
        turn_at = parts.control.live.node(node.id).turn_at
        age_s = (now - turn_at).total_seconds() if turn_at else None
        ages[node.name] = age_s
        if node.contact is Contact.OK and age_s is not None and age_s > TURN_TOO_OLD_S:
            late.append(node.name)
    readiness = Readiness(is_ready=not late, database="ok", watchers=ages, late=late)
    return JSONResponse(readiness.model_dump(mode="json"), status_code=503 if late else 200)
