"""What follows a crash once its remains are cleaned up: the profile's policy, with its pause and its brake."""

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import starts
from service.db.tables import Launch, Node, Operation, Server
from service.errors import Conflict, LeftoversRemain, RemoteError, VigilError
from service.operations import candidates, journal, launching, preflighting
from service.operations.changes import OPERATIONS_CHANGED
from service.operations.control import Control
from service.operations.transitioning import note
from service.preflights.preflight import Preflight
from service.profiles.profile import Policy, Profile
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.policies import Answer, Incident, decide_policy
from service.servers.states import Desired, Reason, State
from service.sglang.checks import CheckCode


async def after_cleanup(session: AsyncSession, server: Server, launch: Launch, *, at: datetime) -> Operation | None:
    """Begin what the policy answers to a crash; returns the restart that waits for its time, or None.

    A start that the node refused is no crash: what is wrong then is the same the next time.
    """
    profile = Profile.model_validate(launch.recipe)
    if not _is_crash(server) or profile.on_crash is Policy.ALERT:
        return None
    failures = await starts.recent_failures(session, server.id)
    incidents = [_incident(item, (item.diagnosis or {}).get("code")) for item in failures]
    since = at - timedelta(seconds=profile.restart.window_s)
    restarts = await starts.policy_restarts(session, server.id, since)
    decision = decide_policy(profile.on_crash, profile.restart, incidents, restarts, at)
    if decision.answer is not Answer.RESTART:
        server.desired = Desired.STOPPED
        note(session, server, Reason.RESTART_BRAKED, decision.why, {"policy": decision.answer}, at=at)
        return None
    operation = await journal.begin(
        session, server, OperationKind.RESTART, OperationStep.PAUSING, at=at, actor=starts.POLICY_ACTOR
    )
    operation.not_before_at = at + timedelta(seconds=decision.delay_s)
    return operation


def brake_for_leftovers(session: AsyncSession, server: Server, launch: Launch, left: str, *, at: datetime) -> None:
    """Tell that no restart follows a crash that left something behind: what is left holds GPUs or the port."""
    if not _is_crash(server) or Profile.model_validate(launch.recipe).on_crash is not Policy.RESTART:
        return
    server.desired = Desired.STOPPED
    note(session, server, Reason.RESTART_BRAKED, left, {"code": LeftoversRemain.code}, at=at)


def _is_crash(server: Server) -> bool:
    return server.state is State.FAILED and server.reason is not Reason.START_FAILED


def _incident(launch: Launch, code: str | None) -> Incident:
    ended_at = launch.ended_at or launch.created_at
    served_s = (ended_at - launch.ready_at).total_seconds() if launch.ready_at else 0.0
    return Incident(ended_at, code, served_s)


async def go_on(control: Control, operation_id: str) -> float:
    """Launch what a pausing restart waited for; returns how many seconds are still to wait, 0 when it went on.

    Before it the checks of a launch are made: what is wrong with the node or the model ends the restart. So does a node
    that was not reached for REACH_NODE_S since it was due; until then the RemoteError is raised, to be tried again.
    """
    at = control.now()
    async with control.database.read() as session:
        operation = await session.get_one(Operation, operation_id)
        if not _is_pausing(operation):
            return 0.0
        if operation.not_before_at is not None and at < operation.not_before_at:
            return (operation.not_before_at - at).total_seconds()
        server = await session.get_one(Server, operation.server_id)
        candidate = await candidates.of_server(session, server)
        launch = await session.get_one(Launch, operation.launch_id)
    try:
        launching.require_launchable(candidate.node)
        preflight = await preflighting.check(control, candidate)
    except (Conflict, RemoteError) as error:
        if isinstance(error, RemoteError) and not _is_too_late(operation, at):
            raise
        async with control.database.write() as session:
            await _brake(session, operation_id, error, at=at)
    else:
        await _launch_again(control, operation_id, preflight, preflighting.overridden_of(launch))
    control.changes.publish(server.id, server.node_id, OPERATIONS_CHANGED)
    return 0.0


async def _launch_again(
    control: Control, operation_id: str, preflight: Preflight, overridden: Collection[CheckCode]
) -> None:
    at = control.now()
    async with control.database.write() as session:
        operation = await session.get_one(Operation, operation_id)
        if not _is_pausing(operation):
            return
        server = await session.get_one(Server, operation.server_id)
        node = await session.get_one(Node, server.node_id)
        operation.preflight = preflight.document(overridden)
        try:
            launching.require_launchable(node)
            preflighting.require_passed(preflight, overridden)
            await launching.create_launch(session, server, node, operation, at=at)
        except VigilError as error:
            await _brake(session, operation_id, error, at=at)


async def _brake(session: AsyncSession, operation_id: str, error: VigilError, *, at: datetime) -> None:
    """End a restart that cannot be made now: nobody wants a server to start by itself hours later."""
    operation = await session.get_one(Operation, operation_id)
    if not _is_pausing(operation):
        return
    server = await session.get_one(Server, operation.server_id)
    server.desired = Desired.STOPPED
    note(session, server, Reason.RESTART_BRAKED, error.detail, {"code": error.code}, at=at)
    await journal.end(session, operation.id, OperationState.FAILED, at=at, problem=journal.problem_of(error))


def _is_too_late(operation: Operation, at: datetime) -> bool:
    """Tell whether the node was not reached for as long as a launch would have tried."""
    due_at = operation.not_before_at or operation.created_at
    return at - due_at >= timedelta(seconds=launching.REACH_NODE_S)


def _is_pausing(operation: Operation) -> bool:
    return operation.state is OperationState.RUNNING and operation.step is OperationStep.PAUSING
