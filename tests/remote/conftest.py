"""A real sshd for each module, a connection to it for each test, and launches that are gone when the test is over."""

import asyncio
import contextlib
import itertools
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from service.remote.messages import LaunchOrder, Watch
from service.remote.node import NodeSession
from service.remote.observing import Fact, MetricsWish, Observer, observe
from service.remote.ssh import SshConnection, open_connection
from tests.sshd import Sshd

_NUMBERS = itertools.count()
TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def other_sshd(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path / "other") as server:
        yield server


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Give a directory that everybody may enter; pytest keeps its own to itself, and shuts it with each run begun."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


@pytest.fixture
async def connection(sshd: Sshd) -> AsyncIterator[SshConnection]:
    opened = await open_connection(sshd.endpoint())
    yield opened
    await opened.close()


@pytest.fixture
def node(connection: SshConnection) -> NodeSession:
    return NodeSession(connection)


class Launches:
    """Makes orders with ids of their own, and kills whatever carries one of them in the end."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ids: list[str] = []

    def order(self, *argv: str, **fields: Any) -> LaunchOrder:
        launch_id = f"ln_t{os.getpid()}_{next(_NUMBERS)}"
        self.ids.append(launch_id)
        return LaunchOrder(
            **{
                "launch_id": launch_id,
                "server": "test",
                "port": 1,
                "argv": argv,
                "created_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
                **fields,
            }
        )

    def shell(self, script: str, **fields: Any) -> LaunchOrder:
        return self.order("/bin/sh", "-c", script, **fields)

    def directory(self, order: LaunchOrder) -> Path:
        return self.home / ".vigil" / "launches" / order.launch_id

    def pids(self, order: LaunchOrder) -> list[int]:
        return marked_pids([order.launch_id])

    def kill_all(self) -> None:
        for pid in marked_pids(self.ids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def launches(sshd: Sshd) -> Iterator[Launches]:
    made = Launches(sshd.home)
    yield made
    made.kill_all()


class Facts:
    """What an observer said, in order, and a way to wait for something to be said."""

    def __init__(self) -> None:
        self.said: list[Fact] = []
        self.closed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._news = asyncio.Event()

    def add(self, fact: Fact) -> None:
        self.said.append(fact)
        self._news.set()

    async def until(self, is_there: Callable[[], Any], *, timeout_s: float = TIMEOUT_S) -> Any:
        async with asyncio.timeout(timeout_s):
            while not (found := is_there()):
                self._news.clear()
                await self._news.wait()
        return found


@contextlib.asynccontextmanager
async def observing(
    node: NodeSession, watches: Sequence[Watch] = (), *, metrics: MetricsWish | None = None
) -> AsyncIterator[tuple[Observer, Facts]]:
    facts = Facts()
    observer = await observe(node._connection, metrics=metrics, on_fact=facts.add, on_close=facts.closed.set_result)
    if watches:
        observer.watch(watches)
    try:
        yield observer, facts
    finally:
        await observer.close()


def marked_pids(launch_ids: Sequence[str]) -> list[int]:
    """Return every living process that carries one of the launches' marks."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                environment = (path / "environ").read_bytes()
                if any(f"VIGIL_LAUNCH_ID={name}\0".encode() in environment for name in launch_ids):
                    found.append(int(path.name))
    return found


async def eventually(is_so: Callable[[], Any], *, timeout_s: float = TIMEOUT_S) -> Any:
    """Wait for something outside of us: a process, a file."""
    async with asyncio.timeout(timeout_s):
        while not (found := is_so()):
            await asyncio.sleep(0.01)
    return found
