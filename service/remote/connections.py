"""The SSH connections of the service: one per node, opened when first wanted, shared by all who want it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from service.errors import NodeUnreachable, RemoteError, RemoteTimeout
from service.nodes.endpoint import Endpoint
from service.remote.ssh import OPEN_DEADLINE_S, SshConnection, open_connection

CONNECTS_AT_ONCE = 32
"""Each is another node's sshd, so its MaxStartups does not count. A login is mostly waiting, for seven round trips:
with 50 ms for each, four at once would need a minute and a half for a thousand nodes."""
TURN_S = 0.5
"""How long a connect that gets no answer keeps others from theirs: a living node takes a fifth of this."""


@dataclass(slots=True, eq=False)
class _Place:
    """The one connection of a node or a jump host, or the one attempt to open it."""

    endpoint: Endpoint
    connection: SshConnection | None = None
    opening: asyncio.Task[SshConnection] | None = None

    async def vacate(self) -> None:
        """End the connection and the attempt."""
        if self.opening:
            self.opening.cancel()
            with suppress(asyncio.CancelledError, RemoteError):
                await self.opening
        if self.connection:
            await self.connection.close()


class Connections:
    """Live connections by node id. A broken one is replaced when it is next wanted; nothing is retried here."""

    def __init__(self, *, open_deadline_s: float = OPEN_DEADLINE_S) -> None:
        self._open_deadline_s = open_deadline_s
        self._turns = asyncio.Semaphore(CONNECTS_AT_ONCE)
        self._nodes: dict[str, _Place] = {}
        self._jumps: dict[Endpoint, _Place] = {}

    async def get(self, node_id: str, endpoint: Endpoint, *, patience_s: float | None = None) -> SshConnection:
        """Return the node's connection, opening it when there is none, it broke, or the endpoint is another now.

        Everyone who waits for the same opening gets its result, or its error: those of `open_connection`. The deadline
        of an opening begins with its turn, so that a queue of a thousand nodes is not mistaken for a thousand dead
        ones. Who does not want to queue for longer than `patience_s` gets RemoteTimeout; the opening goes on.
        """
        place = self._nodes.get(node_id)
        if place is None or place.endpoint != endpoint:
            await self.forget(node_id)
            place = self._nodes.setdefault(node_id, _Place(endpoint))
        try:
            async with asyncio.timeout(patience_s):
                return await self._connection(place)
        except TimeoutError as error:
            raise RemoteTimeout(f"connecting to {endpoint.label} takes longer than {patience_s} s") from error

    async def forget(self, node_id: str) -> None:
        """Close the node's connection, and jump hosts that no other node needs."""
        place = self._nodes.pop(node_id, None)
        if place:
            await place.vacate()
        if not self._jumps:
            return
        needed = {jump for kept in self._nodes.values() for jump in _jumps_of(kept.endpoint)}
        for endpoint in [endpoint for endpoint in self._jumps if endpoint not in needed]:
            await self._jumps.pop(endpoint).vacate()

    def counts(self) -> dict[str, int]:
        """Return how many connections are open, and how many are being opened."""
        places = [*self._nodes.values(), *self._jumps.values()]
        is_open = [place.connection is not None and place.connection.is_open for place in places]
        opening = [place.opening is not None and not place.opening.done() for place in places]
        return {"open": sum(is_open), "opening": sum(opening)}

    async def close(self) -> None:
        """Close every connection."""
        for node_id in list(self._nodes):
            await self.forget(node_id)

    async def _connection(self, place: _Place) -> SshConnection:
        if place.connection and place.connection.is_open:
            return place.connection
        if place.opening is None or place.opening.done():
            place.opening = asyncio.create_task(self._open(place))
            place.opening.add_done_callback(_look_at_error)
        opening = place.opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            if opening.cancelled() and not (waiter and waiter.cancelling()):
                raise NodeUnreachable(f"the connection to {place.endpoint.label} was closed while opening") from None
            raise

    async def _open(self, place: _Place) -> SshConnection:
        if place.connection:
            await place.connection.close()
        jump = await self._jump(place.endpoint.jump) if place.endpoint.jump else None
        async with self._turn():
            connection = await open_connection(place.endpoint, deadline_s=self._open_deadline_s, jump=jump)
        place.connection = connection
        return connection

    async def _jump(self, endpoint: Endpoint) -> SshConnection:
        return await self._connection(self._jumps.setdefault(endpoint, _Place(endpoint)))

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Hold one of the turns, but give it back after TURN_S: dead nodes must not keep living ones waiting."""
        await self._turns.acquire()
        is_held = True

        def give_back() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._turns.release()

        early = asyncio.get_running_loop().call_later(TURN_S, give_back)
        try:
            yield
        finally:
            early.cancel()
            give_back()


def _look_at_error(opening: asyncio.Task[SshConnection]) -> None:
    """Mark the error of an attempt as seen: those who still wait get it, and perhaps nobody does."""
    if not opening.cancelled():
        opening.exception()


def _jumps_of(endpoint: Endpoint) -> list[Endpoint]:
    return [endpoint.jump, *_jumps_of(endpoint.jump)] if endpoint.jump else []
