"""The service as `vigil serve` runs it, in a process that can say what the watching costs and how young the facts are.

Reads one word a line: `seen` is answered by how many launches are known now, `mark` by what was measured since the last
mark. A thread of its own looks at the ages, so that a busy event loop cannot hide them.
"""

import asyncio
import gc
import json
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn

from service import logs
from service.cli.serving import server_of
from service.operations.control import Control
from service.remote import answers
from service.remote.messages import Beat, NodeFact
from service.settings import Settings

_LOOK_EVERY_S = 0.25


class Meter:
    """What was measured since the last mark."""

    def __init__(self, server: uvicorn.Server) -> None:
        self._server = server
        self._lags_s: list[float] = []
        self._ages_s: list[float] = []
        self._pauses_s: list[float] = []
        self._collecting_since = 0.0
        gc.callbacks.append(self._note_collection)
        self._marked = (time.monotonic(), time.process_time())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._start = server.startup
        server.startup = self._noted_start  # type: ignore[method-assign]
        self._fact = answers.fact
        answers.fact = self._timed_fact

    def follow_orders(self) -> None:
        """Answer until the input ends, then end the service."""
        for line in sys.stdin:
            said = self._mark() if line.strip() == "mark" else {"is_up": self._server.started, "seen": self._seen()}
            print(json.dumps(said), flush=True)
        self._server.should_exit = True

    def look(self) -> None:
        """Note the age of every launch's facts, again and again."""
        while not self._server.should_exit:
            time.sleep(_LOOK_EVERY_S)
            now = datetime.now(UTC)
            instants = (
                [live.observed_at for live in list(self._control().live.launches.values())]
                if self._server.started
                else []
            )
            self._ages_s += [(now - instant).total_seconds() for instant in instants if instant]

    def _control(self) -> Control:
        app: Any = self._server.config.app
        control: Control = app.state.parts.control
        return control

    def _seen(self) -> int:
        if not self._server.started:
            return 0
        return sum(live.observed_at is not None for live in list(self._control().live.launches.values()))

    def _mark(self) -> dict[str, Any]:
        now, before = (time.monotonic(), time.process_time()), self._marked
        self._marked = now
        ages_s, self._ages_s = self._ages_s, []
        lags_s, self._lags_s = self._lags_s, []
        pauses_s, self._pauses_s = self._pauses_s, []
        return {
            "wall_s": now[0] - before[0],
            "cpu_s": now[1] - before[1],
            "rss_mib": _rss_mib(),
            "tasks": len(asyncio.all_tasks(self._loop)) if self._loop else 0,
            "beats": len(lags_s),
            "age_s": _spread(ages_s),
            "lag_s": _spread(lags_s),
            "collecting_s": {"sum": sum(pauses_s), "most": max(pauses_s, default=0.0)},
        }

    async def _noted_start(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await self._start(sockets)

    def _note_collection(self, when: str, _what: dict[str, int]) -> None:
        """Note how long the collector stopped everything else; small collections are noted too."""
        now = time.monotonic()
        if when == "start":
            self._collecting_since = now
        else:
            self._pauses_s.append(now - self._collecting_since)

    def _timed_fact(self, line: Any) -> NodeFact:
        fact = self._fact(line)
        if isinstance(fact, Beat):
            self._lags_s.append(time.time() - fact.at.timestamp())
        return fact


def _spread(values: Iterable[float]) -> dict[str, float] | None:
    ordered = sorted(values)
    if not ordered:
        return None
    return {
        "p50": statistics.median(ordered),
        "p95": ordered[int(0.95 * (len(ordered) - 1))],
        "p99": ordered[int(0.99 * (len(ordered) - 1))],
        "most": ordered[-1],
    }


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def main() -> None:
    """Serve until standard input ends."""
    settings = Settings()
    logs.configure(settings.log_level)
    server = server_of(settings)
    meter = Meter(server)
    for work in (meter.follow_orders, meter.look):
        threading.Thread(target=work, daemon=True).start()
    server.run()


if __name__ == "__main__":
    main()
