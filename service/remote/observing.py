"""The observer of a node: how it is started, and what it says as it comes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from service.clock import from_epoch
from service.errors import RemoteError
from service.remote import answers
from service.remote.bundle import PYTHON_ARGV, payload
from service.remote.messages import NodeFact, Watch
from service.remote.sessions import Stream
from service.remote.ssh import SshConnection

FACT_START = b'{"k":'
OBSERVER_TICK_S = 0.25
METRICS_DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True)
class MetricsWish:
    """The page of a listening server that the observer shall read every so often, and which samples of it are wanted.

    It never reads a page twice at once. `names` are of samples, with whatever labels. Nothing is said of a page that
    cannot be read within `deadline_s`.
    """

    path: str
    names: Sequence[str]
    every_s: float
    deadline_s: float = METRICS_DEADLINE_S


@dataclass(frozen=True, slots=True)
class MetricsFact:
    """The lines of a launch's page that were wanted, as the server wrote them. `at` is the node's clock."""

    launch_id: str
    at: datetime
    text: str


Fact = NodeFact | MetricsFact


class Observer:
    """The node's end of a running observer."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def watch(self, watches: Sequence[Watch]) -> None:
        """Say which launches to watch from now on: the complete set, each time. Those not named are let go."""
        wanted = [
            {"launch": watch.launch_id, "port": watch.port, "host": watch.host, "log_offset": watch.log_offset}
            for watch in watches
        ]
        self._stream.send(json.dumps({"watch": wanted}).encode("ascii") + b"\n")

    async def close(self) -> None:
        """End the observer; the launches live on."""
        await self._stream.close()


async def observe(
    connection: SshConnection,
    *,
    on_fact: Callable[[Fact], None],
    on_close: Callable[[RemoteError | None], None],
    metrics: MetricsWish | None = None,
) -> Observer:
    """Start the observer. It watches nothing until told; its facts go to `on_fact` as they come.

    `on_close` is called once, with None only when the observer was closed here or ended by itself. Raises what
    `SshConnection.open_stream` raises.
    """

    def on_line(line: bytes) -> None:
        if line.startswith(FACT_START):
            on_fact(_fact(json.loads(line)))

    request: dict[str, object] = {"tick_s": OBSERVER_TICK_S}
    if metrics is not None:
        request["metrics"] = plain_wish(metrics)
    stream = await connection.open_stream(PYTHON_ARGV, on_line=on_line, on_close=on_close)
    stream.send(payload("observe", request, limit_s=None))
    return Observer(stream)


def _fact(plain: Mapping[str, Any]) -> Fact:
    if plain["k"] != "metrics":
        return answers.fact(plain)
    try:
        return MetricsFact(str(plain["launch"]), from_epoch(plain["at"]), str(plain["text"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{type(error).__name__} {error} in a fact") from error


def plain_wish(wish: MetricsWish) -> dict[str, object]:
    """Return a wish as the node takes it."""
    return {
        "path": wish.path,
        "names": list(wish.names),
        "every_s": wish.every_s,
        "deadline_s": wish.deadline_s,
    }
