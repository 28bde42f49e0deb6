"""Events: everything that happens, as it happens."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, status

from service.access.roles import Role
from service.api.access import GuardedRoute, caller_of, needs
from service.api.dependencies import PartsNeeded
from service.api.event_stream import EventStream, follow
from service.api.problems import problems
from service.api.schemas.events import StreamedEvent
from service.db import nodes as node_queries
from service.db import servers as server_queries
from service.errors import InvalidInput, NotFound, TooManyStreams
from service.operations.event_feed import Wanted
from service.servers.event import EventKind

router = APIRouter(tags=["history"], route_class=GuardedRoute)
_MAX_ID = 2**63 - 1
STREAM = (
    "A stream of server-sent events that does not end. Each has its `id`, its kind as `event`, and as `data` one line "
    "of JSON. A comment comes at least every 15 s, with the id up to which there was nothing for this reader."
)


@router.get(
    "/events",
    status_code=status.HTTP_200_OK,
    response_class=EventStream,
    responses={
        200: {"model": StreamedEvent, "description": STREAM},
        **problems(NotFound, InvalidInput, TooManyStreams),
    },
)
@needs(Role.VIEWER)
async def follow_events(
    parts: PartsNeeded,
    request: Request,
    server: Annotated[str | None, Query(description="Only of this server.")] = None,
    node: Annotated[str | None, Query(description="Only of this node and its servers.")] = None,
    kind: Annotated[list[EventKind] | None, Query(description="Only of these kinds; may be repeated.")] = None,
    after: Annotated[
        int | None,
        Query(ge=0, le=_MAX_ID, description="Go on behind this event; 0 begins with the oldest that is kept."),
    ] = None,
    last_event_id: Annotated[
        int | None,
        Header(ge=0, le=_MAX_ID, description="The same as `after`, as browsers send it when they come back; it wins."),
    ] = None,
) -> EventStream:
    """Follow what happens: transitions, phases, verdicts, findings and operations, in order.

    Without an id it begins now. With the id of the last event that was read it goes on behind it, also after a restart
    of the service: nothing is lost and nothing repeated. When what follows is not kept any more, a `gap` says from
    where it goes on.
    """
    async with parts.control.database.read() as session:
        wanted = Wanted(
            kinds=frozenset(kind) if kind else None,
            node_id=(await node_queries.get_node(session, node)).id if node is not None else None,
            server_id=(await server_queries.get_server(session, server)).id if server is not None else None,
        )
    begin = last_event_id if last_event_id is not None else after
    seat = parts.gate.seats.take(caller_of(request), parts.control.now())
    return EventStream(follow(parts.control, wanted, after=begin), seat)
