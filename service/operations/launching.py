"""Launching: a request is accepted in one transaction, then carried out on the node, step by step, resumably."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import profiles as profile_queries
from service.db import servers as server_queries
from service.db.tables import Launch, Node, Operation, Server
from service.errors import (
    GpusUnavailable,
    IllegalMove,
    LeftoversRemain,
    NodeDraining,
    NodeUnreachable,
    RemoteCommandFailed,
    Transient,
    VigilError,
)
from service.ids import new_id
from service.nodes.contact import Contact
from service.nodes.placement import choose_gpus, without_launch
from service.operations import claims, cleanup, journal, secrets, transitioning
from service.operations.changes import OPERATIONS_CHANGED
from service.operations.control import Control
from service.operations.inventories import stored_gpus
from service.profiles.profile import Profile
from service.remote.messages import CONFIG_PATH, LaunchOrder, Started
from service.remote.node import NodeSession
from service.servers.operation import OperationKind, OperationStep
from service.servers.states import Desired, Move, Reason, State
from service.sglang.arguments import argument_tokens
from service.sglang.checks import CheckCode
from service.sglang.command import EngineCommand, Placement, config_file, engine_command

MODEL_PATH_LENGTH = 500
REACH_NODE_S = 300
"""A launch whose node cannot be reached for this long after it was asked for has failed: nobody wants a server to
start by itself hours later."""


async def require_acceptable(session: AsyncSession, server: Server, node: Node) -> None:
    """Raise what stands against a launch, before anything is looked at on the node.

    IllegalMove, OperationInProgress, LeftoversRemain, PortTaken, NodeDraining, or the cause of lost contact.
    """
    if server.state not in {State.STOPPED, State.FAILED}:
        raise IllegalMove(f"server {server.name} is {server.state}; only a stopped or failed one can be launched")
    await journal.require_idle(session, server)
    if await server_queries.has_claims(session, server.id):
        raise LeftoversRemain(f"the last launch of server {server.name} is not proven gone")
    await claims.require_port(session, server)
    require_launchable(node)


async def accept(
    session: AsyncSession, server: Server, node: Node, *, at: datetime, actor: str, preflight: Mapping[str, Any]
) -> Operation:
    """Accept a launch: claims, launch row, `starting` and the operation, all in the caller's transaction.

    `preflight` is the document of the checks that it has passed, or that were overridden. Raises what
    `require_acceptable` does, or what placement and claims say.
    """
    await require_acceptable(session, server, node)
    operation = await journal.begin(session, server, OperationKind.LAUNCH, OperationStep.STARTING, at=at, actor=actor)
    operation.preflight = dict(preflight)
    await create_launch(session, server, node, operation, at=at)
    return operation


async def create_launch(
    session: AsyncSession, server: Server, node: Node, operation: Operation, *, at: datetime, gone: Launch | None = None
) -> Launch:
    """Place a new launch, claim what it needs, move the server to `starting`.

    `gone` is the launch whose end was proven since the node was last looked at: its GPUs are free again.
    """
    version = await profile_queries.get_profile_version(session, server.profile_id, server.profile_version)
    there = stored_gpus(node)
    gpus = choose_gpus(
        without_launch(there, gone.id, {gpu["uuid"] for gpu in gone.gpus}) if gone else there,
        await server_queries.gpu_claims(session, node.id),
        pinned=server.pinned_gpus,
        count=server.gpu_count,
        despite_trouble=CheckCode.NODE_GPUS in (operation.preflight or {}).get("overridden", ()),
    )
    await claims.take(session, server, [gpu.uuid for gpu in gpus])
    launch = Launch(
        id=new_id("ln", at),
        server_id=server.id,
        node_id=node.id,
        number=server.launch_count + 1,
        profile_id=server.profile_id,
        profile_version=server.profile_version,
        recipe=version.recipe,
        argv=[],
        environment={},
        port=server.port,
        model_path=str(version.recipe["model_path"])[:MODEL_PATH_LENGTH],
        gpu_name=gpus[0].name if gpus else None,
        gpus=[{"uuid": gpu.uuid, "index": gpu.index, "name": gpu.name} for gpu in gpus],
        created_at=at,
        timeline=[],
        preflight=operation.preflight,
    )
    session.add(launch)
    await session.flush()
    server.launch_id = launch.id
    server.launch_count = launch.number
    server.desired = Desired.RUNNING
    await session.flush()
    move = Move(State.STARTING, Reason.LAUNCH_REQUESTED, f"launch {launch.number} was asked for by {operation.actor}")
    await transitioning.record(session, server, move, at=at, actor=operation.actor, operation_id=operation.id)
    await journal.advance(session, operation.id, OperationStep.STARTING, at=at, launch_id=launch.id)
    return launch


def require_launchable(node: Node) -> None:
    """Raise if a node takes no launch now: draining, out of contact, or with a driver in trouble."""
    if node.is_draining:
        raise NodeDraining(f"node {node.name} is draining")
    require_contact(node)
    gpu_error = (node.inventory or {}).get("gpu_error")
    if gpu_error:
        raise GpusUnavailable(f"the GPU driver of node {node.name} is in trouble: {gpu_error}")


def require_contact(node: Node) -> None:
    """Raise NodeUnreachable while a node is out of contact: its watcher, and nobody else, tries to reach it."""
    if node.contact is not Contact.OK:
        raise NodeUnreachable(
            f"node {node.name} is out of contact since {node.contact_since_at.isoformat()}: "
            f"{node.contact_detail or 'it has not answered yet'}",
            cause=node.contact_code,
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is sent to the node, and what of it may be kept."""

    order: LaunchOrder
    command: EngineCommand
    engine_version: str
    cached_share: float | None


