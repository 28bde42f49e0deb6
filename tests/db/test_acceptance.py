"""The history of acceptance: newest first, a minute apart, and bounded; on both dialects."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

from service.db import acceptance
from service.db.engine import Database
from service.db.paging import PageRequest
from service.db.tables import AcceptanceSample, Launch
from service.sglang.acceptance import Decoding, Sample, Source
from service.sglang.acceptance.samples import KEPT_SAMPLES
from tests.db.test_writing import add_servers

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def sample(minute: float, *, steps: float = 100.0, length: float = 2.0, rate: float | None = 0.5) -> Sample:
    told = Decoding.told(accept_length=length, accept_rate=rate, verify_steps=steps)
    return Sample(NOW + timedelta(minutes=minute), 60.0, Source.LOG, told, 3)


async def add_launches(database: Database, *ids: str) -> None:
    """Write a server and launches of it."""
    (server,) = await add_servers(database, "one")
    async with database.write() as session:
        session.add_all(
            Launch(
                id=launch_id, server_id=server.id, node_id=server.node_id, number=number, profile_id=server.profile_id,
                profile_version=1, recipe={}, argv=[], environment={}, port=30000, gpus=[], model_path="/m",
                created_at=NOW, timeline=[],
            )
            for number, launch_id in enumerate(ids)
        )  # fmt: skip


async def kept(session: AsyncSession, launch_id: str, *, limit: int = 200) -> list[AcceptanceSample]:
    return list((await acceptance.list_samples(session, launch_id, PageRequest(limit))).items)


async def test_the_newest_of_each_launch_and_the_pages_of_one(database: Database) -> None:
    await add_launches(database, "ln_1", "ln_2", "ln_3")
    async with database.write() as session:
        for minute in range(3):
            await acceptance.add_samples(session, {"ln_1": sample(minute)})
        await acceptance.add_samples(session, {"ln_2": sample(9, length=1.0, rate=None)})
    async with database.read() as session:
        newest = await acceptance.newest_samples(session, ["ln_1", "ln_2", "ln_3"])
        page = await acceptance.list_samples(session, "ln_1", PageRequest(2))
        rest = await acceptance.list_samples(session, "ln_1", PageRequest(2, page.next_cursor))
        assert await acceptance.newest_samples(session, []) == {}
    assert {launch_id: row.at for launch_id, row in newest.items()} == {
        "ln_1": NOW + timedelta(minutes=2),
        "ln_2": NOW + timedelta(minutes=9),
    }
    assert (newest["ln_2"].accept_length, newest["ln_2"].accept_rate) == (1.0, None)
    assert [(row.at - NOW).total_seconds() / 60 for row in (*page.items, *rest.items)] == [2, 1, 0]
    assert rest.next_cursor is None


async def test_a_sample_within_a_minute_of_the_last_is_merged_into_it(database: Database) -> None:
    await add_launches(database, "ln_1")
    async with database.write() as session:
        await acceptance.add_samples(session, {"ln_1": sample(0, steps=100, length=2.0, rate=0.5)})
        await acceptance.add_samples(session, {"ln_1": sample(0.5, steps=300, length=1.0, rate=0.1)})
    async with database.read() as session:
        (row,) = await kept(session, "ln_1")
    assert row.at == NOW + timedelta(seconds=30)
    assert (row.window_s, row.verify_steps, row.generated_tokens) == (120, 400, 500)
    assert (row.accept_length, row.accept_rate) == pytest.approx((1.25, 0.2))


async def test_a_long_history_is_merged_in_pairs_and_loses_no_token(database: Database) -> None:
    await add_launches(database, "ln_1", "ln_2")
    rows = [
        {
            "launch_id": launch_id, "at": NOW + timedelta(minutes=minute), "window_s": 60.0, "source": "log",
            "accept_length": 2.0, "accept_rate": 0.5, "verify_steps": 100, "generated_tokens": 200,
            "running_requests": 1,
        }
        for launch_id in ("ln_1", "ln_2")
        for minute in range(KEPT_SAMPLES)
    ]  # fmt: skip
    async with database.write() as session:
        await session.execute(insert(AcceptanceSample), rows)
    async with database.write() as session:
        await acceptance.add_samples(session, {"ln_1": sample(KEPT_SAMPLES)})
    async with database.read() as session:
        thinned = await kept(session, "ln_1", limit=5_000)
        assert len(await kept(session, "ln_2", limit=5_000)) == KEPT_SAMPLES
    assert len(thinned) == KEPT_SAMPLES * 3 // 4 + 1
    assert sum(row.generated_tokens for row in thinned) == 200 * (KEPT_SAMPLES + 1)
    assert sum(row.window_s for row in thinned) == 60 * (KEPT_SAMPLES + 1)
    oldest, newest = thinned[-1], thinned[0]
    assert (oldest.at, oldest.window_s, oldest.verify_steps) == (NOW + timedelta(minutes=1), 120, 200)
    assert (newest.at, newest.window_s) == (NOW + timedelta(minutes=KEPT_SAMPLES), 60)
    assert [row.at for row in thinned] == sorted((row.at for row in thinned), reverse=True)
