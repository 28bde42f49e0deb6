"""Who gets in, and what each role may do: every route, with every kind of token and with none."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter, FastAPI

from service.access.roles import Role
from service.access.tokens import digest_of
from service.api.access import SCHEME, GuardedRoute, needs, require_guarded
from service.app import create_app
from service.settings import Access, Settings
from tests.api.guarded import ADMIN, Guarded, guarded_app

ROOT = Path(__file__).parents[2]
OPEN_TO_ALL = {"GET /healthz", "GET /readyz"}
UNDOCUMENTED = {"/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"}
"""Routes of the framework, which tell nothing of the fleet."""


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    async with guarded_app(tmp_path) as made:
        yield made


def needed_roles() -> dict[str, Role | None]:
    """Return the role that each route of the OpenAPI document says it needs; None: no token."""
    document = create_app(Settings()).openapi()
    found: dict[str, Role | None] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            security = operation["security"]
            found[f"{method.upper()} {path}"] = Role(security[0][SCHEME][0]) if security else None
    return found


GUARDED = {route: role for route, role in needed_roles().items() if role is not None}


async def call(guarded: Guarded, route: str, token: str | None) -> httpx2.Response:
    """Call a route for things that do not exist, with a body that is none: whoever is let in gets 404 or 422."""
    method, path = route.split(" ", 1)
    path = path.removeprefix("/api/v1").replace("{number}", "1")
    path = re.sub(r"\{(server|node|profile|token|benchmark|baseline)\}", "absent", path)
    path = re.sub(r"\{\w+\}", "xx_0", path)
    body = {"content": b"{", "headers": {"Content-Type": "application/json"}} if method != "GET" else {}
    params = {"server": "absent"} if "/events" in path else {}
    async with asyncio.timeout(10):
        return await guarded.ask(method, path, token, params=params, **body)


def assert_refused(answer: httpx2.Response, route: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), route
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_no_route_lets_in_who_has_no_valid_token(guarded: Guarded) -> None:
    revoked, expired = await guarded.grant_and_revoke(), await guarded.grant_expired()
    for route in GUARDED:
        for token in (None, revoked, expired, "vgl_" + "A" * 43, "nonsense"):
            assert_refused(await call(guarded, route, token), route)


async def test_every_route_lets_in_the_roles_that_cover_its_own_and_no_other(guarded: Guarded) -> None:
    tokens = {role: await guarded.grant(role) for role in Role}
    for route, needed in GUARDED.items():
        for role, token in tokens.items():
            answer = await call(guarded, route, token)
            if role.covers(needed):
                assert answer.status_code not in {401, 403}, (route, role, answer.text)
                assert answer.status_code < 500, (route, role, answer.text)
            else:
                problem = answer.json()
                assert (answer.status_code, problem["code"]) == (403, "forbidden"), (route, role)
                assert problem["context"] == {"needed_role": needed.value}
                assert f"the role {needed}" in problem["detail"]


async def test_what_is_open_to_all_is_written_down(guarded: Guarded) -> None:
    assert {route for route, role in needed_roles().items() if role is None} == OPEN_TO_ALL
    for route in OPEN_TO_ALL:
        answer = await guarded.api.http.get(route.removeprefix("GET "))
        assert answer.status_code == 200
    app = create_app(Settings())
    plain = {getattr(route, "path", None) for route in app.routes} - {None}
    assert plain == UNDOCUMENTED


async def test_nodes_are_named_to_who_has_a_token_only(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    await guarded.api.add_node("atlas")
    monkeypatch.setattr("service.api.routes.operational.late_names", lambda *_: ["fleet watch", "atlas"])
    known = (await guarded.ask("GET", "/readyz", ADMIN)).json()
    unknown = (await guarded.ask("GET", "/readyz")).json()
    assert (list(known["watchers"]), known["late"]) == (["atlas"], ["fleet watch", "atlas"])
    assert (unknown["watchers"], unknown["late"]) == ({}, ["fleet watch", "nodes: 1"])


def test_every_problem_of_the_guard_is_declared() -> None:
    paths = create_app(Settings()).openapi()["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            if f"{method.upper()} {path}" in GUARDED:
                expected = {"401", "403"} if method == "get" else {"401", "403", "408", "413"}
                assert expected <= operation["responses"].keys(), (method, path)


def test_the_page_for_operators_names_the_role_of_every_route() -> None:
    page = (ROOT / "docs" / "access.md").read_text()
    rows = re.findall(r"^\| `([A-Z]+ /\S*)` \| (\w+|—) \|$", page, re.MULTILINE)
    written = {route: None if role == "—" else Role(role) for route, role in rows}
    assert written == {route.replace("/api/v1", ""): role for route, role in needed_roles().items()}


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


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", f"Basic {ADMIN}", ADMIN, f"Bearer {ADMIN} x", f"Bearer {ADMIN}x", "Bearer ä"]
)
async def test_a_header_that_is_no_bearer_token(guarded: Guarded, header: str) -> None:
    answer = await guarded.api.http.get("/api/v1/nodes", headers=[(b"authorization", header.encode("latin-1"))])
    assert_refused(answer, header)
    assert ADMIN not in answer.text


async def test_a_token_in_the_address_is_none(guarded: Guarded) -> None:
    assert_refused(await guarded.ask("GET", "/nodes", params={"token": ADMIN, "access_token": ADMIN}), "query")


async def test_the_scheme_is_read_in_any_case(guarded: Guarded) -> None:
    answer = await guarded.api.http.get("/api/v1/nodes", headers={"Authorization": f"bEARER  {ADMIN} "})
    assert answer.status_code == 200


async def test_digests_are_compared_in_constant_time(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return False

    assert (await guarded.ask("GET", "/nodes", ADMIN)).status_code == 200
    monkeypatch.setattr("service.access.tokens.hmac.compare_digest", compare)
    guarded.api.parts.gate.tokens.forget("nobody")
    with pytest.MonkeyPatch.context() as nothing_in_the_database:
        nothing_in_the_database.setattr("service.operations.token_book.token_queries.find_token_of_digest", _absent)
        assert (await guarded.ask("GET", "/nodes", ADMIN)).status_code == 401, "the comparison alone decides"
    assert compared == [(digest_of(ADMIN), digest_of(ADMIN))]


async def _absent(*_: object) -> None:
    return None


async def test_the_key_of_one_caller_never_answers_another(guarded: Guarded) -> None:
    alice, bob = await guarded.grant(Role.OPERATOR, "alice"), await guarded.grant(Role.OPERATOR, "bob")
    body = {"name": "p", "recipe": {"python": "/opt/python", "model_path": "/models/m", "gpu_count": 0}}
    key = {"Idempotency-Key": "k1"}
    first = await guarded.ask("POST", "/profiles", alice, json=body, headers=key)
    again = await guarded.ask("POST", "/profiles", alice, json=body, headers=key)
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    other = await guarded.ask("POST", "/profiles", bob, json=body, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "name_taken")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "vigil.example.net"},
        {"Host": "127.0.0.1.example.net"},
        {"Origin": "https://example.net"},
        {"Origin": "null"},
        {"Origin": "http://localhost.example.net:8080"},
        {"Origin": "file://localhost"},
    ],
)
async def test_open_access_is_not_for_pages_of_the_web(open_app: httpx2.AsyncClient, headers: dict[str, str]) -> None:
    answer = await open_app.post("/api/v1/servers/absent/stop", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert (await open_app.get("/healthz", headers=headers)).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "[::1]", "127.1.2.3"])
async def test_open_access_is_for_this_machine(open_app: httpx2.AsyncClient, host: str) -> None:
    answer = await open_app.get("/api/v1/nodes", headers={"Host": host, "Origin": f"http://{host}"})
    assert answer.status_code == 200


@pytest.fixture
async def open_app(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    app: FastAPI = create_app(Settings(access=Access.OPEN, state_dir=tmp_path))
    async with app.router.lifespan_context(app):
        transport: Any = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield http