async def start(control: Control, operation_id: str) -> Operation | None:
    """Carry out the starting step of a launch or restart: files and supervisor on the node, then watch.

    Repeating it is harmless: the node starts a launch once. A passing fault of the way to the node is raised as
    Transient for the caller to try again, until REACH_NODE_S have gone by; any other error fails the start, and the
    cleanup that follows is returned for the runner.
    """
    async with control.database.read() as session:
        operation = await session.get_one(Operation, operation_id)
        server = await session.get_one(Server, operation.server_id)
        launch = await session.get_one(Launch, operation.launch_id)
        node = await session.get_one(Node, server.node_id)
    try:
        require_contact(node)
        remote = await control.node_session(node)
        profile = Profile.model_validate(launch.recipe)
        engine_version, cached_share = await asyncio.gather(
            remote.engine_version(profile.python), _cached_share(remote, profile)
        )
        if engine_version is None:
            raise RemoteCommandFailed(f"{profile.python} on node {node.name} has no SGLang installed")
        plan = _plan(profile, server, launch, engine_version, cached_share)
        await _note_plan(control, launch, plan)
        started = await remote.stage_and_start(plan.order)
    except Transient as error:
        if control.now() - launch.created_at < timedelta(seconds=REACH_NODE_S):
            raise
        return await _fail(control, server, error)
    except VigilError as error:
        return await _fail(control, server, error)
    await _note_started(control, operation, launch, started)
    return None


async def _cached_share(remote: NodeSession, profile: Profile) -> float | None:
    """Return how much of the model is in the node's page cache; None from a node that cannot say."""
    draft = profile.server_args.get("speculative-draft-model-path")
    paths = [profile.model_path, *([draft] if isinstance(draft, str) else [])]
    try:
        return await remote.cached_share(paths, environment=profile.env)
    except RemoteCommandFailed:
        return None


def _plan(profile: Profile, server: Server, launch: Launch, engine_version: str, cached_share: float | None) -> _Plan:
    placement = Placement(port=launch.port, gpu_uuids=tuple(gpu["uuid"] for gpu in launch.gpus))
    command = engine_command(profile, placement, version=engine_version, config_path=CONFIG_PATH)
    secret_args = secrets.resolve(profile.secret_args)
    secret_env = secrets.resolve(profile.secret_env)
    in_config = {name: secret_args[name] for name in command.secret_config}
    in_argv = [token for name in command.secret_argv for token in argument_tokens(name, secret_args[name])]
    order = LaunchOrder(
        launch_id=launch.id,
        server=server.name,
        port=launch.port,
        argv=(*command.argv, *in_argv),
        created_at=launch.created_at,
        environment={**command.environment, **secret_env},
        config_text=config_file(in_config) if in_config else None,
        secrets=(*secret_args.values(), *secret_env.values()),
    )
    return _Plan(order, command, engine_version, cached_share)


async def _note_plan(control: Control, launch: Launch, plan: _Plan) -> None:
    """Note what is about to be started: if the answer is lost, the launch may have ended before it is asked for again.

    What was in the page cache before the first try is kept: by the next one the engine may have read it.
    """
    async with control.database.write() as session:
        row = await session.get_one(Launch, launch.id)
        row.argv = list(plan.command.argv)
        row.environment = dict(plan.command.environment)
        row.engine_version = plan.engine_version
        row.cached_share = plan.cached_share if row.cached_share is None else row.cached_share


async def _note_started(control: Control, operation: Operation, launch: Launch, started: Started) -> None:
    async with control.database.write() as session:
        row = await session.get_one(Launch, launch.id)
        row.launcher, row.pid = started.launcher, started.pid or row.pid
        row.started_at = row.started_at or control.now()
        await journal.advance(session, operation.id, OperationStep.WATCHING, at=control.now())
    control.changes.publish(launch.server_id, launch.node_id)


async def _fail(control: Control, server: Server, error: VigilError) -> Operation:
    at = control.now()
    move = Move(
        State.FAILED, Reason.START_FAILED, f"it could not be started: {error.detail}", journal.problem_of(error)
    )
    async with control.database.write() as session:
        begun = await cleanup.record_failure(session, server, move, at=at, actor="operation")
    control.changes.publish(server.id, server.node_id, OPERATIONS_CHANGED)
    return begun
