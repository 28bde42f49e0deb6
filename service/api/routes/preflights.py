"""Preflights: what a launch would run into, found without launching anything."""

from fastapi import APIRouter

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import PartsNeeded
from service.api.problems import problems
from service.api.schemas.preflights import PreflightCreate, PreflightPublic, preflight_public
from service.db import servers as server_queries
from service.errors import (
    AuthenticationRefused,
    ChannelRefused,
    CredentialUnusable,
    HostKeyChanged,
    HostKeyUntrusted,
    InvalidInput,
    NodeUnreachable,
    NotFound,
    PortTaken,
    RemoteCommandFailed,
    RemoteTimeout,
)
from service.operations import candidates, launching, preflighting
from service.operations.placing import Wish

router = APIRouter(prefix="/preflights", tags=["preflights"], route_class=GuardedRoute)
LOOK_ERRORS = (
    NodeUnreachable,
    RemoteTimeout,
    ChannelRefused,
    RemoteCommandFailed,
    HostKeyUntrusted,
    HostKeyChanged,
    AuthenticationRefused,
    CredentialUnusable,
)


@router.post("", responses=problems(NotFound, InvalidInput, PortTaken, *LOOK_ERRORS))
@needs(Role.OPERATOR)
async def run_preflight(body: PreflightCreate, parts: PartsNeeded) -> PreflightPublic:
    """Check everything that a launch would meet: node, arguments, model and draft; nothing is launched.

    The node's own engine parses and resolves the arguments. Takes seconds; a GPU is never touched. The same checks
    are made before every launch, and before a restart stops anything.
    """
    async with parts.control.database.read() as session:
        if body.server is not None:
            server = await server_queries.get_server(session, body.server)
            candidate = await candidates.of_server(session, server, version=body.version)
        else:
            candidate = await candidates.of_wish(session, _wish(body))
    launching.require_contact(candidate.node)
    return preflight_public(await preflighting.check(parts.control, candidate), candidate)


def _wish(body: PreflightCreate) -> Wish:
    return Wish(
        name="",
        profile=body.profile or "",
        version=body.version,
        node=body.node or "",
        gpus=body.gpus,
        gpu_count=body.gpu_count,
        port=body.port,
    )
