"""Launches: what one attempt did, and its log."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import PlainTextResponse, Response

from service.access.roles import Role
from service.api.access import GuardedRoute, caller_of, needs
from service.api.dependencies import Id, PageNeeded, Parts, PartsNeeded
from service.api.limits import EVENT_STREAM, HeldStream
from service.api.log_stream import follow
from service.api.problems import problems
from service.api.schemas.acceptance import AcceptanceSamplePublic, sample_public
from service.api.schemas.common import MOST_BYTES, Page
from service.api.schemas.servers import LaunchPublic, launch_public
from service.clock import to_text
from service.db import acceptance as acceptance_queries
from service.db import servers as server_queries
from service.db.tables import Launch, Node, Server
from service.errors import (
    ChannelRefused,
    InvalidInput,
    NodeUnreachable,
    NotFound,
    RemoteCommandFailed,
    RemoteTimeout,
    TooManyStreams,
)

router = APIRouter(prefix="/launches", tags=["launches"], route_class=GuardedRoute)
LOG_ERRORS = (NodeUnreachable, RemoteTimeout, ChannelRefused, RemoteCommandFailed)
MAX_LOG_BYTES = 1_048_576


@router.get("/{launch}", responses=problems(NotFound))
@needs(Role.VIEWER)
async def get_launch(launch: Id, parts: PartsNeeded) -> LaunchPublic:
    """Show a launch: what was executed, its phases with their times, its exit, and what its end left behind."""
    row, server, node = await _load(parts, launch)
    return launch_public(row, parts.control.live, server=server.name, node=node.name)


@router.get("/{launch}/acceptance", responses=problems(NotFound, InvalidInput))
@needs(Role.VIEWER)
async def list_launch_acceptance(launch: Id, parts: PartsNeeded, page: PageNeeded) -> Page[AcceptanceSamplePublic]:
    """List what speculation did for a launch, newest first: at most a sample a minute, and none while it is idle.

    Of one launch about 2,000 samples are kept: when there are more, the older half is merged in pairs.
    """
    async with parts.control.database.read() as session:
        row = await server_queries.get_launch(session, launch)
        samples = await acceptance_queries.list_samples(session, row.id, page)
    items = [sample_public(sample, row.engine_version) for sample in samples.items]
    return Page(items=items, next_cursor=samples.next_cursor)


@router.get(
    "/{launch}/log",
    response_class=PlainTextResponse,
    responses={
        200: {
            "description": "Bytes of the log, secrets masked by asterisks. `X-Log-Next-Offset` says where to read on. "
            "With `Accept: text/event-stream` the log is followed: each event holds whole lines, its id is the offset "
            "after them.",
            "content": {"text/plain": {"schema": {"type": "string"}}, EVENT_STREAM: {"schema": {"type": "string"}}},
        },
        **problems(NotFound, InvalidInput, TooManyStreams, *LOG_ERRORS),
    },
)
@needs(Role.VIEWER)
async def read_launch_log(
    launch: Id,
    parts: PartsNeeded,
    request: Request,
    offset: Annotated[int | None, Query(ge=0, le=MOST_BYTES, description="Read from this byte on.")] = None,
    tail: Annotated[int | None, Query(ge=1, le=100_000, description="Only the last lines.")] = None,
    contains: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Only lines with this text.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LOG_BYTES, description="At most so many bytes.")] = MAX_LOG_BYTES,
    last_event_id: Annotated[
        int | None,
        Header(
            alias="Last-Event-ID", ge=0, le=MOST_BYTES, description="Follow from here on, where no offset is given."
        ),
    ] = None,
) -> Response:
    """Read the log of a launch from its node, at most 1 MiB at once; the whole log by default, from its beginning.

    What is followed is followed whole: `tail` and `contains` are for a log that is read.
    """
    follows = EVENT_STREAM in request.headers.get("accept", "")
    if offset is not None and tail is not None:
        raise InvalidInput("give offset or tail, not both")
    if follows and (tail is not None or contains is not None):
        raise InvalidInput("tail and contains cannot be followed: read them first, then follow from X-Log-Next-Offset")
    row, _, node = await _load(parts, launch)
    if row.files_removed_at is not None:
        removed = f"the log of launch {row.id} was removed from node {node.name} at {to_text(row.files_removed_at)}"
        raise NotFound(
            removed, remedy="Set VIGIL_KEEP_LAUNCH_FILES_DAYS to keep the logs of later launches for longer."
        )
    remote = await parts.control.node_session(node)
    if follows:
        start = offset if offset is not None else last_event_id
        seat = parts.gate.seats.take(caller_of(request), parts.control.now())
        return HeldStream(follow(parts.control, remote, row, start=start), seat)
    part = await remote.read_log(row.id, offset=offset or 0, tail_lines=tail, contains=contains, limit_bytes=limit)
    headers = {"X-Log-Next-Offset": str(part.next_offset), "X-Log-Size": str(part.size)}
    return Response(part.data, media_type="text/plain; charset=utf-8", headers=headers)


async def _load(parts: Parts, launch: str) -> tuple[Launch, Server, Node]:
    async with parts.control.database.read() as session:
        row = await server_queries.get_launch(session, launch)
        server = await session.get_one(Server, row.server_id)
        node = await session.get_one(Node, row.node_id)
    return row, server, node
