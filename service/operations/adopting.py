"""Taking over engines that somebody else started: from then on they are watched and can be stopped like any other."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import nodes as node_queries
from service.db import profiles as profile_queries
from service.db import servers as server_queries
from service.db.tables import Launch, Node, Profile, ProfileVersion, Server
from service.errors import InUse, InvalidInput, NotFound
from service.ids import new_id
from service.operations import claims, transitioning
from service.operations.control import Control
from service.operations.inventories import stored_gpus
from service.operations.launching import MODEL_PATH_LENGTH, require_contact
from service.profiles.profile import Profile as Recipe
from service.remote.messages import FoundEngine
from service.remote.node import NodeSession
from service.servers.states import Desired, Move, Reason, State
from service.sglang.command_line import read_command


@dataclass(frozen=True, slots=True)
class Adoption:
    """A running engine, the id of the launch that it becomes, and the recipe that its command line tells."""

    node: Node
    engine: FoundEngine
    port: int
    launch_id: str
    recipe: Recipe
    engine_version: str | None


async def take_over(control: Control, node: Node, pid: int) -> Adoption:
    """Look for the engine on the node and make it a launch there; nothing of it is changed or stopped.

    NotFound if no such engine runs, InUse if it is a launch already, InvalidInput if its command line tells too little.
    A launch that this database does not know, as after a backup was put back, keeps its id and its directory.
    """
    require_contact(node)
    remote = await control.node_session(node)
    engine = next((item for item in await remote.find_engines() if item.pid == pid), None)
    if engine is None:
        raise NotFound(f"no engine with pid {pid} runs on node {node.name}")
    if engine.launch_id is not None and not await _is_forgotten(control, remote, engine.launch_id):
        raise InUse(f"pid {pid} on node {node.name} is launch {engine.launch_id} already")
    if engine.python is None or engine.model_path is None or engine.port is None:
        raise InvalidInput(f"the command line of pid {pid} does not tell its Python, model path and port")
    said = read_command(engine.command)
    if said.is_of_several_nodes:
        raise InvalidInput(f"pid {pid} is a part of a server of several nodes, which is not supported")
    recipe = Recipe(
        python=engine.python,
        model_path=engine.model_path,
        server_args=said.server_args,
        gpu_count=len(engine.gpu_uuids),
    )
    launch_id = engine.launch_id or new_id("ln", control.now())
    version = await remote.engine_version(engine.python)
    if engine.launch_id is None:
        await remote.adopt(launch_id, pid=pid, start_ticks=engine.start_ticks, port=engine.port)
    return Adoption(node, engine, engine.port, launch_id, recipe, version)


async def record(session: AsyncSession, control: Control, adoption: Adoption, *, name: str, actor: str) -> Server:
    """Write the profile, the server and the launch of an adopted engine, claim what it holds, and begin to watch it."""
    await server_queries.require_free_server_name(session, name)
    await node_queries.get_node(session, adoption.node.id)
    at, engine = control.now(), adoption.engine
    profile = await _profile(session, control, adoption, name)
    server = Server(
        id=new_id("sv", at),
        name=name,
        node_id=adoption.node.id,
        profile_id=profile.id,
        profile_version=profile.latest_version,
        port=adoption.port,
        gpu_count=len(engine.gpu_uuids),
        desired=Desired.RUNNING,
        state=State.STOPPED,
        state_since_at=at,
        launch_count=1,
        created_at=at,
    )
    session.add(server)
    await session.flush()
    await claims.take(session, server, engine.gpu_uuids)
    session.add(_launch(adoption, server, profile))
    await session.flush()
    server.launch_id = adoption.launch_id
    await session.flush()
    move = Move(State.STARTING, Reason.ADOPTED, f"pid {engine.pid} of user {engine.user or 'unknown'} was taken over")
    await transitioning.record(session, server, move, at=at, actor=actor)
    return server


async def _is_forgotten(control: Control, remote: NodeSession, launch_id: str) -> bool:
    """Tell whether a launch is not in this database but has its directory in this login's home."""
    async with control.database.read() as session:
        if await server_queries.known_launches(session, [launch_id]):
            return False
    return bool(await remote.list_launches(only=[launch_id]))


async def _profile(session: AsyncSession, control: Control, adoption: Adoption, name: str) -> Profile:
    at = control.now()
    await profile_queries.require_free_profile_name(session, name)
    profile = Profile(id=new_id("pr", at), name=name, latest_version=1, created_at=at)
    session.add(profile)
    await session.flush()
    recipe = adoption.recipe.model_dump(mode="json")
    session.add(ProfileVersion(id=f"{profile.id}_1", profile_id=profile.id, number=1, recipe=recipe, created_at=at))
    return profile


def _launch(adoption: Adoption, server: Server, profile: Profile) -> Launch:
    engine = adoption.engine
    known = {gpu.uuid: gpu for gpu in stored_gpus(adoption.node)}
    gpus = [known[uuid] for uuid in engine.gpu_uuids if uuid in known]
    return Launch(
        id=adoption.launch_id,
        server_id=server.id,
        node_id=adoption.node.id,
        number=1,
        profile_id=profile.id,
        profile_version=1,
        recipe=adoption.recipe.model_dump(mode="json"),
        argv=list(engine.command),
        environment={},
        engine_version=adoption.engine_version,
        port=server.port,
        gpus=[{"uuid": gpu.uuid, "index": gpu.index, "name": gpu.name} for gpu in gpus],
        launcher="adopted",
        pid=engine.pid,
        model_path=adoption.recipe.model_path[:MODEL_PATH_LENGTH],
        gpu_name=gpus[0].name if gpus else None,
        is_adopted=True,
        created_at=server.created_at,
        started_at=engine.started_at,
        timeline=[],
    )
