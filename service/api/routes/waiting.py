"""Waiting for a server: one request that returns when the answer is known."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from service.access.roles import Role
from service.api.access import GuardedRoute, caller_of, needs
from service.api.dependencies import Parts, PartsNeeded, Reference
from service.api.problems import problems
from service.api.schemas.servers import ServerPublic, server_public
from service.db import servers as server_queries
from service.db.servers import ServerRow
from service.errors import InvalidInput, NotFound, TooManyStreams, WaitPointless, WaitTimedOut
from service.profiles.profile import Policy
from service.servers.operation import OperationKind
from service.servers.states import Desired, State

router = APIRouter(prefix="/servers", tags=["servers"], route_class=GuardedRoute)
ABANDONED_AFTER_S = 5
"""A wait whose caller is gone ends after so long, and gives its place to another."""


@router.get("/{server}/wait", responses=problems(NotFound, InvalidInput, WaitPointless, WaitTimedOut, TooManyStreams))
@needs(Role.VIEWER)
async def wait_for_server(
    server: Reference,
    parts: PartsNeeded,
    request: Request,
    until: Annotated[Literal["ready", "stopped"], Query(description="The state to wait for.")] = "ready",
    timeout_s: Annotated[float, Query(ge=0, le=86_400, description="How long to wait at most.")] = 900,
) -> ServerPublic:
    """Wait for a server.

    200 as soon as the state is reached; 409 when waiting is pointless, because it failed or nobody is working towards
    that state; 504 when the time is up. `curl --fail` in a script then does the right thing.
    """
    async with parts.control.database.read() as session:
        server_id = (await server_queries.get_server(session, server)).id
    async with parts.gate.seats.take(caller_of(request), parts.control.now()):
        return await _wait(parts, request, server_id, until, timeout_s=timeout_s)


async def _wait(parts: Parts, request: Request, server_id: str, until: str, *, timeout_s: float) -> ServerPublic:
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        seen = parts.control.changes.count(server_id)
        async with parts.control.database.read() as session:
            server_row = await server_queries.get_server(session, server_id)
            (row,) = await server_queries.with_surroundings(session, [server_row])
        public = server_public(row, parts.control.live, parts.control.now())
        if public.state == until:
            return public
        pointless = None if _will_be_tried_again(row, until) else _why_pointless(public, until)
        if pointless:
            raise WaitPointless(pointless, state=public.state, reason=public.reason, server=_document(public))
        await _next_change(parts, request, server_id, seen, deadline=deadline)
        if asyncio.get_running_loop().time() >= deadline and parts.control.changes.count(server_id) == seen:
            raise _time_is_up(public, timeout_s)


async def _next_change(parts: Parts, request: Request, server_id: str, seen: int, *, deadline: float) -> None:
    """Return when the server has changed or the time is up; WaitTimedOut when nobody waits any more."""
    while (remaining_s := deadline - asyncio.get_running_loop().time()) > 0:
        slice_s = min(remaining_s, ABANDONED_AFTER_S)
        if await parts.control.changes.wait([server_id], after=seen, timeout_s=slice_s):
            return
        if await request.is_disconnected():
            raise WaitTimedOut("nobody waits for the answer any more")


def _time_is_up(public: ServerPublic, timeout_s: float) -> WaitTimedOut:
    phase = public.launch.phase if public.launch else None
    return WaitTimedOut(
        f"after {timeout_s:g} s server {public.name} is {public.state}" + (f", in phase {phase}" if phase else ""),
        state=public.state,
        phase=phase,
        server=_document(public),
    )


def _will_be_tried_again(row: ServerRow, until: str) -> bool:
    """Tell whether a policy is about to restart a server that failed; the cleanup comes first."""
    if until != State.READY or row.server.state is not State.FAILED or row.launch is None or row.operation is None:
        return False
    if row.operation.kind is OperationKind.CLEANUP:
        return bool(row.launch.recipe.get("on_crash") == Policy.RESTART)
    return row.operation.kind is OperationKind.RESTART


def _why_pointless(public: ServerPublic, until: str) -> str | None:
    """Return why a state will not come by itself, or None while somebody works towards it."""
    if public.state is State.FAILED:
        return f"server {public.name} failed: {public.message}"
    if until == State.READY and public.state is State.STOPPED:
        return f"server {public.name} is stopped and nobody has asked for a launch"
    if until == State.READY and public.state is State.STOPPING and public.desired is Desired.STOPPED:
        return f"server {public.name} is being stopped"
    if until == State.STOPPED and public.desired is Desired.RUNNING and public.state is not State.STOPPING:
        return f"server {public.name} is {public.state} and nobody has asked for a stop"
    return None


def _document(public: ServerPublic) -> dict[str, object]:
    return public.model_dump(mode="json")
