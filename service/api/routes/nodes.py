"""Nodes: take them in, trust their host keys, look at them, drain them, let them go."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, status
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from service.access.roles import Role
from service.api.access import GuardedRoute, needs
from service.api.dependencies import IdempotencyKey, PageNeeded, Parts, PartsNeeded, Reference
from service.api.idempotency import Answer, carry_out, find_replay
from service.api.problems import problems
from service.api.schemas.common import Page
from service.api.schemas.nodes import NodeCreate, NodePublic, NodeUpdate, TrustRequest, node_public
from service.db import nodes as node_queries
from service.db import servers as server_queries
from service.db.tables import Node
from service.errors import (
    AuthenticationRefused,
    ChannelRefused,
    CredentialUnusable,
    HostKeyChanged,
    HostKeyMismatch,
    HostKeyUntrusted,
    IdempotencyKeyReused,
    InUse,
    InvalidInput,
    NameTaken,
    NodeUnreachable,
    NotFound,
    RemoteCommandFailed,
    RemoteTimeout,
)
from service.nodes.contact import Contact
from service.operations import enrolling, inventories
from service.operations.changes import NODES_CHANGED

router = APIRouter(prefix="/nodes", tags=["nodes"], route_class=GuardedRoute)
WAY_ERRORS = (NodeUnreachable, RemoteTimeout, CredentialUnusable, HostKeyUntrusted, HostKeyChanged)
LOGIN_ERRORS = (*WAY_ERRORS, AuthenticationRefused, ChannelRefused, RemoteCommandFailed)


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    response_model=NodePublic,
    responses=problems(InvalidInput, NameTaken, IdempotencyKeyReused, *LOGIN_ERRORS),
)
@needs(Role.ADMIN)
async def create_node(
    body: NodeCreate, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Take a node in.

    Its host key is fetched and shown in the answer as `offered_host_key`. Vigil logs in only after that fingerprint is
    confirmed with POST /nodes/{node}/trust, or at once with `trust_on_first_use`.
    """
    replay = await find_replay(parts, request, key)
    if replay is not None:
        return replay
    async with parts.control.database.read() as session:
        await node_queries.require_free_node_name(session, body.name)
    node = await enrolling.enroll(parts.control, _enrolment(body), at=parts.control.now())

    async def act(session: AsyncSession) -> Answer:
        await node_queries.require_free_node_name(session, body.name)
        session.add(node)
        await session.flush()
        return await _answer(parts, session, node, status.HTTP_201_CREATED, location=True)

    return await carry_out(parts, request, key, act)


@router.get("", responses=problems(InvalidInput))
@needs(Role.VIEWER)
async def list_nodes(
    parts: PartsNeeded,
    page: PageNeeded,
    contact: Annotated[Contact | None, Query(description="Only nodes with this contact.")] = None,
) -> Page[NodePublic]:
    """List the nodes, newest first."""
    async with parts.control.database.read() as session:
        rows = await node_queries.list_nodes(session, page, contact=contact)
        items = [await _public(parts, session, node) for node in rows.items]
    return Page(items=items, next_cursor=rows.next_cursor)


@router.get("/{node}", responses=problems(NotFound))
@needs(Role.VIEWER)
async def get_node(node: Reference, parts: PartsNeeded) -> NodePublic:
    """Show a node: contact, GPUs with their holders, memory, disks and engine environments."""
    async with parts.control.database.read() as session:
        return await _public(parts, session, await node_queries.get_node(session, node))


