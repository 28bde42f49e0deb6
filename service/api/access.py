"""The guard before every route: who calls, and whether the role suffices, before a byte of the body is read."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from sqlalchemy.exc import SQLAlchemyError

from service.access.exposure import is_local_authority, is_local_origin
from service.access.roles import ANYBODY, Caller, Role
from service.access.tokens import token_in
from service.api.limits import Seats, with_body
from service.api.problems import with_problems
from service.api.turns import Turns
from service.errors import BodyTooSlow, Forbidden, InvalidInput, TooLarge, Unauthenticated, VigilError
from service.logs import EventLog
from service.operations.token_book import TokenBook
from service.settings import Access, Settings

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
SCHEME = "token"
"""The name of the security scheme in the OpenAPI document."""
READ_EVERY_S = 5.0
"""After so long the service knows of a token that another process revoked in the database."""
EVERYWHERE: tuple[type[VigilError], ...] = (Unauthenticated, Forbidden, VigilError)
"""What every route that needs a role may answer; VigilError itself is an error that nobody thought of."""
_NEEDED = "needed_role"
_BODY = "body_limits"
_READING = frozenset({"GET", "HEAD"})
_events = EventLog("access")


def needs(role: Role) -> Callable[[Endpoint], Endpoint]:
    """Declare which role a route needs; stands below `@router.get(…)` and its like."""

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _NEEDED, role)
        return endpoint

    return declare


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How large the body of a route may be, how long it may take, and what to do about one that is larger."""

    most_bytes: int
    deadline_s: float
    remedy: str


def takes_body(limits: BodyLimits) -> Callable[[Endpoint], Endpoint]:
    """Declare what the body of a route may be where the limits of the settings do not fit."""

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _BODY, limits)
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
        extra = {"security": [] if self.needed_role is None else [{SCHEME: [self.needed_role.value]}]}
        options["openapi_extra"] = {**(options.get("openapi_extra") or {}), **extra}
        options["responses"] = with_problems(options.get("responses") or {}, *self._refusals(options))
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler behind the guard."""
        handle = super().get_route_handler()
        role = self.needed_role
        limits: BodyLimits | None = getattr(self.endpoint, _BODY, None)
        known = {field.alias for field in get_flat_params(self.dependant)}

        async def guarded(request: Request) -> Response:
            if role is None:
                return await handle(request)
            gate = gate_of(request)
            request.state.caller = await gate.admit(request, role)
            _require_writable(request, known)
            if request.method in _READING:
                return await handle(request)
            full = await _with_body(request, limits, gate.settings)
            request.state.caller = await gate.admit(request, role)  # the body may have taken its time
            async with _turn(gate, request):
                response = await handle(full)
            gate.note_change(request, response)
            return response

        return guarded

    def _refusals(self, options: dict[str, Any]) -> tuple[type[VigilError], ...]:
        if self.needed_role is None:
            return ()
        is_reading = set(options.get("methods") or ()) <= _READING
        return (*EVERYWHERE, *(() if is_reading else (TooLarge, BodyTooSlow)))


def _require_writable(request: Request, known: Collection[str]) -> None:
    """Refuse U+0000 in a path or a parameter that the route knows: nothing is named so, and PostgreSQL takes it not."""
    given = [value for name, value in request.query_params.multi_items() if name in known]
    if any("\0" in text for text in (*request.path_params.values(), *given)):
        raise InvalidInput("neither a path nor a query may hold U+0000")


def _turn(gate: "Gate", request: Request) -> AbstractAsyncContextManager[None]:
    """Let a request with an idempotency key wait for one with the same key, whose answer is then its own.

    Otherwise the second would be refused for what the first has just done: its name is taken, its GPUs are held.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return nullcontext()
    return gate.turns.of((caller_of(request).key, request.method, request.url.path, key))


async def _with_body(request: Request, limits: BodyLimits | None, settings: Settings) -> Request:
    if limits is None:
        return await with_body(request, limit_bytes=settings.max_body_bytes, deadline_s=settings.body_deadline_s)
    try:
        return await with_body(request, limit_bytes=limits.most_bytes, deadline_s=limits.deadline_s)
    except TooLarge as error:
        raise TooLarge(error.detail, remedy=limits.remedy) from None


