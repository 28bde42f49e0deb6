"""Benchmarks over HTTP: definitions, imports, baselines, comparisons, histories, pictures."""

import json
from typing import Any

import pytest

from service.benchmarks.presets import PRESETS, SLO_TEMPLATES
from tests.api.bench_files import STEADY_90, get, import_file, line, lines, make_profile
from tests.api.conftest import Api
from tests.benchmarks.tool_files import (
    aiperf,
    as_bytes,
    evalscope_percentiles,
    evalscope_summary,
    genai_perf,
    guidellm,
    sglang_line,
    vllm,
)

WORKLOAD = {
    "dataset": {"kind": "random_ids", "input_tokens": 128, "output_tokens": 32},
    "load": {"kind": "closed", "concurrency": [1, 8]},
}
SECRET = "sk-4f9a1c-of-somebody"  # noqa: S105


async def test_a_workload_is_defined_once_and_never_changed(api: Api) -> None:
    body = {"name": "mine", "workload": WORKLOAD}
    status, made = await api.call("POST", "/benchmarks", body)
    assert (status, made["loads"]) == (201, ["concurrency 1", "concurrency 8"])
    assert made["workload"]["flush_cache"] is True
    assert (await api.call("POST", "/benchmarks", body))[1]["code"] == "name_taken"
    assert (await api.call("POST", "/benchmarks", {**body, "name": "smoke"}))[1]["code"] == "name_taken"
    assert await get(api, "/benchmarks/mine") == made == await get(api, f"/benchmarks/{made['id']}")
    assert (await get(api, "/benchmarks"))["items"] == [made]
    assert (await api.call("DELETE", "/benchmarks/mine"))[0] == 204
    assert (await api.call("DELETE", "/benchmarks/smoke"))[0] == 404
    await get(api, "/benchmarks/mine", expect=404)
    assert (await api.call("POST", "/benchmarks", body))[0] == 201


async def test_a_workload_that_contradicts_itself_is_refused_with_the_reason(api: Api) -> None:
    sweep = {"kind": "closed", "concurrency": [4, 4]}
    status, problem = await api.call("POST", "/benchmarks", {"name": "x", "workload": {**WORKLOAD, "load": sweep}})
    assert (status, problem["code"]) == (422, "invalid_input")
    assert "no point twice" in problem["detail"]


async def test_what_is_shipped_is_listed_with_its_limits(api: Api) -> None:
    presets = await get(api, "/benchmark-presets")
    assert [item["name"] for item in presets["benchmarks"]] == list(PRESETS)
    assert {item["name"]: item["limits"]["ttft_ms"] for item in presets["slo_templates"]} == {
        name: limits.ttft_ms for name, limits in SLO_TEMPLATES.items()
    }
    assert (await get(api, "/benchmarks/smoke"))["id"] is None


@pytest.mark.parametrize(
    ("content", "tool"),
    [
        (sglang_line(), "sglang"),
        (as_bytes(vllm()), "vllm"),
        (as_bytes(guidellm()), "guidellm"),
        (as_bytes(aiperf()), "aiperf"),
        (as_bytes(genai_perf()), "genai_perf"),
        (as_bytes(evalscope_summary()) + b"\n" + as_bytes(evalscope_percentiles()), "evalscope"),
    ],
)
async def test_a_file_of_each_tool_becomes_a_run(api: Api, content: bytes, tool: str) -> None:
    made = await import_file(api, content)
    assert (made["source"], made["server"], made["benchmark"]) == ("import", None, None)
    run = await get(api, f"/benchmark-runs/{made['id']}")
    assert run["state"] in {"succeeded", "degraded"}
    assert run["ended_at"] == run["created_at"]
    assert run["points"]
    assert run["results"][0]["metrics"]["output_throughput_tps"] > 0
    (first, *_) = (await get(api, f"/benchmark-runs/{made['id']}/results"))["items"]
    assert first["result"]["client"]["tool"].replace("-", "_") == tool
    assert first["result"]["is_imported"] is True
    raw = await api.http.get(f"/api/v1/benchmark-runs/{made['id']}/raw")
    assert raw.content.rstrip(b"\n") == content.rstrip(b"\n")
    assert raw.headers["X-Content-Type-Options"] == "nosniff"


async def test_lines_of_one_point_are_repeats_and_others_are_points(api: Api) -> None:
    content = lines([90, 91, 92]) + b"\n" + lines([300, 301], concurrency=16)
    made = await import_file(api, content, "gpu_count=8&gpu_model=B200&model=kimi-k2")
    assert [(point["load"], point["repeats"]) for point in made["points"]] == [("C=3", 3), ("C=16", 2)]
    assert (made["repeats"], made["model"]) == (3, "kimi-k2")
    assert made["points"][0]["metrics"]["output_throughput_tps"] == pytest.approx(91)
    run = await get(api, f"/benchmark-runs/{made['id']}")
    assert run["points"][0]["metrics"]["output_throughput_tps_per_gpu"] == pytest.approx(91 / 8)
    assert [(item["point_index"], item["repeat_index"]) for item in run["results"]] == [
        *((0, index) for index in range(3)),
        *((1, index) for index in range(2)),
    ]


