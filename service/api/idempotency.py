"""Carries a mutating request out once per idempotency key, and gives the same answer to every repetition."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession

from service.api.access import caller_of
from service.api.dependencies import Parts
from service.db import history
from service.db.tables import IdempotencyRecord, Operation
from service.errors import IdempotencyKeyReused

REPLAYED = "Idempotency-Replayed"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a mutating route answers, and what must happen once it is committed."""

    status: int
    body: BaseModel | None = None
    location: str | None = None
    changed: Sequence[str] = field(default=())
    """Keys to publish."""
    operation: Operation | None = None
    """The operation to carry out."""
    kept: BaseModel | None = None
    """What repetitions get in the place of `body`, where that holds a secret: it is not written down."""


async def carry_out(
    parts: Parts, request: Request, key: str | None, act: Callable[[AsyncSession], Awaitable[Answer]]
) -> JSONResponse:
    """Run `act` in one write transaction together with the record of its answer.

    With a key that was used before, the recorded answer is given and nothing is done; IdempotencyKeyReused if the
    request is not the same. A request that fails leaves no record: it may be tried again with its key.
    """
    scope = _scope(request)
    body_hash = await _hash(request)
    async with parts.control.database.write() as session:
        if key is not None:
            known = await find_answer(session, scope, key, body_hash)
            if known is not None:
                return known
        answer = await act(session)
        document = answer.body.model_dump(mode="json") if answer.body is not None else None
        headers = {"Location": answer.location} if answer.location else {}
        if key is not None:
            kept = IdempotencyRecord(
                scope=scope,
                key=key,
                body_hash=body_hash,
                status=answer.status,
                body=document if answer.kept is None else answer.kept.model_dump(mode="json"),
                headers=headers,
                created_at=parts.control.now(),
            )
            session.add(kept)
    parts.control.changes.publish(*answer.changed)
    if answer.operation is not None:
        parts.runner.submit(answer.operation)
    return _response(answer.status, document, headers)


async def find_replay(parts: Parts, request: Request, key: str | None) -> JSONResponse | None:
    """Return the recorded answer before any work outside the database is done; None for a new request."""
    if key is None:
        return None
    body_hash = await _hash(request)
    async with parts.control.database.read() as session:
        return await find_answer(session, _scope(request), key, body_hash)


async def find_answer(session: AsyncSession, scope: str, key: str, body_hash: str) -> JSONResponse | None:
    """Return the answer recorded under a key, or None."""
    known = await history.find_remembered_answer(session, scope, key)
    if known is None:
        return None
    if known.body_hash != body_hash:
        raise IdempotencyKeyReused("this key was used for another request to the same address")
    return _response(known.status, known.body, {**known.headers, REPLAYED: "true"})


async def _hash(request: Request) -> str:
    """Return what tells two requests to one address apart: the body, and what the query says."""
    return hashlib.sha256(request.url.query.encode() + b"\n" + await request.body()).hexdigest()


def _scope(request: Request) -> str:
    """Return what a key belongs to: one caller and one address."""
    return f"{caller_of(request).key} {request.method} {request.url.path}"


def _response(status: int, document: dict[str, Any] | None, headers: dict[str, str]) -> JSONResponse:
    if document is None:
        return EmptyResponse(None, status_code=status, headers=headers)
    return JSONResponse(document, status_code=status, headers=headers)


class EmptyResponse(JSONResponse):
    """An answer without a body, such as 204."""

    def render(self, _content: object) -> bytes:
        """Return no bytes at all."""
        return b""
