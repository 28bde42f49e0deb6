"""Stopping: SIGTERM, grace, SIGKILL, sweep, and the proof that nothing is left; resumable at every line."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from service.db import history
from service.db.tables import Launch, Node, Operation, Server
from service.errors import IllegalMove, OperationInProgress, VigilError
from service.operations import benchmarking, claims, crashing, diagnoses, journal, launching, transitioning
from service.operations.changes import OPERATIONS_CHANGED
from service.operations.control import Control
from service.profiles.profile import Profile
from service.remote.messages import Leftovers, SignalStep
from service.remote.node import NodeSession
from service.servers.observation import ProcessFact, ProcessState
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import Desired, Move, Reason, State

POLL_S = 0.5
SELF_DESTRUCT_S = 8
"""After a child failed the engine sleeps 5 s and kills its own tree (seen live): a cleanup lets it."""
PROOF_S = 45
"""How long the proof is tried again: a killed process gives its GPU memory back after seconds to tens of seconds."""
_ALIVE = frozenset({ProcessState.PENDING, ProcessState.RUNNING})


async def accept_stop(session: AsyncSession, server: Server, *, at: datetime, actor: str) -> Operation:
    """Accept a stop: the operation that waited for the start is canceled, the server moves to `stopping`.

    Raises IllegalMove for a stopped server, OperationInProgress when it is being stopped already.
    """
    if server.state is State.STOPPED:
        raise IllegalMove(f"server {server.name} is stopped already")
    await _supersede(session, server, at=at)
    server.desired = Desired.STOPPED
    return await _begin_stopping(session, server, OperationKind.STOP, at=at, actor=actor)


async def accept_restart(
    session: AsyncSession, server: Server, node: Node, *, at: datetime, actor: str, preflight: Mapping[str, Any]
) -> Operation:
    """Accept a restart: stop with proof, then a new launch. A stopped server is simply launched.

    `preflight` is the document of the checks of the new launch; they were made before anything is stopped.
    """
    launching.require_launchable(node)
    await _supersede(session, server, at=at)
    if server.state is State.STOPPED:
        operation = await journal.begin(
            session, server, OperationKind.RESTART, OperationStep.STARTING, at=at, actor=actor
        )
        operation.preflight = dict(preflight)
        await launching.create_launch(session, server, node, operation, at=at)
        return operation
    server.desired = Desired.RUNNING
    operation = await _begin_stopping(session, server, OperationKind.RESTART, at=at, actor=actor)
    operation.preflight = dict(preflight)
    return operation


async def stop(control: Control, operation_id: str) -> Operation | None:
    """Carry out the stopping step of a stop, restart or cleanup; a benchmark run on the server is ended first.

    A fault of the way to the node is raised for the caller to try again: nothing is concluded from silence. Returns the
    restart that a policy begins after a crash.
    """
    async with control.database.read() as session:
        operation = await session.get_one(Operation, operation_id)
        server = await session.get_one(Server, operation.server_id)
        launch = await session.get(Launch, operation.launch_id) if operation.launch_id else None
        node = await session.get_one(Node, server.node_id)
    proof: _Proof | None = None
    if launch is not None:
        launching.require_contact(node)
        remote = await control.node_session(node)
        await benchmarking.end_for_stop(control, remote, server.id)
        await _end_process(control, remote, operation, server, launch)
        proof = await _prove(control, remote, launch)
    begun = await _conclude(control, operation, proof)
    control.changes.publish(server.id, node.id, OPERATIONS_CHANGED)
    return begun


async def _supersede(session: AsyncSession, server: Server, *, at: datetime) -> None:
    """End the operation that is under way if a stop may take its place; a stop may not replace a stop."""
    running = await history.find_running_operation(session, server.id)
    if running is None:
        return
    if running.kind is OperationKind.STOP:
        raise OperationInProgress(f"operation {running.id} is stopping server {server.name}", operation=running.id)
    problem = {"code": "superseded", "detail": "a later request took its place", "remedy": "Follow that request."}
    await journal.end(session, running.id, OperationState.CANCELED, at=at, problem=problem)


async def _begin_stopping(
    session: AsyncSession, server: Server, kind: OperationKind, *, at: datetime, actor: str
) -> Operation:
    await session.flush()
    operation = await journal.begin(session, server, kind, OperationStep.STOPPING, at=at, actor=actor)
    if server.state is not State.STOPPING:
        move = Move(State.STOPPING, Reason.STOP_REQUESTED, f"a {kind} was asked for by {actor}")
        await transitioning.record(session, server, move, at=at, actor=actor, operation_id=operation.id)
    return operation


async def _end_process(
    control: Control, remote: NodeSession, operation: Operation, server: Server, launch: Launch
) -> None:
    """End the launch's processes: ask, wait for the grace, kill and sweep.

    The grace counts from the request, so that a restart of the service does not begin it anew. From here on it is
    measured by the clock that nobody sets.
    """
    if operation.kind is OperationKind.CLEANUP:
        deadline = control.monotonic_s() + SELF_DESTRUCT_S
        await _wait_until_gone(control, remote, launch, deadline)
    else:
        grace = Profile.model_validate(launch.recipe).stop_grace_s
        waited_s = (control.now() - server.state_since_at).total_seconds()
        deadline = control.monotonic_s() + min(grace - waited_s, grace)
        signalled = await remote.signal(launch.id, SignalStep.TERM)
        while signalled.process.state is ProcessState.PENDING and control.monotonic_s() < deadline:
            await asyncio.sleep(POLL_S)  # the supervisor is about to start it: what has no pid got no signal
            signalled = await remote.signal(launch.id, SignalStep.TERM)
        if signalled.process.state is ProcessState.RUNNING:
            await _wait_until_gone(control, remote, launch, deadline)
    await remote.signal(launch.id, SignalStep.KILL)


async def _wait_until_gone(control: Control, remote: NodeSession, launch: Launch, deadline: float) -> None:
    while (await _process(remote, launch)).state in _ALIVE and control.monotonic_s() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(POLL_S)


async def _process(remote: NodeSession, launch: Launch) -> ProcessFact:
    found = {item.launch_id: item.process for item in await remote.list_launches(only=[launch.id])}
    return found.get(launch.id, ProcessFact(ProcessState.ABSENT))


async def _prove(control: Control, remote: NodeSession, launch: Launch) -> "_Proof":
    deadline = control.monotonic_s() + PROOF_S
    gpu_uuids = tuple(gpu["uuid"] for gpu in launch.gpus)
    while True:
        leftovers = await remote.verify(launch.id, port=launch.port, gpu_uuids=gpu_uuids)
        if leftovers.is_clear or control.monotonic_s() >= deadline:
            return _Proof(leftovers, await _process(remote, launch))
        await remote.signal(launch.id, SignalStep.KILL)
        await asyncio.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class _Proof:
    """What was left, and what became of the main process."""

    leftovers: Leftovers
    process: ProcessFact


async def _conclude(control: Control, operation: Operation, proof: _Proof | None) -> Operation | None:
    """Record what the proof found; a restart goes on to its new launch in the same transaction."""
    at = control.now()
    leftovers = proof.leftovers if proof else None
    is_clear = leftovers is None or leftovers.is_clear
    async with control.database.write() as session:
        current = await session.get_one(Operation, operation.id)
        if current.state is not OperationState.RUNNING:
            return None
        server = await session.get_one(Server, operation.server_id)
        if operation.launch_id is not None and proof is not None:
            launch = await session.get_one(Launch, operation.launch_id)
            launch.leftovers = as_json(proof.leftovers)
            launch.exit_code = launch.exit_code if launch.exit_code is not None else proof.process.exit_code
            launch.ended_at = launch.ended_at or proof.process.ended_at or at
            await diagnoses.reconcile(
                session, [], subject_id=launch.id, node_id=server.node_id, server_id=server.id, at=at
            )
        if is_clear:
            await claims.release(session, server.id)
        if operation.kind is OperationKind.CLEANUP:
            return await _end_cleanup(session, operation, leftovers, at=at)
        if is_clear:
            await _end_stop(session, operation, server, leftovers, at=at)
        else:
            await _end_incomplete(session, operation, server, leftovers, at=at)
    return None


async def _end_cleanup(
    session: AsyncSession, operation: Operation, leftovers: Leftovers | None, *, at: datetime
) -> Operation | None:
    server = await session.get_one(Server, operation.server_id)
    launch = await session.get_one(Launch, operation.launch_id)
    if leftovers is not None and not leftovers.is_clear:
        problem = _left(leftovers)
        await journal.end(session, operation.id, OperationState.FAILED, at=at, problem=problem)
        crashing.brake_for_leftovers(session, server, launch, str(problem["detail"]), at=at)
        return None
    await journal.end(session, operation.id, OperationState.SUCCEEDED, at=at)
    return await crashing.after_cleanup(session, server, launch, at=at)


async def _end_stop(
    session: AsyncSession, operation: Operation, server: Server, leftovers: Leftovers | None, *, at: datetime
) -> None:
    evidence = as_json(leftovers) if leftovers else {}
    move = Move(
        State.STOPPED, Reason.STOP_VERIFIED, "no process, listener, GPU memory or shared memory is left", evidence
    )
    await transitioning.record(session, server, move, at=at, actor=operation.actor, operation_id=operation.id)
    if operation.kind is OperationKind.STOP:
        await journal.end(session, operation.id, OperationState.SUCCEEDED, at=at)
        return
    node = await session.get_one(Node, server.node_id)
    try:
        launching.require_launchable(node)
        gone = await session.get(Launch, operation.launch_id) if operation.launch_id else None
        await launching.create_launch(session, server, node, operation, at=at, gone=gone)
    except VigilError as error:
        await journal.end(session, operation.id, OperationState.FAILED, at=at, problem=journal.problem_of(error))


async def _end_incomplete(
    session: AsyncSession, operation: Operation, server: Server, leftovers: Leftovers | None, *, at: datetime
) -> None:
    problem = _left(leftovers)
    move = Move(State.FAILED, Reason.STOP_INCOMPLETE, str(problem["detail"]), as_json(leftovers) if leftovers else {})
    await transitioning.record(session, server, move, at=at, actor=operation.actor, operation_id=operation.id)
    await journal.end(session, operation.id, OperationState.FAILED, at=at, problem=problem)


def as_json(leftovers: Leftovers) -> dict[str, object]:
    """Return what is left as plain JSON values."""
    return dict(asdict(leftovers))


def _left(leftovers: Leftovers | None) -> dict[str, object]:
    parts = []
    if leftovers is not None:
        parts += [f"process {item.pid} ({item.command})" for item in leftovers.processes]
        parts += [f"memory of GPU {item.uuid} held by pid {item.pid or 'unknown'}" for item in leftovers.gpu]
        parts += [f"shared memory {name}" for name in leftovers.shm]
        parts += [f"the GPUs could not be asked: {leftovers.gpu_error}"] if leftovers.gpu_error else []
        if leftovers.listener.pid or leftovers.listener.owner != "none":
            parts.append(f"a listener on the port (pid {leftovers.listener.pid or 'unknown'})")
    return {
        "code": "stop_incomplete",
        "detail": "something is left: " + (", ".join(parts) or "it is not known what"),
        "remedy": "End what is named here, then POST /servers/{server}/stop to prove it again.",
    }
