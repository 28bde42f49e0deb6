"""Placing servers: a profile version on a node, with a port and a wish for GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import history
from service.db import nodes as node_queries
from service.db import profiles as profile_queries
from service.db import servers as server_queries
from service.db.tables import Node, ProfileVersion, Server
from service.db.tables import Profile as ProfileRow
from service.errors import IllegalMove, InvalidInput, LeftoversRemain, OperationInProgress, PortTaken
from service.ids import new_id
from service.nodes.placement import NAMED_TWICE, misfit
from service.profiles.profile import Profile
from service.servers.states import Desired, State


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller wants of a new server."""

    name: str
    profile: str
    version: int | None
    node: str
    gpus: Sequence[int | str] | None
    gpu_count: int | None
    port: int | None


async def place(session: AsyncSession, wish: Wish, *, at: datetime) -> Server:
    """Write a new, stopped server. NotFound, NameTaken, InvalidInput or PortTaken say what does not fit."""
    await server_queries.require_free_server_name(session, wish.name)
    node = await node_queries.get_node(session, wish.node)
    profile, version = await profile_version_of(session, wish)
    server = Server(
        id=new_id("sv", at),
        name=wish.name,
        node_id=node.id,
        profile_id=profile.id,
        profile_version=version.number,
        port=await port_of(session, wish, node),
        pinned_gpus=list(wish.gpus) if wish.gpus is not None else None,
        gpu_count=gpu_count_of(wish, node, Profile.model_validate(version.recipe)),
        desired=Desired.STOPPED,
        state=State.STOPPED,
        state_since_at=at,
        created_at=at,
    )
    session.add(server)
    await session.flush()
    return server


async def remove(session: AsyncSession, server: Server, *, at: datetime) -> None:
    """Let a server go; its history stays. Refused while it may run, is being worked on, or has left something."""
    if server.state not in {State.STOPPED, State.FAILED}:
        raise IllegalMove(f"server {server.name} is {server.state}; stop it first")
    running = await history.find_running_operation(session, server.id)
    if running is not None:
        raise OperationInProgress(f"operation {running.id} ({running.kind}) is under way", operation=running.id)
    if await server_queries.has_claims(session, server.id):
        raise LeftoversRemain(f"the last launch of server {server.name} is not proven gone")
    server.deleted_at = at


async def move_to_version(session: AsyncSession, server: Server, version: int | None) -> None:
    """Let the next launch of a server be by this version of its profile; None leaves it. NotFound if there is none."""
    if version is not None:
        found = await profile_queries.get_profile_version(session, server.profile_id, version)
        server.profile_version = found.number


async def profile_version_of(session: AsyncSession, wish: Wish) -> tuple[ProfileRow, ProfileVersion]:
    """Return the profile that is wished for and its version, the newest by default; NotFound without one."""
    profile = await profile_queries.get_profile(session, wish.profile)
    number = wish.version or profile.latest_version
    return profile, await profile_queries.get_profile_version(session, profile.id, number)


async def port_of(session: AsyncSession, wish: Wish, node: Node) -> int:
    """Return the port that is wished for, else the first of the node's that is not given away; PortTaken if none is."""
    if wish.port is not None:
        return wish.port
    given = await server_queries.ports_of_node(session, node.id)
    for port in range(node.first_port, node.last_port + 1):
        if port not in given:
            return port
    raise PortTaken(f"all ports of node {node.name} from {node.first_port} to {node.last_port} are given away")


def gpu_count_of(wish: Wish, node: Node, profile: Profile) -> int:
    """Return how many GPUs each launch gets; what can never fit is refused now."""
    if wish.gpus is not None:
        if len(set(wish.gpus)) != len(wish.gpus):
            raise InvalidInput(NAMED_TWICE)
        if wish.gpu_count is not None and wish.gpu_count != len(wish.gpus):
            raise InvalidInput(f"gpu_count is {wish.gpu_count}, but {len(wish.gpus)} gpus are named")
        count = len(wish.gpus)
    else:
        count = wish.gpu_count if wish.gpu_count is not None else profile.gpu_count
    present = node.inventory["gpus"] if node.inventory is not None else None
    why = misfit(node.name, present, pinned=wish.gpus, count=count) if present is not None else None
    if why is not None:
        raise InvalidInput(why)
    return count