@router.patch(
    "/{node}",
    response_model=NodePublic,
    responses=problems(NotFound, InvalidInput, IdempotencyKeyReused, CredentialUnusable),
)
@needs(Role.ADMIN)
async def update_node(
    node: Reference, body: NodeUpdate, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Change how a node is reached; it is tried again at once. A new address keeps the pinned host key."""
    if body.credential is not None:
        enrolling.require_usable(body.credential.model_dump())

    async def act(session: AsyncSession) -> Answer:
        row = await node_queries.get_node(session, node)
        for name, value in body.model_dump(exclude_none=True).items():
            setattr(row, name, value)
        await session.flush()
        return await _answer(parts, session, row, status.HTTP_200_OK)

    return await carry_out(parts, request, key, act)


@router.delete(
    "/{node}", status_code=status.HTTP_204_NO_CONTENT, responses=problems(NotFound, InUse, IdempotencyKeyReused)
)
@needs(Role.ADMIN)
async def delete_node(
    node: Reference, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Let a node go. Refused while servers are placed on it; its history stays."""

    async def act(session: AsyncSession) -> Answer:
        row = await node_queries.get_node(session, node)
        placed = await node_queries.count_servers_of_node(session, row.id)
        if placed:
            raise InUse(f"{placed} servers are placed on node {row.name}")
        row.deleted_at = parts.control.now()
        return Answer(status.HTTP_204_NO_CONTENT, changed=[NODES_CHANGED, row.id])

    return await carry_out(parts, request, key, act)


@router.post(
    "/{node}/trust",
    response_model=NodePublic,
    responses=problems(NotFound, InvalidInput, HostKeyMismatch, IdempotencyKeyReused, *LOGIN_ERRORS),
)
@needs(Role.ADMIN)
async def trust_host_key(
    node: Reference, body: TrustRequest, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Pin the host key that has this fingerprint: the jump host's first, then the node's own, or a changed one."""
    replay = await find_replay(parts, request, key)
    if replay is not None:
        return replay
    async with parts.control.database.read() as session:
        row = await node_queries.get_node(session, node)
    await enrolling.confirm(parts.control, row, body.fingerprint)

    async def act(session: AsyncSession) -> Answer:
        stored = await _keep_keys(session, row)
        return await _answer(parts, session, stored, status.HTTP_200_OK)

    return await carry_out(parts, request, key, act)


@router.post("/{node}/refresh", responses=problems(NotFound, *LOGIN_ERRORS))
@needs(Role.OPERATOR)
async def refresh_node(node: Reference, parts: PartsNeeded) -> NodePublic:
    """Look at a node again now, and try to reach one that is out of contact. A changed host key is offered anew."""
    async with parts.control.database.read() as session:
        row = await node_queries.get_node(session, node)
    try:
        await inventories.refresh(parts.control, row)
    except HostKeyChanged:
        await _offer_changed_key(parts, row)
        raise
    finally:
        parts.control.changes.publish(row.id)
    async with parts.control.database.read() as session:
        return await _public(parts, session, await node_queries.get_node(session, row.id))


@router.post("/{node}/drain", response_model=NodePublic, responses=problems(NotFound, IdempotencyKeyReused))
@needs(Role.OPERATOR)
async def drain_node(node: Reference, parts: PartsNeeded, request: Request, key: IdempotencyKey = None) -> JSONResponse:
    """Take no new launches on a node; what runs goes on."""
    return await _set_draining(node, parts, request, key, is_draining=True)


@router.post("/{node}/undrain", response_model=NodePublic, responses=problems(NotFound, IdempotencyKeyReused))
@needs(Role.OPERATOR)
async def undrain_node(
    node: Reference, parts: PartsNeeded, request: Request, key: IdempotencyKey = None
) -> JSONResponse:
    """Take launches on a node again."""
    return await _set_draining(node, parts, request, key, is_draining=False)


async def _set_draining(
    node: Reference, parts: Parts, request: Request, key: str | None, *, is_draining: bool
) -> JSONResponse:
    async def act(session: AsyncSession) -> Answer:
        row = await node_queries.get_node(session, node)
        row.is_draining = is_draining
        await session.flush()
        return await _answer(parts, session, row, status.HTTP_200_OK)

    return await carry_out(parts, request, key, act)


async def _offer_changed_key(parts: Parts, node: Node) -> None:
    await enrolling.offer_changed_key(parts.control, node)
    async with parts.control.database.write() as session:
        await _keep_keys(session, node)


async def _keep_keys(session: AsyncSession, node: Node) -> Node:
    """Write the keys that enrolling put into `node`, and nothing else of it."""
    stored = await node_queries.get_node(session, node.id)
    stored.host_key = node.host_key
    stored.offered_host_key = node.offered_host_key
    stored.jump = node.jump
    await session.flush()
    return stored


async def _public(parts: Parts, session: AsyncSession, node: Node) -> NodePublic:
    claims = await server_queries.gpu_claims(session, node.id)
    return node_public(node, parts.control.live.node(node.id), claims)


async def _answer(parts: Parts, session: AsyncSession, node: Node, code: int, *, location: bool = False) -> Answer:
    where = f"/api/v1/nodes/{node.name}" if location else None
    return Answer(code, await _public(parts, session, node), where, changed=[NODES_CHANGED, node.id])


def _enrolment(body: NodeCreate) -> enrolling.Enrolment:
    return enrolling.Enrolment(
        name=body.name,
        address=body.address,
        port=body.port,
        user=body.user,
        credential=body.credential.model_dump(),
        jump=body.jump.model_dump() if body.jump else None,
        engines=tuple(body.engines),
        first_port=body.first_port,
        last_port=body.last_port,
        trust_on_first_use=body.trust_on_first_use,
    )
