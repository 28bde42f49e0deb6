"""Questions about nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, func, or_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from service.db.paging import PageRequest, Rows, fetch_page
from service.db.tables import Node, ProfileVersion, Server
from service.errors import NameTaken, NotFound
from service.nodes.contact import Contact

_ALIVE = col(Node.deleted_at).is_(None)


@dataclass(frozen=True, slots=True)
class NodeContact:
    """A node without all that a look at it found."""

    id: str
    name: str
    contact: Contact
    contact_since_at: datetime


async def find_node(session: AsyncSession, name_or_id: str) -> Node | None:
    """Return the node with this name or id, or None."""
    named = or_(col(Node.id) == name_or_id, col(Node.name) == name_or_id)
    return (await session.execute(select(Node).where(_ALIVE, named))).scalar_one_or_none()


async def get_node(session: AsyncSession, name_or_id: str) -> Node:
    """Return the node with this name or id; NotFound if there is none."""
    node = await find_node(session, name_or_id)
    if node is None:
        raise NotFound(f"there is no node {name_or_id!r}")
    return node


async def require_free_node_name(session: AsyncSession, name: str) -> None:
    """Raise NameTaken if a node has this name."""
    if await find_node(session, name) is not None:
        raise NameTaken(f"a node named {name!r} exists")


async def list_nodes(session: AsyncSession, request: PageRequest, *, contact: Contact | None = None) -> Rows[Node]:
    """Return a page of nodes, newest first."""
    query = select(Node).where(_ALIVE)
    if contact is not None:
        query = query.where(col(Node.contact) == contact)
    return await fetch_page(session, query, col(Node.id), request)


async def all_nodes(session: AsyncSession) -> Sequence[Node]:
    """Return every node that is not deleted."""
    return (await session.execute(select(Node).where(_ALIVE))).scalars().all()


async def node_contacts(session: AsyncSession) -> list[NodeContact]:
    """Return the contact of every node that is not deleted; their inventories, some kilobytes each, are not read."""
    columns = (col(Node.id), col(Node.name), col(Node.contact), col(Node.contact_since_at))
    return [NodeContact(*row) for row in await session.execute(select(*columns).where(_ALIVE))]


async def count_servers_of_node(session: AsyncSession, node_id: str) -> int:
    """Return how many servers are placed on a node."""
    query = select(func.count()).select_from(Server)
    query = query.where(col(Server.node_id) == node_id, col(Server.deleted_at).is_(None))
    return (await session.execute(query)).scalar_one()


async def pythons_of_node(session: AsyncSession, node_id: str) -> set[str]:
    """Return the engine environments that the servers placed on a node use."""
    query = (
        select(ProfileVersion)
        .join(
            Server,
            and_(
                col(Server.profile_id) == col(ProfileVersion.profile_id),
                col(Server.profile_version) == col(ProfileVersion.number),
            ),
        )
        .where(col(Server.node_id) == node_id, col(Server.deleted_at).is_(None))
    )
    return {version.recipe["python"] for version in (await session.execute(query)).scalars()}
