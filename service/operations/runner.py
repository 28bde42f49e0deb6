"""Carries operations out: one task per server, resumed after a restart of the service, retried while the way is bad."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping

from service.db import history
from service.db.tables import Operation
from service.errors import RemoteError, VigilError
from service.logs import EventLog
from service.operations import benchmarking, crashing, journal, launching, stopping
from service.operations.control import Control
from service.servers.operation import OperationState, OperationStep

RETRY_FIRST_S = 0.5
_CARRY_OUT: Mapping[OperationStep, Callable[[Control, str], Awaitable[Operation | None]]] = {
    OperationStep.STOPPING: stopping.stop,
    OperationStep.STARTING: launching.start,
    OperationStep.MEASURING: benchmarking.go_on,
    OperationStep.CANCELING: benchmarking.cancel,
}
"""What carries a step out; it may return an operation that follows."""
_events = EventLog("operations")


class OperationRunner:
    """Runs the step that each unfinished operation is at; of one server only the newest."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def resume(self) -> None:
        """Take up every operation that has not ended and that nobody carries out.

        After a start that is all of them. Later it is one whose accepting was cut off between its commit and `submit`.
        """
        async with self._control.database.read() as session:
            running = await history.running_operations(session)
        for operation in running:
            if operation.server_id not in self._tasks and operation.step is not OperationStep.WATCHING:
                self.submit(operation)

    def submit(self, operation: Operation) -> None:
        """Begin to carry an operation out; call it after the commit that accepted it."""
        previous = self._tasks.get(operation.server_id)
        task = asyncio.create_task(
            self._run(operation.id, operation.server_id, previous), name=f"operation {operation.id}"
        )
        self._tasks[operation.server_id] = task
        task.add_done_callback(lambda done: self._forget(operation.server_id, done))

    async def close(self) -> None:
        """Stop carrying out; what is unfinished is resumed at the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, server_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(server_id) is task:
            del self._tasks[server_id]

    async def _run(self, operation_id: str, server_id: str, previous: asyncio.Task[None] | None) -> None:
        if previous is not None and not previous.done():
            previous.cancel()
            await asyncio.wait([previous])
        pause_s = RETRY_FIRST_S
        while True:
            seen = self._control.changes.count(server_id)
            try:
                if not await self._advance(operation_id):
                    return
                pause_s = RETRY_FIRST_S
                continue
            except RemoteError as error:
                await self._note(operation_id, error)
            except Exception:  # noqa: BLE001  one operation's fault may not end the others
                _events.failure("operation_step_failed", operation_id=operation_id)
            wait_s = pause_s * random.uniform(0.8, 1.2)  # noqa: S311
            await self._control.changes.wait([server_id], after=seen, timeout_s=wait_s)
            pause_s = min(pause_s * 2, self._control.settings.retry_max_s)

    async def _advance(self, operation_id: str) -> bool:
        """Carry out one step; False when there is nothing more to do here."""
        async with self._control.database.read() as session:
            operation = await history.get_operation(session, operation_id)
        if operation.state is not OperationState.RUNNING:
            return False
        match operation.step:
            case OperationStep.STOPPING | OperationStep.STARTING | OperationStep.MEASURING | OperationStep.CANCELING:
                begun = await _CARRY_OUT[operation.step](self._control, operation_id)
                if begun is not None:
                    self.submit(begun)
                    return False
            case OperationStep.PAUSING:
                wait_s = await crashing.go_on(self._control, operation_id)
                if wait_s > 0:
                    seen = self._control.changes.count(operation.server_id)
                    await self._control.changes.wait([operation.server_id], after=seen, timeout_s=wait_s)
            case OperationStep.WATCHING | OperationStep.DONE:
                return False
        return True

    async def _note(self, operation_id: str, error: VigilError) -> None:
        _events.warning("operation_obstructed", operation_id=operation_id, code=error.code, detail=error.detail)
        async with self._control.database.write() as session:
            await journal.note_obstacle(session, operation_id, error)
