"""What is done about a start that is suspected hung: its stacks are kept first, then the profile's policy acts."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy.ext.asyncio import AsyncSession

from service.db import servers as server_queries
from service.db import starts
from service.db.tables import Launch, Node, Operation, Server
from service.errors import Conflict, NodeUnreachable, RemoteError
from service.logs import EventLog
from service.operations import candidates, preflighting, stopping
from service.operations.changes import OPERATIONS_CHANGED
from service.operations.control import Control
from service.operations.transitioning import note
from service.preflights.preflight import Preflight
from service.profiles.profile import Policy, Profile
from service.servers.policies import Answer, Decision, Incident, decide_policy
from service.servers.states import Reason, State

FRESH_S = 10
"""Nothing is done about a hang on facts that are older."""
HUNG = "suspected_hung"
_JSON = TypeAdapter(dict[str, Any])
_events = EventLog("operations")


async def act(control: Control, server: Server, launch: Launch, node: Node) -> Operation | None:
    """Keep the evidence of a hang, then do what the policy says; returns the operation that begins.

    Nothing is done when the start moved meanwhile, or when the same suspicion was answered before the service came
    back. Before a restart the checks of a launch are made; when one fails, what hangs is left as it is. A RemoteError
    says that the node could not be asked, or was not heard in the last seconds: then it is to be tried again.
    """
    profile = Profile.model_validate(launch.recipe)
    if await _is_answered(control, launch):
        return None
    await _keep_evidence(control, launch, node, profile)
    if profile.on_hang is Policy.ALERT:
        return None
    preflight = await _preflight(control, server) if profile.on_hang is Policy.RESTART else None
    if not _is_still_hung(control, launch):
        return None
    at = control.now()
    async with control.database.write() as session:
        row = await server_queries.get_server(session, server.id)
        if row.state is not State.STARTING or row.launch_id != launch.id:
            return None
        incidents = [Incident(at, HUNG)]
        incidents += [_incident(earlier) for earlier in await starts.earlier_launches(session, launch)]
        since = at - timedelta(seconds=profile.restart.window_s)
        restarts = await starts.policy_restarts(session, row.id, since)
        decision = decide_policy(profile.on_hang, profile.restart, incidents, restarts, at)
        note(session, row, Reason.SUSPECTED_HUNG, decision.why, {"policy": decision.answer}, at=at)
        operation = await _carry_out(session, decision, row, node, preflight, at=at)
    control.changes.publish(server.id, node.id, OPERATIONS_CHANGED)
    return operation


def _incident(earlier: Launch) -> Incident:
    """Return what became of an earlier launch: one that was suspected and became ready all the same did not hang."""
    has_hung = earlier.hang_evidence is not None and earlier.ready_at is None
    return Incident(earlier.created_at, HUNG if has_hung else None)


async def _is_answered(control: Control, launch: Launch) -> bool:
    """Tell whether a policy answered since the launch is suspected: an answer may outlive the service that gave it."""
    thought = control.live.thought_of(launch.id)
    if thought is None:
        return False
    async with control.database.read() as session:
        answered_at = await starts.hang_answered_at(session, launch.id)
    return answered_at is not None and answered_at >= datetime.fromisoformat(thought.details["since_at"])


async def _keep_evidence(control: Control, launch: Launch, node: Node, profile: Profile) -> None:
    try:
        remote = await control.node_session(node)
        found = await remote.hang_evidence(launch.id, python=profile.python)
    except RemoteError as error:
        _events.warning("hang_evidence_failed", launch_id=launch.id, code=error.code, detail=error.detail)
        return
    async with control.database.write() as session:
        row = await session.get_one(Launch, launch.id)
        row.hang_evidence = _JSON.dump_python(asdict(found), mode="json")


def _is_still_hung(control: Control, launch: Launch) -> bool:
    """Tell whether it is suspected now; NodeUnreachable when nothing of the last seconds says so."""
    live = control.live.launches.get(launch.id)
    if live is None or live.thought is None or not live.thought.is_hung:
        return False
    if live.observed_at is None or control.now() - live.observed_at > timedelta(seconds=FRESH_S):
        raise NodeUnreachable(f"nothing was heard of launch {launch.id} in the last {FRESH_S} s")
    return True


async def _preflight(control: Control, server: Server) -> Preflight:
    """Return the checks of the launch that would follow."""
    async with control.database.read() as session:
        candidate = await candidates.of_server(session, await server_queries.get_server(session, server.id))
    return await preflighting.check(control, candidate)


async def _carry_out(
    session: AsyncSession, decision: Decision, row: Server, node: Node, preflight: Preflight | None, *, at: datetime
) -> Operation | None:
    try:
        match decision.answer:
            case Answer.RESTART:
                return await _restart(session, row, node, preflight, at=at)
            case Answer.STOP:
                return await stopping.accept_stop(session, row, at=at, actor=starts.POLICY_ACTOR)
            case Answer.ALERT | Answer.BRAKE:
                return None
    except Conflict as error:
        _events.warning("policy_obstructed", server_id=row.id, code=error.code, detail=error.detail)
        note(session, row, Reason.RESTART_BRAKED, error.detail, {"code": error.code}, at=at)
        return None


async def _restart(
    session: AsyncSession, row: Server, node: Node, preflight: Preflight | None, *, at: datetime
) -> Operation | None:
    if preflight is None:
        return None
    overridden = preflighting.overridden_of(await session.get_one(Launch, row.launch_id))
    preflighting.require_passed(preflight, overridden)
    document = preflight.document(overridden)
    return await stopping.accept_restart(session, row, node, at=at, actor=starts.POLICY_ACTOR, preflight=document)
