"""Baselines, comparisons, histories and pictures over HTTP."""

import xml.etree.ElementTree as ET

import pytest

from tests.api.bench_files import STEADY_90, get, import_file, line, lines, make_profile, regressions, steady
from tests.api.conftest import Api
from tests.benchmarks.tool_files import sglang_line


async def test_each_benchmark_of_a_profile_has_its_baseline(api: Api) -> None:
    await make_profile(api)
    await make_profile(api, "other")
    first = await import_file(api, lines(STEADY_90), "profile=kimi&benchmark=smoke")
    second = await import_file(api, lines([80, 81, 82]), "profile=kimi&benchmark=smoke")
    unnamed = await import_file(api, lines([70, 71]), "profile=kimi")
    for run in (first, second, unnamed):
        status, made = await api.call("PUT", "/profiles/kimi/baseline", {"run": run["id"]})
        assert (status, made["run"], made["actor"]) == (200, run["id"], "open")
    found = await get(api, "/profiles/kimi/baselines")
    assert [(item["benchmark"], item["run"]) for item in found] == [(None, unnamed["id"]), ("smoke", second["id"])]
    assert await get(api, "/profiles/other/baselines") == []
    status, problem = await api.call("PUT", "/profiles/other/baseline", {"run": first["id"]})
    assert (status, problem["code"]) == (422, "invalid_input")
    assert (await api.call("PUT", "/profiles/kimi/baseline", {"run": "br_0"}))[0] == 404


async def test_a_run_is_compared_with_its_baseline_by_itself_and_a_regression_is_an_event(api: Api) -> None:
    await make_profile(api)
    base = await import_file(api, lines(STEADY_90, accept_length=3.1), "profile=kimi&benchmark=smoke")
    assert base["baseline"] is None
    await api.call("PUT", "/profiles/kimi/baseline", {"run": base["id"]})
    same = await import_file(api, lines(steady(90, seed=1)), "profile=kimi&benchmark=smoke")
    assert same["baseline"]["verdict"] in {"equivalent", "inconclusive"}
    assert await regressions(api) == []
    slow = await import_file(
        api, lines(steady(24.8, seed=2), accept_length=1.0), "profile=kimi&profile_version=1&benchmark=smoke"
    )
    verdict = slow["baseline"]
    assert (verdict["verdict"], verdict["baseline_run_id"]) == ("regressed", base["id"])
    (point,) = verdict["points"]
    assert point["ratio"] == pytest.approx(24.8 / 90, rel=0.02)
    assert point["accept_length"] == {"baseline": pytest.approx(3.1), "candidate": 1.0}
    (told,) = await regressions(api)
    assert told["run_id"] == slow["id"]
    assert told["points"][0]["accept_length"]["candidate"] == 1.0
    elsewhere = await import_file(api, lines(steady(20, seed=3)), "profile=kimi")
    assert elsewhere["baseline"] is None


async def test_a_comparison_tells_ratio_interval_and_what_was_changed(api: Api) -> None:
    base = await import_file(api, lines(STEADY_90))
    slow = await import_file(api, lines(steady(80, seed=4)))
    made = await get(api, f"/benchmark-comparisons?baseline={base['id']}&candidate={slow['id']}")
    (point,) = made["points"]
    assert (made["verdict"], point["verdict"], point["primary"]) == ("regressed",) * 2 + ("output_throughput_tps",)
    primary = point["metrics"][0]
    assert primary["ratio_low"] < primary["ratio"] < primary["ratio_high"] < 1
    assert len(primary["baseline_values"]) == 5
    assert "ttft_p99_ms" in {item["metric"] for item in point["metrics"]}
    assert made["baseline_runs"] == [base["id"]]
    lenient = await get(
        api, f"/benchmark-comparisons?baseline={base['id']}&candidate={slow['id']}&threshold=0.5&metric=ttft_p50_ms"
    )
    assert lenient["verdict"] == "equivalent"
    assert [item["metric"] for item in lenient["points"][0]["metrics"]] == ["output_throughput_tps", "ttft_p50_ms"]


