"""Questions about servers, their launches and their claims."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Select, func, or_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer
from sqlmodel import col, select

from service.db.columns import one_of
from service.db.paging import PageRequest, Rows, fetch_page
from service.db.tables import AcceptanceSample, Finding, GpuClaim, Launch, Node, Operation, PortClaim, Profile, Server
from service.errors import NameTaken, NotFound
from service.nodes.contact import Contact
from service.servers.operation import OperationState
from service.servers.states import RUNNING_STATES, State

_ALIVE = col(Server.deleted_at).is_(None)
Query = TypeVar("Query", bound=Select[Any])
LEFT_OUT = ("argv", "environment", "marks", "hang_evidence", "leftovers", "preflight", "log_offset")
"""What a list of servers does not tell of their launches."""
_DEFERRED = [defer(getattr(Launch, name)) for name in LEFT_OUT]


@dataclass(frozen=True, slots=True)
class ServerFilter:
    """What a list of servers may be narrowed to; ids, not names."""

    state: State | None = None
    node_id: str | None = None
    profile_id: str | None = None
    contact: Contact | None = None


@dataclass(frozen=True, slots=True)
class NodeBrief:
    """What a list of servers tells of a node. Its inventory is some kilobytes, and there may be a node per server."""

    id: str
    name: str
    contact: Contact
    contact_since_at: datetime
    contact_detail: str | None


NODE_COLUMNS = tuple(getattr(Node, field.name) for field in fields(NodeBrief))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ServerRow:
    """A server with the rows that a reader wants beside it; of the launch without what only its own page shows.

    It is equal to itself alone.
    """

    server: Server
    node: NodeBrief
    profile: Profile
    launch: Launch | None
    findings: Sequence[Finding] = ()
    operation: Operation | None = None
    acceptance: AcceptanceSample | None = None
    """The newest of the launch."""


async def find_server(session: AsyncSession, name_or_id: str) -> Server | None:
    """Return the server with this name or id, or None."""
    return (await session.execute(named(select(Server), name_or_id))).scalar_one_or_none()


def named(query: Query, name_or_id: str) -> Query:
    """Return a query of servers, narrowed to the one with this name or id."""
    return query.where(_ALIVE, or_(col(Server.id) == name_or_id, col(Server.name) == name_or_id))


async def get_server(session: AsyncSession, name_or_id: str) -> Server:
    """Return the server with this name or id; NotFound if there is none."""
    server = await find_server(session, name_or_id)
    if server is None:
        raise no_server(name_or_id)
    return server


def no_server(name_or_id: str) -> NotFound:
    """Return the error that there is none."""
    return NotFound(f"there is no server {name_or_id!r}")


async def require_free_server_name(session: AsyncSession, name: str) -> None:
    """Raise NameTaken if a server has this name."""
    if await find_server(session, name) is not None:
        raise NameTaken(f"a server named {name!r} exists")


def filtered(query: Query, wanted: ServerFilter) -> Query:
    """Return a query of servers, narrowed to those that are wanted and not deleted."""
    query = query.where(_ALIVE)
    if wanted.state is not None:
        query = query.where(col(Server.state) == wanted.state)
    if wanted.node_id is not None:
        query = query.where(col(Server.node_id) == wanted.node_id)
    if wanted.profile_id is not None:
        query = query.where(col(Server.profile_id) == wanted.profile_id)
    if wanted.contact is not None:
        query = query.join(Node, col(Node.id) == col(Server.node_id)).where(col(Node.contact) == wanted.contact)
    return query


async def with_surroundings(session: AsyncSession, servers: Sequence[Server]) -> list[ServerRow]:
    """Return servers with what a reader wants beside them, in one query whatever their number."""
    return await rows_of(session, [server.id for server in servers])


async def rows_of(session: AsyncSession, server_ids: Sequence[str]) -> list[ServerRow]:
    """Return the servers with these ids, with what a reader wants beside them."""
    entities = (Server, Profile, Launch, Operation, AcceptanceSample, Finding)
    wanted: Select[Any] = joined(select(*entities, *NODE_COLUMNS))  # type: ignore[call-overload]
    query = wanted.where(one_of(col(Server.id), server_ids)).options(*_DEFERRED)
    rows: dict[str, ServerRow] = {}
    for server, profile, launch, operation, sample, finding, *brief in await session.execute(query):
        found = [*(rows[server.id].findings if server.id in rows else ()), *([finding] if finding else ())]
        rows[server.id] = ServerRow(server, NodeBrief(*brief), profile, launch, found, operation, sample)
    return [rows[server_id] for server_id in server_ids]


def joined(query: Query) -> Query:
    """Return a query of servers, joined with all that stands in a ServerRow; a server has a row for each finding."""
    newest = (
        select(func.max(col(AcceptanceSample.id)))
        .where(col(AcceptanceSample.launch_id) == col(Server.launch_id))
        .correlate(Server)
        .scalar_subquery()
    )
    is_running = col(Operation.state) == OperationState.RUNNING
    return (
        query.select_from(Server)
        .join(Node, col(Node.id) == col(Server.node_id))
        .join(Profile, col(Profile.id) == col(Server.profile_id))
        .outerjoin(Launch, col(Launch.id) == col(Server.launch_id))
        .outerjoin(Operation, (col(Operation.server_id) == col(Server.id)) & is_running)
        .outerjoin(Finding, (col(Finding.subject_id) == col(Server.launch_id)) & col(Finding.ended_at).is_(None))
        .outerjoin(AcceptanceSample, col(AcceptanceSample.id) == newest)
        .order_by(col(Server.id).desc(), col(Finding.id))
    )


async def running_servers_of_node(session: AsyncSession, node_id: str) -> list[tuple[Server, Launch]]:
    """Return the servers of a node whose launch may be alive, with that launch."""
    query = (
        select(Server, Launch)
        .join(Launch, col(Launch.id) == col(Server.launch_id))
        .where(_ALIVE, col(Server.node_id) == node_id, col(Server.state).in_(RUNNING_STATES))
    )
    return [(server, launch) for server, launch in (await session.execute(query)).all()]


async def ports_of_node(session: AsyncSession, node_id: str) -> set[int]:
    """Return the ports that servers of a node are placed on, running or not."""
    query = select(col(Server.port)).where(_ALIVE, col(Server.node_id) == node_id)
    return set((await session.execute(query)).scalars())


async def gpu_claims(session: AsyncSession, node_id: str) -> dict[str, str]:
    """Return who holds the GPUs of a node: uuid → name of the server."""
    query = (
        select(col(GpuClaim.gpu_uuid), col(Server.name))
        .join(Server, col(Server.id) == col(GpuClaim.server_id))
        .where(col(GpuClaim.node_id) == node_id)
    )
    return {row[0]: row[1] for row in await session.execute(query)}


async def port_holder(session: AsyncSession, node_id: str, port: int) -> str | None:
    """Return the name of the server that holds a port of a node, or None."""
    query = (
        select(col(Server.name))
        .join(PortClaim, col(PortClaim.server_id) == col(Server.id))
        .where(col(PortClaim.node_id) == node_id, col(PortClaim.port) == port)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def has_claims(session: AsyncSession, server_id: str) -> bool:
    """Tell whether a server still holds its port: its last launch is not proven gone."""
    query = select(col(PortClaim.id)).where(col(PortClaim.server_id) == server_id).limit(1)
    return (await session.execute(query)).scalar_one_or_none() is not None


async def get_launch(session: AsyncSession, launch_id: str) -> Launch:
    """Return a launch by its id; NotFound if there is none."""
    launch = await session.get(Launch, launch_id)
    if launch is None:
        raise NotFound(f"there is no launch {launch_id!r}")
    return launch


async def known_launches(session: AsyncSession, launch_ids: Sequence[str]) -> set[str]:
    """Return which of these ids are launches of this database."""
    return set((await session.execute(select(col(Launch.id)).where(one_of(col(Launch.id), launch_ids)))).scalars())


async def list_launches(session: AsyncSession, server_id: str, request: PageRequest) -> Rows[Launch]:
    """Return a page of a server's launches, newest first."""
    query = select(Launch).where(col(Launch.server_id) == server_id)
    return await fetch_page(session, query, col(Launch.id), request)


async def names_of(session: AsyncSession, server_ids: set[str]) -> dict[str, str]:
    """Return the names of servers by id, of deleted ones too."""
    query = select(Server).where(one_of(col(Server.id), server_ids))
    return {server.id: server.name for server in (await session.execute(query)).scalars()}
