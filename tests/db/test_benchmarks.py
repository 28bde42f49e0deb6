"""Runs of benchmarks: a repeat is kept once, one run a server, points are summed up at the end; on both dialects."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import IntegrityError
from sqlmodel import select

from service.benchmarks.importing import Mapped
from service.benchmarks.presets import PRESETS
from service.benchmarks.results import Result, ResultStatus
from service.benchmarks.runs import RunSource, RunState
from service.db import benchmark_definitions as definitions
from service.db import benchmark_files, benchmarks
from service.db.benchmark_files import RawFile
from service.db.benchmark_tables import Benchmark, BenchmarkPoint, BenchmarkRun
from service.db.benchmarks import MeasuredRepeat, NewRun, RunFilter, RunSubject
from service.db.engine import Database
from service.db.paging import PageRequest
from service.errors import NameTaken, NotFound
from tests.benchmarks.made import result

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def new_run(server_id: str | None = "sv_1", **more: object) -> NewRun:
    subject = RunSubject(server_id=server_id, profile_id=None, model="kimi-k2")
    return NewRun(source=RunSource.OWN, repeats=3, actor="token:alice", subject=subject, **more)  # type: ignore[arg-type]


def repeat(made: Result, index: int, *, point: int = 0, content: bytes | None = None) -> MeasuredRepeat:
    raw = None if content is None else RawFile(content, sha256="ab" * 32, is_redacted=True)
    return MeasuredRepeat(point_index=point, repeat_index=index, mapped=Mapped(made), raw=raw)


async def test_a_run_is_kept_with_its_repeats_and_summed_up(database: Database) -> None:
    sound = [result(tps) for tps in (80.0, 100.0)]
    bad = result(10.0).model_copy(update={"status": ResultStatus.DEGRADED})
    async with database.write() as session:
        run = await benchmarks.create_run(session, new_run(), at=NOW)
        for index, made in enumerate((*sound, bad)):
            await benchmarks.add_result(session, run.id, repeat(made, index, content=b'{"a": 1}'))
        await benchmarks.add_result(session, run.id, repeat(result(50.0, concurrency=64), 0, point=1))
        assert await benchmarks.end_run(session, run.id, RunState.DEGRADED, at=NOW)
    async with database.read() as session:
        points = (await session.execute(select(BenchmarkPoint).order_by("point_index"))).scalars().all()
        rows = await benchmarks.list_results(session, [run.id])
        files = await benchmark_files.list_files(session, run.id)
        contents = [await benchmark_files.read_content(session, file.id or 0) for file in files]
    assert [(p.load, p.repeats, p.status, p.metrics["output_throughput_tps"]) for p in points] == [
        ("C=16", 2, ResultStatus.DEGRADED, 90.0),
        ("C=64", 1, ResultStatus.OK, 50.0),
    ]
    assert [benchmarks.result_of(row) for row in rows] == [*sound, bad, result(50.0, concurrency=64)]
    assert contents == [b'{"a": 1}'] * 3
    assert rows[0].raw_sha256 == "ab" * 32


async def test_a_repeat_is_kept_once(database: Database) -> None:
    async with database.write() as session:
        run = await benchmarks.create_run(session, new_run(), at=NOW)
        first = await benchmarks.add_result(session, run.id, repeat(result(90.0), 0, content=b"{}"))
        again = await benchmarks.add_result(session, run.id, repeat(result(24.8), 0, content=b"[]"))
        assert again is first
        assert len(await benchmark_files.list_files(session, run.id)) == 1


async def test_a_run_ends_once(database: Database) -> None:
    async with database.write() as session:
        run = await benchmarks.create_run(session, new_run(), at=NOW)
        assert await benchmarks.update_running_run(session, run.id, progress={"done": 1})
        assert await benchmarks.end_run(session, run.id, RunState.CANCELED, at=NOW)
        assert not await benchmarks.end_run(session, run.id, RunState.SUCCEEDED, at=NOW)
        assert not await benchmarks.update_running_run(session, run.id, progress={"done": 2})
    async with database.read() as session:
        kept = await benchmarks.get_run(session, run.id)
    assert (kept.state, kept.progress, kept.ended_at) == (RunState.CANCELED, None, NOW)


async def test_there_is_never_a_second_run_on_a_server(database: Database) -> None:
    async with database.write() as session:
        run = await benchmarks.create_run(session, new_run(), at=NOW)
    with pytest.raises(IntegrityError):
        async with database.write() as session:
            await benchmarks.create_run(session, new_run(), at=NOW)
    async with database.write() as session:
        found = await benchmarks.running_run_of_server(session, "sv_1")
        assert found is not None
        assert found.id == run.id
        await benchmarks.end_run(session, run.id, RunState.FAILED, at=NOW, problem={"code": "x"})
        assert await benchmarks.running_run_of_server(session, "sv_1") is None
        await benchmarks.create_run(session, new_run(), at=NOW)


async def test_lists_are_narrowed_and_paged(database: Database) -> None:
    async with database.write() as session:
        made = []
        for day in range(4):
            run = await benchmarks.create_run(session, new_run(f"sv_{day % 2}x{day}"), at=NOW + timedelta(days=day))
            made.append(run.id)
            await benchmarks.end_run(session, run.id, RunState.SUCCEEDED if day else RunState.FAILED, at=NOW)

    async def listed(**wanted: object) -> list[str]:
        async with database.read() as session:
            rows = await benchmarks.list_runs(session, PageRequest(), RunFilter(**wanted))  # type: ignore[arg-type]
        return [row.id for row in rows.items]

    assert await listed() == made[::-1]
    assert await listed(server_id="sv_1x1") == [made[1]]
    assert await listed(state=RunState.FAILED, model="kimi-k2") == [made[0]]
    assert await listed(since=NOW + timedelta(days=2)) == [made[3], made[2]]
    assert await listed(source=RunSource.IMPORT) == []
    assert await listed(benchmark="smoke") == []


async def test_a_definition_is_found_by_name_and_id_and_a_shipped_one_by_name(database: Database) -> None:
    smoke = PRESETS["smoke"]
    row = Benchmark(id="be_1", name="mine", workload=smoke.model_dump(mode="json"), created_at=NOW)
    async with database.write() as session:
        session.add(row)
        await session.flush()
        run = await benchmarks.create_run(
            session, new_run(definition=await definitions.get_definition(session, "mine")), at=NOW
        )
    async with database.read() as session:
        assert (await definitions.get_definition(session, "be_1")).workload == smoke
        assert (await definitions.get_definition(session, "smoke")).id is None
        with pytest.raises(NotFound):
            await definitions.get_definition(session, "other")
        for name in ("mine", "smoke"):
            with pytest.raises(NameTaken):
                await definitions.require_free_benchmark_name(session, name)
        kept = await session.get_one(BenchmarkRun, run.id)
    assert (kept.benchmark, kept.benchmark_id, kept.workload) == ("mine", "be_1", smoke.model_dump(mode="json"))