async def test_what_may_not_be_compared_says_why_unless_it_is_accepted(api: Api) -> None:
    first = await import_file(api, lines(STEADY_90), "gpu_model=H100&gpu_count=8")
    second = await import_file(api, lines(STEADY_90, tag="x"), "gpu_model=B200&gpu_count=8")
    path = f"/benchmark-comparisons?baseline={first['id']}&candidate={second['id']}"
    made = await get(api, path)
    assert made["verdict"] == "not_comparable"
    difference = {"field": "gpu_model", "baseline": "H100", "candidate": "B200"}
    assert made["points"][0]["key_differences"] == [difference]
    assert (await get(api, f"{path}&accept=gpu_model"))["verdict"] == "equivalent"


async def test_a_run_that_cannot_be_compared_ends_all_the_same(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a fault in the statistics would keep its server from ever being measured again."""
    await make_profile(api)
    base = await import_file(api, lines(steady(90, seed=1)), "profile=kimi&benchmark=smoke")
    await api.call("PUT", "/profiles/kimi/baseline", {"run": base["id"]})

    def compare_runs(*_: object, **__: object) -> None:
        raise OverflowError("math range error")

    monkeypatch.setattr("service.operations.comparing.compare_runs", compare_runs)
    run = await import_file(api, lines(steady(90, seed=2)), "profile=kimi&benchmark=smoke")
    assert (run["state"], run["baseline"]) == ("succeeded", None)


async def test_several_runs_are_one_side_and_a_profile_is_its_baseline(api: Api) -> None:
    await make_profile(api)
    single = [await import_file(api, line(value), "profile=kimi") for value in STEADY_90]
    slow = await import_file(api, lines(steady(60, seed=5)), "profile=kimi")
    query = "&".join(f"baseline={run['id']}" for run in single)
    made = await get(api, f"/benchmark-comparisons?{query}&candidate={slow['id']}")
    assert (made["verdict"], len(made["baseline_runs"])) == ("regressed", 5)
    one = await import_file(api, line(60.0), "profile=kimi")
    path = f"/benchmark-comparisons?baseline=kimi&candidate={one['id']}"
    assert "no baseline" in (await get(api, path, expect=404))["detail"]
    await api.call("PUT", "/profiles/kimi/baseline", {"run": single[0]["id"]})
    alone = await get(api, path)
    assert (alone["verdict"], alone["baseline_runs"]) == ("inconclusive", [single[0]["id"]])


@pytest.mark.parametrize(
    "query", ["baseline=br_0&candidate=br_1", "candidate=br_1", "baseline={run}&candidate={run}&primary=nonsense"]
)
async def test_a_comparison_of_what_is_not_there_is_refused(api: Api, query: str) -> None:
    run = await import_file(api, sglang_line())
    status, problem = await api.call("GET", f"/benchmark-comparisons?{query.format(run=run['id'])}")
    assert (status, problem["code"]) in {(404, "not_found"), (422, "invalid_input")}


async def test_a_history_tells_where_a_metric_changed_for_good(api: Api) -> None:
    await make_profile(api)
    runs = []
    for index in range(16):
        mean = 90.0 if index < 9 else 60.0
        content = lines(steady(mean, seed=index, repeats=2), tag=str(index))
        runs.append(await import_file(api, content, f"profile=kimi&benchmark=nightly&engine_version=0.5.{index // 9}"))
    await import_file(api, lines([10.0], concurrency=64), "profile=kimi&benchmark=other")
    told = await get(api, "/benchmark-history?profile=kimi&metric=output_throughput_tps&benchmark=nightly")
    assert [point["run"] for point in told["points"]] == [run["id"] for run in runs]
    (change,) = told["changes"]
    assert (change["run"], change["kind"]) == (runs[9]["id"], "regressed")
    assert (told["series"]["points"], told["other_series"], told["unit"]) == (16, [], "tok/s")
    newest = await get(api, "/benchmark-history?profile=kimi")
    assert (newest["series"]["benchmark"], len(newest["other_series"])) == ("other", 1)
    assert newest["reason"] == "1 runs: changes are told from 8 on"
    by_key = await get(api, f"/benchmark-history?profile=kimi&key={told['series']['key']}&limit=8")
    assert [point["run"] for point in by_key["points"]] == [run["id"] for run in runs[8:]]
    table = await api.http.get("/api/v1/benchmark-history/plot.csv?profile=kimi&benchmark=nightly")
    assert len(table.text.splitlines()) == 17
    assert table.headers["content-type"].startswith("text/csv")


async def test_a_history_that_is_not_there_is_told(api: Api) -> None:
    await make_profile(api)
    for query in ("profile=kimi", "profile=other", "profile=kimi&benchmark=x"):
        await get(api, f"/benchmark-history?{query}", expect=404)
    for query in ("profile=kimi&metric=x", "profile=kimi&key=x", "profile=kimi&limit=0"):
        await get(api, f"/benchmark-history?{query}", expect=422)


async def test_pictures_can_run_and_load_nothing(api: Api) -> None:
    await make_profile(api)
    content = lines(STEADY_90) + b"\n" + lines(steady(200, seed=9), concurrency=16)
    run = await import_file(api, content, "profile=kimi&gpu_count=8&engine_version=%3Cscript%3E")
    sides = f"baseline={run['id']}&candidate={run['id']}"
    paths = (
        f"/benchmark-comparisons/plot.svg?{sides}",
        f"/benchmark-comparisons/plot.svg?{sides}&x=ttft_p50_ms",
        f"/benchmark-comparisons/plot.svg?{sides}&picture=latency&metric=ttft_p99_ms",
        "/benchmark-history/plot.svg?profile=kimi",
    )
    for path in paths:
        answer = await api.http.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        policy = answer.headers["Content-Security-Policy"]
        assert policy == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
        assert answer.headers["content-type"] == "image/svg+xml"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert ET.fromstring(answer.text).tag.endswith("svg")  # noqa: S314  our own
        assert "<script" not in answer.text
    table = await api.http.get(f"/api/v1/benchmark-comparisons/plot.csv?{sides}")
    assert table.headers["Content-Disposition"] == 'attachment; filename="benchmark-comparison.csv"'
    assert len(table.text.splitlines()) == 5
    limited = await api.http.get(f"/api/v1{paths[2]}")
    assert "ttft limit 2000" in limited.text.replace(",", "")


async def test_earlier_runs_of_the_same_tell_how_much_a_single_run_varies(api: Api) -> None:
    await make_profile(api)
    await make_profile(api, "other")
    base = await import_file(api, line(90.0), "profile=kimi")
    lone = await import_file(api, line(80.0), "profile=other")
    slow = await import_file(api, line(70.0), "profile=kimi")
    path = f"/benchmark-comparisons?baseline={base['id']}&candidate={slow['id']}"
    assert "no noise estimate" in (await get(api, path))["points"][0]["reasons"][0]
    for number, value in enumerate((89.0, 92.0, 86.0, 94.0, 91.0, 88.0) * 2):
        await import_file(api, line(value, tag=f"night-{number}"), "profile=kimi")
    made = await get(api, path)
    (point,) = made["points"]
    assert (made["verdict"], point["reasons"]) == ("regressed", [])
    assert point["metrics"][0]["threshold"] == pytest.approx(0.070, abs=0.001)
    assert any("12 earlier runs of the same" in caution for caution in point["cautions"])
    near = await import_file(api, line(86.5), "profile=kimi")
    made = await get(api, f"/benchmark-comparisons?baseline={base['id']}&candidate={near['id']}")
    assert made["verdict"] == "inconclusive"
    made = await get(api, f"/benchmark-comparisons?baseline={lone['id']}&candidate={slow['id']}")
    assert "no noise estimate" in made["points"][0]["reasons"][0]


async def test_each_of_many_series_is_found_by_its_key(api: Api) -> None:
    await make_profile(api)
    run = await import_file(api, b"\n".join(line(90.0, concurrency=level) for level in range(1, 61)), "profile=kimi")
    for point in run["points"]:
        told = await get(api, f"/benchmark-history?profile=kimi&key={point['comparability_key']}")
        assert (told["series"]["load"], len(told["points"])) == (point["load"], 1)
        assert len(told["other_series"]) == 49
