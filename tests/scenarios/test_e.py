"""The 890-second wait: three crashes for misspelt and missing numbers, then 820 s that nobody could explain."""

from typing import Any

from tests.scenarios.conftest import THREE_NUMBERS, Stage, phases, seconds_between, spent_s

SCALE = 0.7
"""On top of the script's: eleven seconds for the story's 890. The log's instants are whole seconds."""


async def crash(stage: Stage, number: int, numbers: dict[str, object]) -> Any:
    """Launch with these speculative numbers against all advice, wait as the operator would, return the diagnosis."""
    name = f"try-{number}"
    recipe = stage.kimi("scenario_e", scale=SCALE, numbers=numbers)
    await stage.begin(recipe, server=name, override=list(await stage.refused(recipe, server=name)))
    problem = await stage.fail(name)
    diagnosis = problem["context"]["server"]["launch"]["diagnosis"]
    assert diagnosis["summary"] in problem["detail"]
    return diagnosis


async def test_each_of_the_three_mistakes_fails_the_preflight_with_the_right_flag_named(stage: Stage) -> None:
    misspelt = stage.kimi("scenario_e", numbers={**THREE_NUMBERS, "num-speculative-tokens": 4})
    judged = (await stage.refused(misspelt))["engine_arguments"]
    assert "--num-speculative-tokens" in judged["found"]
    assert "--speculative-num-draft-tokens" in judged["remedy"]
    for left_out in ("speculative-num-steps", "speculative-eagle-topk"):
        two = {name: value for name, value in THREE_NUMBERS.items() if name != left_out}
        judged = (await stage.refused(stage.kimi("scenario_e", numbers=two)))["engine_arguments"]
        assert f"--{left_out}" in judged["found"] + judged["remedy"]
    assert (await stage.get("/servers"))["items"] == [], "nothing was placed, nothing was launched"


async def test_three_crashes_are_explained_and_the_fourth_start_tells_where_its_time_goes(stage: Stage) -> None:
    misspelt = await crash(stage, 1, {**THREE_NUMBERS, "num-speculative-tokens": 4})
    assert misspelt["code"] == "invalid_argument"
    assert any("--num-speculative-tokens" in item["text"] for item in misspelt["evidence"])
    for number, left_out in ((2, "speculative-num-steps"), (3, "speculative-eagle-topk")):
        two = {name: value for name, value in THREE_NUMBERS.items() if name != left_out}
        incomplete = await crash(stage, number, two)
        assert incomplete["code"] == "speculative_args_incomplete"
        assert "--speculative-num-draft-tokens" in incomplete["summary"] + incomplete["remedy"]

    await stage.begin(stage.kimi("scenario_e", scale=SCALE))
    said = await stage.watch_start()
    assert said[-1]["state"] == "ready"
    assert all(server["eta"] is None for server in said)
    counted = [(server["launch"]["phase"], server["launch"]["progress"]) for server in said if server["launch"]]
    kernels = [progress["done"] for phase, progress in counted if phase == "compiling_kernels" and progress]
    assert len(set(kernels)) > 3
    assert kernels == sorted(kernels)

    launch = await stage.launch_of()
    assert {"loading_weights", "compiling_kernels", "capturing_graphs", "warming_up"} <= set(phases(launch))
    loaded = next(stay["progress"] for stay in launch["timeline"] if stay["phase"] == "loading_weights")
    assert (loaded["total"], loaded["unit"]) == (64, "shards")  # the first rank to end it may cut the bar of another
    assert 0 < loaded["done"] <= 64
    stays = [stay for stay in launch["timeline"] if stay["phase"] != "serving"]
    in_all_s = seconds_between(stays[0]["started_at"], launch["ready_at"])
    explained_s = sum(seconds_between(stay["started_at"], stay["ended_at"]) for stay in stays)
    assert explained_s > 0.8 * in_all_s
    unexplained_before = ("compiling_kernels", "capturing_graphs", "warming_up")
    assert sum(spent_s(launch, phase) for phase in unexplained_before) > 3 * spent_s(launch, "loading_weights")
    assert max(unexplained_before, key=lambda phase: spent_s(launch, phase)) == "compiling_kernels"


async def test_after_three_starts_the_time_that_is_left_is_told_with_a_range(stage: Stage) -> None:
    await stage.begin(stage.kimi("scenario_e", scale=0.2))
    await stage.get("/servers/one/wait?timeout_s=30")
    for _ in range(2):
        await stage.post("/servers/one/restart")
        await stage.get("/servers/one/wait?timeout_s=30")
    assert (await stage.get("/profiles/kimi/startup-history"))["last"] is None
    await stage.post("/servers/one/restart")
    await stage.until("/servers/one", lambda server: server["launch"]["number"] == 4 and server["launch"]["phase"])
    said = await stage.watch_start()
    etas = [server["eta"] for server in said if server["eta"]]
    assert {eta["learned_from_starts"] for eta in etas} == {3}
    assert {eta["learned_from"] for eta in etas} == {"profile_on_node"}
    assert all(0 <= eta["remaining_p50_s"] <= eta["remaining_p90_s"] for eta in etas)
    assert 0 < etas[0]["remaining_p50_s"] < etas[0]["remaining_p90_s"] < 30
    assert etas[-1]["remaining_p50_s"] < etas[0]["remaining_p50_s"]
    ahead = [item["phase"] for item in etas[0]["phases"]]
    assert ahead.index("compiling_kernels") < ahead.index("capturing_graphs") < ahead.index("warming_up")

    history = await stage.get("/profiles/kimi/startup-history?node=atlas")
    assert len(history["starts"]) == 4
    counts = {item["phase"]: item["start_count"] for item in history["phases"]}
    assert counts["loading_weights"] == counts["compiling_kernels"] == counts["capturing_graphs"] == 4
    assert history["last"]["start_count"] == 3
    assert history["last"]["verdict"] == "usual"


async def test_a_misspelt_flag_is_tried_again_after_a_pause_and_then_braked(stage: Stage) -> None:
    numbers = {**THREE_NUMBERS, "num-speculative-tokens": 4}
    recipe = stage.kimi("scenario_e", numbers=numbers, on_crash="restart", restart={"pause_s": 2, "same_diagnosis": 2})
    await stage.begin(recipe, override=list(await stage.refused(recipe)))
    pausing = await stage.until("/servers/one", lambda server: (server["operation"] or {}).get("step") == "pausing")
    assert pausing["state"] == "failed"
    first, not_before = pausing["launch"], pausing["operation"]["not_before_at"]
    assert first["diagnosis"]["code"] == "invalid_argument"
    status, problem = await stage.api.call("GET", "/servers/one/wait?timeout_s=30")
    assert (status, problem["code"]) == (409, "wait_pointless")
    second = problem["context"]["server"]["launch"]
    assert (second["number"], second["diagnosis"]["code"]) == (2, "invalid_argument")
    assert second["created_at"] >= not_before > first["ended_at"]
    braked = await stage.until("/transitions?server=one&reason=restart_braked", lambda page: page["items"])
    assert "invalid_argument came 2 times in a row" in braked["items"][0]["message"]
    server = await stage.get("/servers/one")
    assert (server["state"], server["desired"], server["launch"]["number"]) == ("failed", "stopped", 2)
