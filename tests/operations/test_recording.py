"""What watchers keep in the database: much at once where it is much, and nothing where there is nothing to say."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import select

from service.db import migrating
from service.db.engine import Database
from service.db.tables import Finding, Launch, Node, Profile, Server
from service.nodes.contact import Contact
from service.operations import recording
from service.operations.control import Control
from service.operations.diagnoses import Complaint
from service.operations.live import LiveLaunch
from service.remote.connections import Connections
from service.servers.states import Desired, State
from service.settings import Settings
from service.sglang.failures import Code
from service.sglang.startup_log import StartupLog

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
COMPLAINT = Complaint(
    code=Code.SPECULATION_INEFFECTIVE, summary="s", remedy="r", count=1, evidence=[], began_at=NOW, ended_at=None
)


class CountingDatabase(Database):
    """A database that counts its transactions."""

    write_count = 0

    @asynccontextmanager
    async def write(self, *, is_long: bool = False) -> AsyncIterator[AsyncSession]:
        """Count and write."""
        self.write_count += 1
        async with super().write(is_long=is_long) as session:
            yield session


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[CountingDatabase]:
    """Give a database with three ready launches on one node."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'kept.db'}"
    migrating.upgrade(url)
    made = CountingDatabase(url)
    async with made.write() as session:
        session.add(
            Node(
                id="nd_1", name="n", address="h", port=22, user="u", credential={"kind": "agent"}, engines=[],
                first_port=1, last_port=9, contact=Contact.OK, contact_since_at=NOW, created_at=NOW,
            )
        )  # fmt: skip
        session.add(Profile(id="pr_1", name="p", latest_version=1, created_at=NOW))
        await session.flush()
        for number in range(3):
            server = Server(
                id=f"sv_{number}", name=f"s{number}", node_id="nd_1", profile_id="pr_1", profile_version=1, port=number,
                gpu_count=0, desired=Desired.RUNNING, state=State.READY, state_since_at=NOW, created_at=NOW,
                launch_id=f"ln_{number}",
            )  # fmt: skip
            session.add(server)
            await session.flush()
            session.add(
                Launch(
                    id=f"ln_{number}", server_id=server.id, node_id="nd_1", number=1, profile_id="pr_1",
                    profile_version=1, recipe={}, argv=[], environment={}, port=number, gpus=[], model_path="/m",
                    created_at=NOW, timeline=[], log_offset=100,
                )
            )  # fmt: skip
    made.write_count = 0
    yield made
    await made.close()


@pytest.fixture
def control(database: CountingDatabase, tmp_path: Path) -> Control:
    """Give the parts, with a live picture of the three launches whose logs are where the database knows."""
    made = Control(Settings(state_dir=tmp_path), database, Connections())
    for number in range(3):
        live = LiveLaunch(log=StartupLog(), kept_offset=100)
        live.recent_log.end_offset = 100
        made.live.launches[f"ln_{number}"] = live
    return made


async def offsets(database: Database) -> list[int]:
    async with database.read() as session:
        rows = (await session.execute(select(Launch))).scalars().all()
    return [row.log_offset for row in sorted(rows, key=lambda row: row.id)]


async def test_the_offsets_of_all_logs_that_grew_are_kept_at_once(control: Control, database: CountingDatabase) -> None:
    control.live.launches["ln_0"].recent_log.append(100, b"12345")
    control.live.launches["ln_2"].recent_log.append(0, b"cut, and begun anew")
    assert await recording.record_offsets(control) == 2
    assert await offsets(database) == [105, 100, 19]
    assert database.write_count == 1


async def test_offsets_that_are_known_are_not_written_again(control: Control, database: CountingDatabase) -> None:
    control.live.launches["ln_0"].recent_log.append(100, b"12345")
    await recording.record_offsets(control)
    assert await recording.record_offsets(control) == 0
    control.live.launches["ln_new"] = LiveLaunch(log=StartupLog())  # nothing of its log was read yet
    assert await recording.record_offsets(control) == 0
    assert database.write_count == 1


async def test_no_complaint_is_written_only_where_one_must_end(control: Control, database: CountingDatabase) -> None:
    async with database.read() as session:
        server = await session.get_one(Server, "sv_0")

    async def say(*complaints: Complaint) -> None:
        await recording.record_complaints(control, server, "ln_0", complaints, undecided=frozenset(), at=NOW)

    await say()
    assert database.write_count == 0
    await say(COMPLAINT)
    await say()
    assert database.write_count == 2
    async with database.read() as session:
        (finding,) = (await session.execute(select(Finding))).scalars().all()
    assert finding.ended_at == NOW
    await say()
    assert database.write_count == 2


@pytest.mark.parametrize("change", [{"state": State.STOPPED}, {"launch_id": "ln_9"}])
async def test_no_complaint_begins_of_a_launch_that_ended_meanwhile(
    control: Control, database: CountingDatabase, change: dict[str, object]
) -> None:
    """Its findings were ended with it: nobody would ever end this one."""
    async with database.read() as session:
        server = await session.get_one(Server, "sv_0")
    async with database.write() as session:
        (await session.get_one(Server, "sv_0")).sqlmodel_update(change)
    await recording.record_complaints(control, server, "ln_0", [COMPLAINT], undecided=frozenset(), at=NOW)
    async with database.read() as session:
        assert (await session.execute(select(Finding))).scalars().all() == []
