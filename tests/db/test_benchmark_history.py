"""Series of points and baselines, on both dialects: metrics lie in JSON, which each reads in its own way."""

from datetime import UTC, datetime, timedelta

from service.benchmarks.importing import Mapped
from service.benchmarks.results import Result
from service.benchmarks.runs import RunSource, RunState
from service.db import benchmark_history, benchmarks
from service.db.benchmark_tables import Baseline
from service.db.benchmarks import MeasuredRepeat, NewRun, RunSubject
from service.db.engine import Database
from service.db.tables import Profile
from tests.benchmarks.made import result, results

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


async def keep(database: Database, made: list[Result], *, day: int, benchmark: str = "nightly") -> str:
    """Keep an ended run of profile pr_1 with these repeats of points, each key a point."""
    at = NOW + timedelta(days=day)
    keys = list(dict.fromkeys(item.load.max_concurrency for item in made))
    async with database.write() as session:
        if await session.get(Profile, "pr_1") is None:
            session.add(Profile(id="pr_1", name="kimi", latest_version=1, created_at=NOW))
            await session.flush()
        subject = RunSubject(profile_id="pr_1", profile_version=1, model="kimi-k2")
        new = NewRun(source=RunSource.IMPORT, repeats=1, actor="a", subject=subject, benchmark=benchmark)
        run = await benchmarks.create_run(session, new, at=at)
        for index, item in enumerate(made):
            point = keys.index(item.load.max_concurrency)
            await benchmarks.add_result(session, run.id, MeasuredRepeat(point, index, Mapped(item)))
        await benchmarks.end_run(session, run.id, RunState.SUCCEEDED, at=at)
    return run.id


async def test_a_series_is_the_points_of_one_key_oldest_first(database: Database) -> None:
    runs = [await keep(database, results([90.0 + day, 92.0 + day]), day=day) for day in range(4)]
    sweep = await keep(database, [result(50.0), result(200.0, concurrency=64)], day=5, benchmark="sweep")
    async with database.read() as session:
        first, second = await benchmark_history.list_series(session, "pr_1", benchmark=None)
        (nightly,) = await benchmark_history.list_series(session, "pr_1", benchmark="nightly")
        assert await benchmark_history.list_series(session, "pr_2", benchmark=None) == []
        points = await benchmark_history.newest_points(
            session, "pr_1", nightly.key, "output_throughput_tps", benchmark="nightly", limit=3
        )
        every = await benchmark_history.newest_points(
            session, "pr_1", nightly.key, "ttft_p99_ms", benchmark=None, limit=9
        )
        none = await benchmark_history.newest_points(
            session, "pr_1", nightly.key, "goodput_rps", benchmark=None, limit=9
        )
        by_run = await benchmark_history.points_of_runs(session, [sweep, runs[0]])
    assert [(first.load, first.point_count), (second.load, second.point_count)] == [("C=16", 5), ("C=64", 1)]
    assert (nightly.key, nightly.point_count, nightly.benchmark, nightly.model) == (first.key, 4, "nightly", "kimi-k2")
    assert [(point.run_id, point.value) for point in points] == [(runs[1], 92.0), (runs[2], 93.0), (runs[3], 94.0)]
    assert points[0].at == NOW + timedelta(days=1)
    assert points[0].version == "0.5.23"
    assert [point.run_id for point in every] == [*runs, sweep]
    assert none == []
    assert [point.load for point in by_run[sweep]] == ["C=16", "C=64"]


async def test_points_of_one_instant_are_in_the_order_in_which_they_were_kept(database: Database) -> None:
    runs = [await keep(database, results([90.0]), day=0, benchmark=name) for name in ("c", "a", "b")]
    async with database.read() as session:
        (series,) = await benchmark_history.list_series(session, "pr_1", benchmark=None)
        for limit in (3, 2):
            points = await benchmark_history.newest_points(
                session, "pr_1", series.key, "output_throughput_tps", benchmark=None, limit=limit
            )
            assert [point.run_id for point in points] == runs[-limit:]


async def test_a_profile_has_a_baseline_for_each_benchmark(database: Database) -> None:
    run_id = await keep(database, results([90.0]), day=0)
    async with database.write() as session:
        for name in ("nightly", ""):
            session.add(Baseline(profile_id="pr_1", benchmark=name, run_id=run_id, actor="a", set_at=NOW))
    async with database.read() as session:
        found = await benchmark_history.find_baseline(session, "pr_1", "nightly")
        unnamed = await benchmark_history.find_baseline(session, "pr_1", None)
        assert await benchmark_history.find_baseline(session, "pr_1", "other") is None
        assert [row.benchmark for row in await benchmark_history.list_baselines(session, "pr_1")] == ["", "nightly"]
        assert len(await benchmark_history.baselines_that_are(session, run_id)) == 2
    assert found is not None
    assert unnamed is not None
    assert (found.run_id, unnamed.benchmark) == (run_id, "")
