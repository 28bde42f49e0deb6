"""The caller: who the service takes one for, so that a frontend offers what may be done."""

from fastapi import APIRouter, Request

from service.access.roles import Role
from service.api.access import GuardedRoute, caller_of, gate_of, needs
from service.api.schemas.caller import CallerPublic, caller_public

router = APIRouter(prefix="/caller", tags=["access"], route_class=GuardedRoute)


@router.get("")
@needs(Role.VIEWER)
async def get_caller(request: Request) -> CallerPublic:
    """Say who makes this request: the name that stands with what he does, his role, and until when he is let in."""
    return caller_public(caller_of(request), gate_of(request).settings.access)
