"""Benchmark runs: accepted in one transaction, then carried out on the server's node, step by step, resumably."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from service.benchmarks.results import HostProvenance, ResultStatus, ServerProvenance
from service.benchmarks.run_order import MAX_REPEATS, Step, run_order
from service.benchmarks.runs import RunSource, RunState, outcome_of
from service.benchmarks.workload import Workload
from service.clock import to_text
from service.db import benchmarks as benchmark_queries
from service.db.benchmark_definitions import Definition
from service.db.benchmark_tables import BenchmarkResult, BenchmarkRun
from service.db.benchmarks import MeasuredRepeat, NewRun, RunSubject
from service.db.tables import Launch, Node, Operation, Profile, Server
from service.errors import IllegalMove, InvalidInput, NotFound, RemoteCommandFailed, SecretUnavailable
from service.operations import comparing, journal, launching, pairing, provenance
from service.operations.changes import OPERATIONS_CHANGED
from service.operations.control import Control
from service.operations.measuring import Repeat, RepeatFailed, Subject, end_client, measure
from service.profiles.profile import Profile as Recipe
from service.remote.node import NodeSession
from service.servers.operation import OperationKind, OperationState, OperationStep
from service.servers.states import State
from service.sglang.bench_client import ClientProgress


async def accept(
    session: AsyncSession, server: Server, benchmark: Definition, *, repeats: int, at: datetime, actor: str
) -> tuple[Operation, BenchmarkRun]:
    """Accept a run on a server that is ready: the operation and the run, in the caller's transaction.

    Raises IllegalMove when it is not ready, OperationInProgress when something else is done to it, another run, too.
    """
    if not 1 <= repeats <= MAX_REPEATS:
        raise InvalidInput(f"repeats: give 1 to {MAX_REPEATS}")
    if server.state is not State.READY:
        raise IllegalMove(f"server {server.name} is {server.state}; only a ready one can be measured")
    operation = await journal.begin(
        session, server, OperationKind.BENCHMARK, OperationStep.MEASURING, at=at, actor=actor
    )
    launch = await session.get_one(Launch, server.launch_id)
    node = await session.get_one(Node, server.node_id)
    profile = await session.get_one(Profile, launch.profile_id)
    new = NewRun(
        source=RunSource.OWN,
        repeats=repeats,
        actor=actor,
        subject=RunSubject(
            server_id=server.id,
            launch_id=launch.id,
            node_id=node.id,
            profile_id=launch.profile_id,
            profile_version=launch.profile_version,
            model=launch.model_path,
        ),
        definition=benchmark,
        operation_id=operation.id,
        provenance=provenance.provenance_document(server, launch, profile, node),
    )
    return operation, await benchmark_queries.create_run(session, new, at=at)


async def accept_cancel(session: AsyncSession, operation: Operation, *, at: datetime) -> Operation:
    """Accept that a run which is under way is ended; its operation goes on until the client has ended."""
    await journal.advance(session, operation.id, OperationStep.CANCELING, at=at)
    await session.refresh(operation)
    return operation


async def go_on(control: Control, operation_id: str) -> None:
    """Carry out the next step of a run, or end it after the last.

    A fault of the way to the node is raised for the caller to try again: the client goes on meanwhile. What a client
    or the node says against it ends the run.
    """
    work = await _load(control, operation_id)
    if work is None:
        return
    if work.next_step is None:
        await _conclude(control, work, None)
        return
    if not await pairing.is_its_turn(control, work.run, work.next_step):
        return
    launching.require_contact(work.node)
    remote = await control.node_session(work.node)
    try:
        measured = await measure(control, remote, _subject(control, work), work.repeat(), _report(control, work))
    except (RepeatFailed, RemoteCommandFailed, SecretUnavailable) as error:
        await _end_clients(remote, work)  # it may have been started before a fault or a restart
        problem = error.problem if isinstance(error, RepeatFailed) else journal.problem_of(error)
        await _conclude(control, work, problem)
    else:
        await _keep(control, work, measured)


async def cancel(control: Control, operation_id: str) -> None:
    """Carry out a cancel: end the client on the node, then the run. What was measured until then is kept."""
    work = await _load(control, operation_id)
    if work is None:
        return
    launching.require_contact(work.node)
    await _end_clients(await control.node_session(work.node), work)
    at = control.now()
    async with control.database.write() as session:
        await comparing.conclude(session, work.run.id, RunState.CANCELED, at=at)
        await journal.end(session, operation_id, OperationState.CANCELED, at=at)
    _publish(control, work)


async def end_for_stop(control: Control, remote: NodeSession, server_id: str) -> None:
    """End the run whose place a stop, a restart or a cleanup has taken: its client first, then the run itself."""
    async with control.database.read() as session:
        run = await benchmark_queries.running_run_of_server(session, server_id)
        operation = await session.get(Operation, run.operation_id) if run is not None else None
        if run is None or operation is None or operation.state is OperationState.RUNNING:
            return
        work = await _work_of(session, operation, run)
    await _end_clients(remote, work)
    state = RunState.CANCELED if operation.state is OperationState.CANCELED else _outcome(work)
    async with control.database.write() as session:
        await comparing.conclude(session, run.id, state, at=control.now(), problem=operation.problem)
    control.changes.publish(run.id)


async def client_of(
    session: AsyncSession, run: BenchmarkRun, *, point_index: int | None, repeat_index: int | None
) -> str:
    """Return the id of a client of a run: the one asked for, else the one under way, else the last one.

    Raises NotFound for a run that somebody else made, or a step that the run does not have.
    """
    if run.source is not RunSource.OWN:
        raise NotFound(f"run {run.id} was imported: there is no log of it")
    workload = Workload.model_validate(run.workload)
    steps = run_order(workload, run.repeats)
    if point_index is not None and repeat_index is not None:
        found = [step for step in steps if (step.point.index, step.repeat_index) == (point_index, repeat_index)]
        if not found:
            raise NotFound(f"run {run.id} has no repeat {repeat_index} of point {point_index}")
        return Repeat(run.id, workload, found[0]).client_id
    known = {(row.point_index, row.repeat_index) for row in await benchmark_queries.list_results(session, [run.id])}
    missing = (step for step in steps if (step.point.index, step.repeat_index) not in known)
    return Repeat(run.id, workload, next(missing, steps[-1])).client_id


@dataclass(frozen=True, slots=True)
class _Work:
    """A run that is under way, with what it is about and what it has so far."""

    operation: Operation
    run: BenchmarkRun
    server: Server
    node: Node
    launch: Launch
    workload: Workload
    steps: tuple[Step, ...]
    results: Mapping[tuple[int, int], BenchmarkResult]

    @property
    def next_step(self) -> Step | None:
        """Return the first step without a result, None after the last."""
        missing = (step for step in self.steps if (step.point.index, step.repeat_index) not in self.results)
        return next(missing, None)

    def repeat(self) -> Repeat:
        """Return the next step as it is carried out; there must be one."""
        step = self.next_step
        if step is None:
            raise ValueError(f"run {self.run.id} has no step left")
        return Repeat(self.run.id, self.workload, step)


async def _load(control: Control, operation_id: str) -> _Work | None:
    """Return the work of an operation; None when it or its run has ended."""
    async with control.database.read() as session:
        operation = await session.get_one(Operation, operation_id)
        run = await benchmark_queries.find_run_of_operation(session, operation_id)
        if operation.state is not OperationState.RUNNING or run is None or run.state is not RunState.RUNNING:
            return None
        return await _work_of(session, operation, run)


async def _work_of(session: AsyncSession, operation: Operation, run: BenchmarkRun) -> _Work:
    workload = Workload.model_validate(run.workload)
    results = await benchmark_queries.list_results(session, [run.id])
    return _Work(
        operation=operation,
        run=run,
        server=await session.get_one(Server, operation.server_id),
        node=await session.get_one(Node, run.node_id),
        launch=await session.get_one(Launch, run.launch_id),
        workload=workload,
        steps=run_order(workload, run.repeats),
        results={(row.point_index, row.repeat_index): row for row in results},
    )


def _subject(control: Control, work: _Work) -> Subject:
    launch, known = work.launch, work.run.provenance or {}
    gpu_uuids = tuple(gpu["uuid"] for gpu in launch.gpus)
    others = provenance.foreign_processes(control.live.node(work.node.id).gpu_holders, launch.id, gpu_uuids)
    host = HostProvenance.model_validate(known["host"])
    return Subject(
        created_at=work.run.created_at,
        server_name=work.server.name,
        port=launch.port,
        gpu_uuids=gpu_uuids,
        recipe=Recipe.model_validate(launch.recipe),
        server=ServerProvenance.model_validate(known["server"]).model_copy(
            update={"server_uptime_s": _uptime_s(control, launch)}
        ),
        host=host.model_copy(update={"other_gpu_processes": others}),
    )


def _uptime_s(control: Control, launch: Launch) -> float | None:
    return None if launch.ready_at is None else max((control.now() - launch.ready_at).total_seconds(), 0.0)


def _report(control: Control, work: _Work) -> Any:
    """Return what keeps the progress of the step that is carried out."""
    repeat = work.repeat()
    step, begun_at = repeat.step, control.now()

    async def report(progress: ClientProgress) -> None:
        document = {
            "client": repeat.client_id,
            "step": step.position + 1,
            "steps": len(work.steps),
            "point_index": step.point.index,
            "load": step.point.label,
            "repeat_index": step.repeat_index,
            "step_started_at": to_text(begun_at),
            **asdict(progress),
        }
        started_at = work.run.started_at or begun_at
        async with control.database.write() as session:
            await benchmark_queries.update_running_run(session, work.run.id, progress=document, started_at=started_at)
        control.changes.publish(work.run.id)

    return report


async def _keep(control: Control, work: _Work, measured: MeasuredRepeat) -> None:
    """Keep a result unless the run was ended meanwhile."""
    async with control.database.write() as session:
        operation = await session.get_one(Operation, work.operation.id)
        if operation.state is OperationState.RUNNING:
            await benchmark_queries.add_result(session, work.run.id, measured)
            operation.problem = None
    control.changes.publish(work.run.id)


async def _conclude(control: Control, work: _Work, problem: Mapping[str, object] | None) -> None:
    """End a run and its operation together; they end once, whoever else tries."""
    at = control.now()
    state = _outcome(work)
    told = problem or _shortcoming(work, state)
    has_failed = problem is not None or state is RunState.FAILED
    async with control.database.write() as session:
        operation = await session.get_one(Operation, work.operation.id)
        if operation.state is not OperationState.RUNNING:
            return
        await comparing.conclude(session, work.run.id, state, at=at, problem=told)
        outcome = OperationState.FAILED if has_failed else OperationState.SUCCEEDED
        await journal.end(session, operation.id, outcome, at=at, problem=told if has_failed else None)
    _publish(control, work)


def _outcome(work: _Work) -> RunState:
    return outcome_of([row.status for row in work.results.values()], planned=len(work.steps))


def _shortcoming(work: _Work, state: RunState) -> dict[str, object] | None:
    """Return why a run that came to its end is no success: the requests that failed, with what one of them said."""
    if state is RunState.SUCCEEDED:
        return None
    rows = [row for row in work.results.values() if row.status is not ResultStatus.OK]
    totals = [row.result["totals"] for row in rows]
    failed = sum(total["requests_failed"] or 0 for total in totals)
    sent = sum(total["requests_sent"] or 0 for total in totals)
    said = [note for row in rows for note in row.notes if note.startswith("a request failed: ")]
    cause = f": {said[0].removeprefix('a request failed: ')}" if said else ""
    return {
        "code": "requests_failed",
        "detail": f"in {len(rows)} of {len(work.results)} repeats {failed} of {sent} requests failed{cause}",
        "remedy": "Read the notes of the results and the run's log; a workload must fit the server's context length.",
    }


async def _end_clients(remote: NodeSession, work: _Work) -> None:
    """End the client of the step that is under way: there is never another."""
    if work.next_step is not None:
        await end_client(remote, work.repeat())


def _publish(control: Control, work: _Work) -> None:
    control.changes.publish(work.run.id, work.server.id, work.node.id, OPERATIONS_CHANGED)
