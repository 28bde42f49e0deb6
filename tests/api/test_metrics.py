"""The page for Prometheus: what it says is so, under the names and labels of the catalog, and nothing secret."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.api.metrics.catalog import METRICS, Kind
from service.api.metrics.exposition import labelled
from service.api.metrics.tallies import OTHER, PROFILES_TOLD, Histogram, Tallies
from service.benchmarks.results import ResultStatus
from service.benchmarks.runs import RunSource, RunState
from service.db.benchmark_tables import BenchmarkPoint, BenchmarkRun
from service.db.overview import StartTimes
from service.db.servers import get_server
from service.db.tables import Finding
from service.ids import new_id
from service.sglang.phases import Phase
from tests.api.conftest import Api
from tests.api.scraping import scrape


async def test_states_are_told_as_0_and_1(api: Api) -> None:
    await api.add_node()
    await api.add_server()
    page = await scrape(api)
    names = {"server": "one", "node": "atlas", "profile": "p"}
    states = {sample.labels["state"]: sample.value for sample in page.samples if sample.name == "vigil_server_state"}
    assert states == {"stopped": 1, "starting": 0, "ready": 0, "unready": 0, "stopping": 0, "failed": 0}
    assert page.value("vigil_server_launches_total", **names) == 0
    assert page.value("vigil_server_desired_running", **names) == 0
    assert page.value("vigil_node_contact", node="atlas", contact="lost") == 1
    assert page.value("vigil_node_contact", node="atlas", contact="ok") == 0
    assert page.value("process_start_time_seconds") > 1e9


async def test_how_long_writers_waited_for_their_turn(api: Api) -> None:
    before = await scrape(api)

    async def write_for(seconds: float) -> None:
        async with api.parts.control.database.write():
            await asyncio.sleep(seconds)

    await asyncio.gather(write_for(0.2), write_for(0.2))
    after = await scrape(api)

    def grown(name: str) -> float:
        return after.value(name) - before.value(name)

    assert grown("vigil_database_writes_total") >= 2
    assert grown("vigil_database_write_seconds_total") >= 0.4
    assert grown("vigil_database_write_wait_seconds_total") >= 0.2  # the second waits for the first


async def test_a_deleted_server_is_told_no_more(api: Api) -> None:
    await api.add_node()
    await api.add_server()
    await api.call("DELETE", "/servers/one")
    assert "server=" not in (await scrape(api)).text


async def test_findings_and_benchmarks(api: Api) -> None:
    await api.add_node()
    await api.add_server()
    now = datetime.now(UTC)
    _, server = await api.call("GET", "/servers/one")
    _, profile = await api.call("GET", "/profiles/p")
    async with api.parts.control.database.write() as session:
        session.add(
            Finding(
                subject_id=server["id"], node_id=(await get_server(session, "one")).node_id, server_id=server["id"],
                code="kv_cache_full", summary="s", remedy="r", count=3, evidence=[], began_at=now,
            )
        )  # fmt: skip
        for number, verdict in enumerate(("regressed", "unchanged")):
            at = now - timedelta(days=1 - number)
            run = BenchmarkRun(
                id=new_id("br", at), benchmark="chat", server_id=server["id"], profile_id=profile["id"],
                source=RunSource.OWN, state=RunState.SUCCEEDED, repeats=1, actor="t", created_at=at,
                comparison={"verdict": verdict},
            )  # fmt: skip
            session.add(run)
            await session.flush()
            session.add(
                BenchmarkPoint(
                    run_id=run.id, point_index=0, comparability_key="k", profile_id=profile["id"], at=at, load="C=16",
                    version="v", status=ResultStatus.OK, repeats=1,
                    metrics={"output_throughput_tps": 24.8 + number, "ttft_p99_ms": 250.0},
                )
            )  # fmt: skip
    page = await scrape(api)
    assert page.value("vigil_finding_open", server="one", node="atlas", code="kv_cache_full") == 1
    point = {"profile": "p", "benchmark": "chat", "load": "C=16"}
    assert page.value("vigil_benchmark_output_tokens_per_second", **point) == pytest.approx(25.8)
    assert page.value("vigil_benchmark_ttft_p99_seconds", **point) == pytest.approx(0.25)
    assert page.value("vigil_benchmark_regressed", profile="p", benchmark="chat") == 0
    assert page.labels_of("vigil_benchmark_accept_length") == []


def test_names_follow_the_custom() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names)) > 30
    for metric in METRICS:
        assert metric.name.startswith(("vigil_", "process_"))
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name
        assert not metric.name.endswith(("_ms", "_mib", "_minutes")), "base units: seconds, bytes"


def test_a_histogram_counts_up_to_the_end_of_each_bucket() -> None:
    histogram = Histogram()
    for seconds in (0.5, 1.0, 1.1, 7200.0):
        histogram.add(seconds)
    counts = dict(histogram.cumulative())
    assert (counts["1.0"], counts["2.5"], counts["3600.0"], counts["+Inf"]) == (2, 3, 3, 4)
    assert histogram.total_s == pytest.approx(7202.6)


def test_a_thousand_profiles_do_not_make_a_thousand_histograms() -> None:
    tallies = Tallies(0)
    for number in range(1000):
        tallies._count_start(StartTimes(f"p{number}", 10.0, ((Phase.LOADING_WEIGHTS, 5.0),)))
    assert len(tallies.starts) == len(tallies.phases) == PROFILES_TOLD + 1
    assert tallies.starts[OTHER,].cumulative()[-1] == ("+Inf", 1000 - PROFILES_TOLD)


def test_what_stands_in_a_label_comes_back_as_it_was() -> None:
    odd = 'a "b" \\ c\nd, e="f"'
    text = "\n".join(labelled(METRICS[0], {(odd,): 1.0})) + "\n"
    (family,) = text_string_to_metric_families(text)
    assert [sample.labels for sample in family.samples] == [{"version": odd}]
