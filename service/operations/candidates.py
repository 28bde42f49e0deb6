"""What is to be launched, and where: a server's next launch, or a wish that nothing was written for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import nodes as node_queries
from service.db import profiles as profile_queries
from service.db import servers as server_queries
from service.db.tables import Launch, Node, Server
from service.operations.placing import Wish, gpu_count_of, port_of, profile_version_of
from service.profiles.profile import Profile
from service.remote.checkpoints import ModelWish
from service.servers.states import RUNNING_STATES
from service.sglang.model_files import ALL_TENSORS
from service.sglang.speculative.arguments import draft_source


@dataclass(frozen=True, slots=True)
class Candidate:
    """A launch that is wished for. `replaces` is the launch that will be gone by then, on a restart."""

    node: Node
    profile: Profile
    port: int
    pinned: Sequence[int | str] | None
    gpu_count: int
    claims: Mapping[str, str]
    """Of other servers: uuid of a GPU to the name of its server."""
    port_holder: str | None
    """The other server that has the port."""
    replaces: Launch | None = None


async def of_server(session: AsyncSession, server: Server, *, version: int | None = None) -> Candidate:
    """Return the next launch of a server, as if its present one were gone; by another version of its profile if given.

    NotFound if there is no such version.
    """
    node = await session.get_one(Node, server.node_id)
    number = version or server.profile_version
    profile_version = await profile_queries.get_profile_version(session, server.profile_id, number)
    claims = await server_queries.gpu_claims(session, node.id)
    holder = await server_queries.port_holder(session, node.id, server.port)
    is_there = server.state in RUNNING_STATES and server.launch_id is not None
    return Candidate(
        node=node,
        profile=Profile.model_validate(profile_version.recipe),
        port=server.port,
        pinned=server.pinned_gpus,
        gpu_count=server.gpu_count,
        claims={uuid: name for uuid, name in claims.items() if name != server.name},
        port_holder=holder if holder != server.name else None,
        replaces=await session.get(Launch, server.launch_id) if is_there else None,
    )


async def of_wish(session: AsyncSession, wish: Wish) -> Candidate:
    """Return the launch that a new server would make; NotFound, InvalidInput or PortTaken say what cannot be."""
    node = await node_queries.get_node(session, wish.node)
    _, version = await profile_version_of(session, wish)
    profile = Profile.model_validate(version.recipe)
    port = await port_of(session, wish, node)
    return Candidate(
        node=node,
        profile=profile,
        port=port,
        pinned=wish.gpus,
        gpu_count=gpu_count_of(wish, node, profile),
        claims=await server_queries.gpu_claims(session, node.id),
        port_holder=await server_queries.port_holder(session, node.id, port),
    )


def model_wishes(profile: Profile) -> tuple[ModelWish, ...]:
    """Return what to read of the target, and of a draft that has a directory of its own."""
    revision = profile.server_args.get("revision")
    target = ModelWish(profile.model_path, revision if isinstance(revision, str) else None)
    draft = draft_source(profile.server_args, model_path=profile.model_path)
    if draft is None or draft.is_target:
        return (target,)
    return target, ModelWish(draft.path, draft.revision, ALL_TENSORS)
