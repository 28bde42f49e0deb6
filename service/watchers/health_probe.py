"""Asks one server for its health, never twice at once, for as long as its launch listens."""

import asyncio
from collections.abc import Callable

from service.operations.control import Control
from service.operations.live import LiveLaunch
from service.operations.verdicts import VerdictWatch
from service.remote.http import Answer, AskError, ask, node_client
from service.remote.ssh import SshConnection
from service.servers.observation import ListenerOwner
from service.servers.serving import health_is_needed
from service.servers.states import State
from service.sglang.health import HealthAnswer, health_answer

STARTING_INTERVAL_S = 0.5
"""While starting, a 503 costs the engine nothing: it makes no request then."""
UNREADY_INTERVAL_S = 2.0


class HealthProbe:
    """One task per launch that keeps `live.health` young."""

    def __init__(
        self, control: Control, connection: SshConnection, *, host: str, port: int, live: LiveLaunch, deadline_s: float
    ) -> None:
        self._control = control
        self._live = live
        self._connection = connection
        self._client = node_client(connection, port=port, host=host, timeout_s=deadline_s)
        self._deadline_s = deadline_s
        self.state = State.STARTING
        self.verdicts: VerdictWatch | None = None

    async def run(self, on_answer: Callable[[], None]) -> None:
        """Ask until cancelled; `on_answer` is called after each answer."""
        try:
            while True:
                if self._live.listener.owner is ListenerOwner.OURS and self._is_needed():
                    await self._ask()
                    on_answer()
                await asyncio.sleep(self._interval_s())
        finally:
            await self._client.aclose()

    def _is_needed(self) -> bool:
        """Tell whether to ask now: not while the counters, which the node's observer reads, prove that tokens move."""
        if self.state is State.STARTING or self.verdicts is None:
            return True
        is_ready = self.state is State.READY
        return health_is_needed(self._live.health, self.verdicts.flow, self._control.now(), is_ready=is_ready)

    async def _ask(self) -> None:
        asked_at = self._control.now()
        reply = await ask(self._client, "GET", "/health", deadline_s=self._deadline_s)
        if reply.error is not None and not self._connection.is_open:
            return  # it is the way to the node that broke: nothing is known of the server
        self._live.note_health(_meaning(reply), reply.status, asked_at, self._control.now())

    def _interval_s(self) -> float:
        match self.state:
            case State.STARTING:
                return STARTING_INTERVAL_S
            case State.READY:
                return self._control.settings.health_interval_s
            case _:
                return UNREADY_INTERVAL_S


def _meaning(reply: Answer) -> HealthAnswer:
    return health_answer(
        reply.status if reply.error is None else None,
        is_refused=reply.error is AskError.REFUSED,
        has_timed_out=reply.error is AskError.TIMEOUT,
    )
