"""One server that starts on one node, watched by a connection after the other."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import select

from service.db import migrating
from service.db.engine import Database
from service.db.tables import Launch, Node, Operation, Profile, ProfileVersion, Server, Transition
from service.errors import NodeUnreachable
from service.nodes.contact import Contact
from service.operations.control import Control
from service.remote.connections import Connections
from service.remote.messages import LaunchFact, LogFact
from service.remote.node import NodeSession
from service.remote.ssh import SshConnection
from service.servers.observation import EffortFact, ListenerFact, ListenerOwner, ProcessFact, ProcessState
from service.servers.progress import History
from service.servers.states import Desired, State
from service.settings import Settings
from service.sglang.health import HealthAnswer
from service.watchers.launch_watch import LaunchWatch

BEGAN_AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
READY_LINE = b"[2026-11-29 12:05:00] The server is fired up and ready to roll!\n"
RECIPE: dict[str, Any] = {"python": "/opt/python", "model_path": "/models/m", "gpu_count": 0}


class NodeStandIn:
    """A node that has no evidence to give, or takes its time to say so."""

    is_stuck = False
    asked = 0

    def __init__(self) -> None:
        self.way = asyncio.Event()
        """Set, it lets go of who is stuck."""

    async def hang_evidence(self, _launch_id: str, *, python: str) -> None:
        """Refuse, at once or late."""
        assert python
        self.asked += 1
        if self.is_stuck:
            await self.way.wait()
        raise NodeUnreachable("it gives none")


class ReachedControl(Control):
    """The parts, with a node that is reached at once."""

    node: NodeStandIn

    async def node_session(self, node: Node) -> NodeSession:
        """Return the node."""
        assert node
        return cast("NodeSession", self.node)


@dataclass
class Scene:
    """The database, the parts, and the present instant; `watch` begins with a new connection."""

    control: ReachedControl
    node: NodeStandIn = field(default_factory=NodeStandIn)
    seconds: float = 0.0
    """How long it goes on."""
    step_s: float = 0.0
    """By how much the clock of the service was set since."""
    submitted: list[Operation] = field(default_factory=list)

    def now(self) -> datetime:
        """Return the present instant."""
        return BEGAN_AT + timedelta(seconds=self.seconds + self.step_s)

    async def watch(self) -> LaunchWatch:
        """Return the watch of a new connection to the node."""
        async with self.control.database.read() as session:
            server = await session.get_one(Server, "sv_1")
            launch = await session.get_one(Launch, "ln_1")
        self.hear()
        connection = cast("SshConnection", None)  # nothing is asked over it here
        return LaunchWatch(
            self.control, connection, server, launch, history=History(), utc_offset_s=0, submit=self.submitted.append
        )

    def hear(self) -> None:
        """Hear the node now."""
        self.control.live.node("nd_1").heard_at = self.now()

    async def see(self, watch: LaunchWatch, owner: ListenerOwner = ListenerOwner.NONE, **effort: int) -> None:
        """Let the observer report a living process, and the watch take its turn."""
        self.hear()
        process = ProcessFact(ProcessState.RUNNING, pid=7, member_count=1)
        watch.fold(LaunchFact("ln_1", self.now(), process, ListenerFact(owner, 7), EffortFact(**effort)))
        await self.turn(watch)

    async def turn(self, watch: LaunchWatch) -> None:
        """Take a turn, and what is recorded by it over into the watch."""
        await watch.turn()
        async with self.control.database.read() as session:
            watch.update(await session.get_one(Server, "sv_1"), await session.get_one(Launch, "ln_1"))

    async def state(self) -> State:
        """Return the server's state."""
        async with self.control.database.read() as session:
            return (await session.get_one(Server, "sv_1")).state

    async def reasons(self) -> list[str]:
        """Return the reasons of all transitions, the oldest first."""
        async with self.control.database.read() as session:
            rows = (await session.execute(select(Transition))).scalars().all()
        return [str(row.reason) for row in sorted(rows, key=lambda row: row.id or 0)]

    async def change_launch(self, **values: object) -> None:
        """Change columns of the launch."""
        async with self.control.database.write() as session:
            launch = await session.get_one(Launch, "ln_1")
            for name, value in values.items():
                setattr(launch, name, value)

    def restart_service(self) -> None:
        """Forget all that is only in memory."""
        self.control = ReachedControl(self.control.settings, self.control.database, Connections(), now=self.now)
        self.control.monotonic_s = lambda: self.seconds
        self.control.node = self.node


async def add_start(session: AsyncSession, number: int) -> None:
    """Add a server on the node and its launch, which has been starting since BEGAN_AT: sv_1 and ln_1, and so on."""
    server = Server(
        id=f"sv_{number}", name=f"s{number}", node_id="nd_1", profile_id="pr_1", profile_version=1, port=number,
        gpu_count=0, desired=Desired.RUNNING, state=State.STARTING, state_since_at=BEGAN_AT, created_at=BEGAN_AT,
        launch_count=1,
    )  # fmt: skip
    session.add(server)
    await session.flush()
    session.add(
        Launch(
            id=f"ln_{number}", server_id=server.id, node_id="nd_1", number=1, profile_id="pr_1", profile_version=1,
            recipe=RECIPE, argv=[], environment={}, port=number, gpus=[], model_path="/models/m", created_at=BEGAN_AT,
            started_at=BEGAN_AT, timeline=[],
        )
    )  # fmt: skip
    await session.flush()
    server.launch_id = f"ln_{number}"


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Give a server that has been starting since BEGAN_AT."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'watched.db'}"
    migrating.upgrade(url)
    database = Database(url)
    async with database.write() as session:
        session.add(
            Node(
                id="nd_1", name="n", address="h", port=22, user="u", credential={"kind": "agent"}, engines=[],
                first_port=1, last_port=9, contact=Contact.OK, contact_since_at=BEGAN_AT, created_at=BEGAN_AT,
            )
        )  # fmt: skip
        session.add(Profile(id="pr_1", name="p", latest_version=1, created_at=BEGAN_AT))
        await session.flush()
        session.add(ProfileVersion(id="pr_1_1", profile_id="pr_1", number=1, recipe=RECIPE, created_at=BEGAN_AT))
        await add_start(session, 1)
    made = Scene(ReachedControl(Settings(state_dir=tmp_path), database, Connections()))
    made.restart_service()
    yield made
    await database.close()


async def become_ready(scene: Scene, watch: LaunchWatch) -> None:
    """Let the server be seen to be ready."""
    await scene.see(watch, ListenerOwner.OURS)
    watch.fold(LogFact("ln_1", watch.live.recent_log.end_offset, READY_LINE))
    watch.live.note_health(HealthAnswer.OK, 200, scene.now(), scene.now())
    await scene.turn(watch)
    assert await scene.state() is State.READY
