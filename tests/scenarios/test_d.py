"""The silent vigil: frozen in CUDA graph capture for eight hours, and nobody was told; then one that was only slow."""

from typing import Any

from tests.scenarios.conftest import SHORT_DRAFT, Stage, seconds_between, spent_s

HANG_AFTER_S = 5
NOTICE_S = 3.0
"""How much later than its deadline a hang may be told: a turn of the watch, on a busy machine."""


def frozen(stage: Stage, **fields: object) -> dict[str, Any]:
    """Return a recipe whose start freezes after graph 3 of 52."""
    return {**stage.kimi("scenario_d", limits={"hang_after_s": HANG_AFTER_S}), **fields}


def is_hung(server: Any) -> bool:
    return bool(server["verdict"] and server["verdict"]["verdict"] == "suspected_hung")


async def test_a_frozen_capture_is_told_within_its_deadline_and_by_default_nothing_is_done(stage: Stage) -> None:
    await stage.begin(frozen(stage))
    said = await stage.watch(is_hung)
    hung = said[-1]
    verdict = hung["verdict"]
    assert hung["state"] == "starting"
    assert verdict["phase"] == hung["launch"]["phase"] == "capturing_graphs"
    # The census of processes comes every five seconds: it may be the later mark of so short a start.
    assert verdict["last_mark"]["source"] in {"progress", "processes"}
    assert hung["launch"]["progress"] == {"done": 3, "total": 52, "unit": "graphs"}
    assert verdict["hung_at"] <= verdict["since_at"]
    assert HANG_AFTER_S <= seconds_between(verdict["last_mark_at"], verdict["since_at"]) <= HANG_AFTER_S + NOTICE_S
    assert f"{verdict['last_mark_at'][11:19]}, " in verdict["message"]
    assert "3 of 52 graphs" in verdict["message"]
    assert "deadline 5 s: the profile sets hang_after_s to 5" in verdict["message"]
    assert {"progress", "cpu", "listener"} <= set(verdict["still_since"])
    assert verdict["since_last_mark"]["read_bytes"] == 0

    order = [server["verdict"]["verdict"] for server in said if server["verdict"]]
    assert list(dict.fromkeys(order)) == ["progressing", "slow", "suspected_hung"]
    rows = await stage.until_recorded("suspected_hung")
    assert [row["after"] for row in rows][-2:] == ["slow", "suspected_hung"]
    assert rows[-1]["subject"] == "verdict"
    assert "3 of 52 graphs" in rows[-1]["message"]

    launch = await stage.until(f"/launches/{hung['launch']['id']}", lambda launch: launch["hang_evidence"])
    assert "Capturing batches" in launch["hang_evidence"]["log_tail"]
    assert "RTX PRO 6000" in launch["hang_evidence"]["nvidia_smi"]
    assert launch["hang_evidence"]["stacks"]
    assert min(await stage.used_mib()) > 70_000
    status, waited = await stage.api.call("GET", "/servers/one/wait?timeout_s=0.2")
    assert (status, waited["context"]["state"], waited["context"]["phase"]) == (504, "starting", "capturing_graphs")
    assert waited["context"]["server"]["verdict"]["verdict"] == "suspected_hung"
    assert [row["reason"] for row in await stage.transitions(subject="server")] == ["launch_requested"]
    assert hung["launch"]["number"] == 1


async def test_a_policy_may_stop_a_hung_start(stage: Stage) -> None:
    await stage.begin(frozen(stage, on_hang="stop"))
    stopped = await stage.until_state("one", "stopped")
    assert (stopped["reason"], stopped["desired"]) == ("stop_verified", "stopped")
    (acted,) = await stage.transitions(reason="suspected_hung")
    assert acted["evidence"]["policy"] == "stop"
    (requested,) = await stage.transitions(reason="stop_requested")
    assert requested["actor"] == "policy"
    launch = await stage.launch_of()
    assert launch["hang_evidence"]["log_tail"]
    assert launch["leftovers"]["processes"] == launch["leftovers"]["gpu"] == launch["leftovers"]["shm"] == []
    assert max(await stage.used_mib()) < 1000


async def test_a_policy_may_restart_a_hung_start_until_it_hangs_the_same_way_again(stage: Stage) -> None:
    await stage.begin(frozen(stage, on_hang="restart", restart={"pause_s": 0, "same_diagnosis": 2}))
    second = await stage.until("/servers/one", lambda server: server["launch"] and server["launch"]["number"] == 2)
    assert second["desired"] == "running"
    braked = await stage.until(
        "/transitions?server=one&reason=suspected_hung",
        lambda page: [row["evidence"]["policy"] for row in page["items"]] == ["brake", "restart"],
    )
    assert "suspected_hung came 2 times in a row" in braked["items"][0]["message"]
    server = await stage.get("/servers/one")
    assert (server["state"], server["launch"]["number"]) == ("starting", 2)
    assert is_hung(server)
    policy = [item for item in (await stage.get("/operations?server=one"))["items"] if item["actor"] == "policy"]
    assert [item["kind"] for item in policy] == ["restart"]


async def test_a_slow_capture_is_never_hung_while_its_graphs_move(stage: Stage) -> None:
    await stage.begin(stage.kimi("scenario_d_slow", limits={"hang_after_s": HANG_AFTER_S}))
    said = await stage.watch_start()
    assert said[-1]["state"] == "ready"
    verdicts = {server["verdict"]["verdict"] for server in said if server["verdict"]}
    assert verdicts <= {"progressing", "slow", "healthy"}
    assert "suspected_hung" not in await stage.verdicts()
    launch = await stage.launch_of()
    assert spent_s(launch, "capturing_graphs") > 2 * HANG_AFTER_S


async def test_a_draft_made_for_half_the_context_is_named_with_both_numbers_and_remedies(stage: Stage) -> None:
    short = stage.kimi("scenario_d_slow", scale=0.1, draft=SHORT_DRAFT)
    failed = await stage.refused(short)
    context = failed["draft_context_length"]
    assert all(words in context["found"] for words in ("262144", "131072", "short-eagle3/config.json"))
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1" in context["remedy"]
    assert "--context-length 131072" in context["remedy"]

    await stage.begin(short, override=list(failed))
    problem = await stage.fail()
    diagnosis = problem["context"]["server"]["launch"]["diagnosis"]
    assert diagnosis["code"] == "draft_context_mismatch"
    proof = " ".join(item["text"] for item in diagnosis["evidence"])
    assert all(words in proof for words in ("Warning: ", "262144", "131072"))
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1" in diagnosis["remedy"]
    assert "config.json" in diagnosis["remedy"]
    assert diagnosis["summary"] in problem["detail"]

    recipe = stage.kimi("scenario_d_slow", scale=0.1, draft=SHORT_DRAFT)
    recipe["env"]["SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"] = "1"
    await stage.begin(recipe, server="mended")
    mended = await stage.get("/servers/mended/wait?timeout_s=30")
    assert mended["launch"]["diagnosis"] is None