def require_guarded(router: APIRouter) -> APIRouter:
    """Return the router; TypeError if one of its routes is not guarded."""
    for route in router.routes:
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"{route} is not guarded: make its router with route_class=GuardedRoute")
    return router


@dataclass(slots=True)
class Gate:
    """Lets requests in, and knows what goes on in long ones."""

    settings: Settings
    tokens: TokenBook
    seats: Seats = field(init=False)
    turns: Turns = field(init=False, default_factory=Turns)
    _refused: int = 0
    _refused_told_s: float = -1.0

    def __post_init__(self) -> None:
        self.seats = Seats(most=self.settings.max_streams, most_per_caller=self.settings.max_streams_per_token)

    async def admit(self, request: Request, role: Role) -> Caller:
        """Return who calls; Unauthenticated or Forbidden if he may not call a route that needs `role`."""
        try:
            caller = await self._caller(request)
        except Unauthenticated as error:
            self._tell_refused(request, error)
            raise
        if not caller.role.covers(role):
            raise Forbidden(f"this needs the role {role}, and {caller.actor} has {caller.role}", needed_role=role.value)
        return caller

    async def is_admitted(self, request: Request) -> bool:
        """Tell whether somebody calls who may look at the fleet, where a route answers everybody."""
        try:
            await self._caller(request)
        except (Unauthenticated, Forbidden):
            return False
        return True

    def forget(self, key: str) -> None:
        """Let a revoked token in no more, and end its waits and streams."""
        self.tokens.forget(key)
        self.seats.end(key)

    @asynccontextmanager
    async def keeping_up(self) -> AsyncIterator[None]:
        """Follow what other processes do to the tokens in the database, and keep when they were used."""
        await self.tokens.read()
        following = asyncio.create_task(self._follow(), name="tokens")
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await self.tokens.keep_uses(is_end=True)

    def note_change(self, request: Request, response: Response) -> None:
        """Log who changed something."""
        _events.info(
            "request_done",
            actor=caller_of(request).actor,
            method=request.method,
            path=request.url.path,
            status=response.status_code,
        )

    async def _caller(self, request: Request) -> Caller:
        if self.settings.access is Access.OPEN:
            _require_local(request)
            return ANYBODY
        authorization = request.headers.get("authorization")
        if authorization is None:
            raise Unauthenticated("the request has no Authorization header")
        token = token_in(authorization)
        if token is None:
            raise Unauthenticated("the Authorization header is not `Bearer` and a token")
        return await self.tokens.find_caller(token)

    async def _follow(self) -> NoReturn:
        while True:
            await asyncio.sleep(READ_EVERY_S)
            try:
                for key in await self.tokens.read():
                    self.seats.end(key)
                await self.tokens.keep_uses()
            except SQLAlchemyError:
                _events.failure("tokens_not_read")

    def _tell_refused(self, request: Request, error: Unauthenticated) -> None:
        """Log at most one refusal a second: whoever knocks a thousand times shall not fill the log."""
        self._refused += 1
        now_s = time.monotonic()
        if now_s - self._refused_told_s < 1:
            return
        client = request.client.host if request.client else None
        _events.warning("request_refused", why=error.detail, client=client, path=request.url.path, count=self._refused)
        self._refused, self._refused_told_s = 0, now_s


def gate_of(request: Request) -> Gate:
    """Return the gate that the application was started with."""
    gate = request.app.state.gate
    if not isinstance(gate, Gate):
        raise TypeError("the application was not started")
    return gate


def caller_of(request: Request) -> Caller:
    """Return who makes the request, as the guard found."""
    caller = request.state.caller
    if not isinstance(caller, Caller):
        raise TypeError("the request did not come through the guard")
    return caller


def _require_local(request: Request) -> None:
    """Refuse what a page on the web makes a browser on this machine send."""
    origin = request.headers.get("origin")
    if not is_local_authority(request.headers.get("host", "")) or (origin is not None and not is_local_origin(origin)):
        raise Forbidden(
            "access is open, so only this machine is answered: Host and Origin must name it by a loopback address",
            remedy="Call http://127.0.0.1, or set VIGIL_ACCESS=token.",
        )
