"""Who gets in, and what each role may do."""

import pytest
from fastapi import APIRouter

from service.access.roles import Role
from service.api.access import GuardedRoute, needs, require_guarded


@pytest.mark.parametrize("role", Role)
def test_a_role_covers_itself_and_what_stands_before_it(role: Role) -> None:
    order = [Role.VIEWER, Role.OPERATOR, Role.ADMIN]
    assert [role.covers(needed) for needed in order] == [order.index(needed) <= order.index(role) for needed in order]


def test_a_route_that_declares_no_role_cannot_be_made() -> None:
    router = APIRouter(route_class=GuardedRoute)
    with pytest.raises(TypeError, match="look does not declare the role"):

        @router.get("/look")
        async def look() -> None: ...


def test_a_router_whose_routes_are_not_guarded_is_not_taken() -> None:
    router = APIRouter()

    @router.get("/look")
    @needs(Role.VIEWER)
    async def look() -> None: ...

    with pytest.raises(TypeError, match="not guarded"):
        require_guarded(router)