async def test_failed_requests_make_an_import_degraded_and_no_baseline(api: Api) -> None:
    await make_profile(api)
    made = await import_file(api, sglang_line("sglang-0.5.23-failures.jsonl"), "profile=kimi")
    assert (made["state"], made["points"][0]["repeats"], made["points"][0]["metrics"]) == ("degraded", 0, {})
    status, problem = await api.call("PUT", "/profiles/kimi/baseline", {"run": made["id"]})
    assert (status, problem["code"]) == (422, "invalid_input")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"<html>", "html"),
        (as_bytes(vllm())[:-30], "truncated"),
        (b"[" * 5000, "too_deep"),
        (as_bytes({"some": "thing"}), "unknown_tool"),
    ],
)
async def test_a_wrong_file_is_told_with_its_reason(api: Api, content: bytes, reason: str) -> None:
    problem = await import_file(api, content, expect=422)
    assert (problem["code"], problem["context"]) == ("result_file_rejected", {"reason": reason})
    assert (await get(api, "/benchmark-runs"))["items"] == []


async def test_a_file_that_is_too_large_is_refused_before_it_is_read(api: Api) -> None:
    headers = {"Content-Length": str(2 * 1024**3)}

    async def pieces() -> Any:
        raise AssertionError("the body was read")
        yield b""

    answer = await api.http.post("/api/v1/benchmark-runs/import", content=pieces(), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert "summary file" in answer.json()["remedy"]


async def test_a_file_larger_than_a_usual_body_is_taken(api: Api) -> None:
    content = line(90.0, generated_texts=["x" * 2_000_000])
    made = await import_file(api, content)
    run = await get(api, f"/benchmark-runs/{made['id']}")
    assert run["files"][0]["size_bytes"] == len(content)


async def test_a_file_is_counted_once_for_a_profile(api: Api) -> None:
    await make_profile(api)
    made = await import_file(api, sglang_line(), "profile=kimi")
    problem = await import_file(api, sglang_line(), "profile=kimi", expect=409)
    assert (problem["code"], problem["context"]) == ("already_imported", {"run": made["id"]})
    await import_file(api, sglang_line())


async def test_the_same_key_with_another_question_is_refused(api: Api) -> None:
    await make_profile(api)

    async def send(query: str) -> Any:
        headers = {"Idempotency-Key": "k1"}
        url = f"/api/v1/benchmark-runs/import?{query}"
        return await api.http.post(url, content=sglang_line(), headers=headers)

    first, again, other = await send("profile=kimi"), await send("profile=kimi"), await send("benchmark=smoke")
    assert (first.status_code, again.json()["id"]) == (201, first.json()["id"])
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


async def test_secrets_of_a_file_are_neither_kept_nor_shown(api: Api) -> None:
    info = {"version": "0.5.23", "api_key": SECRET, "launch_command": f"sglang --api-key {SECRET} --tp 1"}
    made = await import_file(api, line(90.0, server_info=info, extra={"hf_token": SECRET}))
    run = await get(api, f"/benchmark-runs/{made['id']}")
    assert run["files"][0]["is_redacted"] is True
    results = await get(api, f"/benchmark-runs/{made['id']}/results")
    raw = (await api.http.get(f"/api/v1/benchmark-runs/{made['id']}/raw")).text
    assert "***" in raw
    assert SECRET not in json.dumps([made, run, results]) + raw
    database = api.parts.control.settings.resolved_state_dir()
    assert not [path for path in database.rglob("vigil.db*") if SECRET.encode() in path.read_bytes()]


async def test_an_import_is_of_a_server_or_a_profile(api: Api) -> None:
    await api.add_node()
    await api.add_server()
    made = await import_file(api, sglang_line(), "server=one&benchmark=smoke")
    assert (made["server"], made["profile"], made["node"], made["benchmark"]) == ("one", "p", "atlas", "smoke")
    for query in ("server=one&profile=p", "profile_version=1"):
        assert (await import_file(api, line(1.0), query, expect=422))["code"] == "invalid_input"
    for query in ("server=two", "profile=two", "profile=p&profile_version=2"):
        await import_file(api, line(1.0), query, expect=404)


async def test_lists_are_narrowed(api: Api) -> None:
    await make_profile(api)
    ids = [
        (await import_file(api, line(90.0 + index), query))["id"]
        for index, query in enumerate(("profile=kimi&benchmark=smoke&model=m1", "profile=kimi", "benchmark=smoke"))
    ]

    async def listed(query: str) -> list[str]:
        return [item["id"] for item in (await get(api, f"/benchmark-runs?{query}"))["items"]]

    assert await listed("") == sorted(ids, reverse=True)
    assert set(await listed("profile=kimi")) == set(ids[:2])
    assert set(await listed("benchmark=smoke")) == {ids[0], ids[2]}
    assert await listed("model=m1&source=import&state=succeeded") == [ids[0]]
    assert await listed("source=own") == []
    assert await listed("since=2100-01-01T00:00:00Z") == []
    assert set(await listed("since=2020-01-01T00:00:00Z")) == set(ids)
    page = await get(api, "/benchmark-runs?limit=2")
    rest = await get(api, f"/benchmark-runs?limit=2&cursor={page['next_cursor']}")
    assert [item["id"] for item in (*page["items"], *rest["items"])] == sorted(ids, reverse=True)
    assert (await api.call("GET", "/benchmark-runs?profile=other"))[0] == 404


async def test_a_mistaken_import_can_be_removed_but_no_baseline(api: Api) -> None:
    await make_profile(api)
    made = await import_file(api, lines(STEADY_90), "profile=kimi")
    other = await import_file(api, lines([80, 81]), "profile=kimi")
    assert (await api.call("PUT", "/profiles/kimi/baseline", {"run": made["id"]}))[0] == 200
    assert (await api.call("DELETE", f"/benchmark-runs/{made['id']}"))[1]["code"] == "in_use"
    assert (await api.call("DELETE", f"/benchmark-runs/{other['id']}"))[0] == 204
    for path in ("", "/results", "/raw"):
        await get(api, f"/benchmark-runs/{other['id']}{path}", expect=404)
    await import_file(api, lines([80, 81]), "profile=kimi")
