"""The 320-second wait: /health never says "ok"; and a speculation that costs time and accepts nothing.

The operator's loop looked for a word in an empty body while the server was long up. Then every request was slow.
"""

import asyncio
import re
from datetime import UTC, datetime

from tests.scenarios.conftest import MISNAMED_DRAFT, OLD_ENGINE, Operator, Stage, instant

A_SECOND_OR_SO = 2.0
FIVE_DRAFT_TOKENS: dict[str, object] = {
    "speculative-num-steps": 4,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 5,
}


async def test_ready_comes_with_the_first_200_whose_body_is_empty(stage: Stage) -> None:
    made = await stage.begin(stage.kimi("scenario_a", python=stage.atlas.engine_pythons[OLD_ENGINE]))
    operator = Operator(made["server"]["port"])
    asking = asyncio.create_task(operator.poll_health())
    await stage.until("/servers/one", lambda server: server["launch"]["phase"] == "warming_up")
    status, too_early = await stage.api.call("GET", "/servers/one/wait?timeout_s=0.1")
    assert (status, too_early["code"]) == (504, "wait_timed_out")
    assert (too_early["context"]["state"], too_early["context"]["phase"]) == ("starting", "warming_up")
    assert too_early["context"]["server"]["eta"] is None
    ready = await stage.get("/servers/one/wait?timeout_s=30")
    first_200_at = await asyncio.wait_for(asking, 10)
    assert {status for status, _ in operator.answers} == {503, 200}
    assert {body for _, body in operator.answers} == {b""}
    assert abs((instant(ready["state_since_at"]) - first_200_at).total_seconds()) < A_SECOND_OR_SO
    (became_ready,) = await stage.transitions(reason="became_ready")
    assert became_ready["evidence"]["health"]["status_code"] == 200
    assert became_ready["evidence"]["listener"] == {"owner": "ours", "pid": ready["launch"]["pid"]}


async def test_speculation_that_accepts_nothing_is_found_under_load_and_unknown_when_idle(stage: Stage) -> None:
    old = stage.atlas.engine_pythons[OLD_ENGINE]
    recipe = stage.kimi("scenario_a", python=old, draft=MISNAMED_DRAFT, numbers=FIVE_DRAFT_TOKENS)
    made = await stage.begin(recipe, override=["draft_weight_keys"])
    ready = await stage.get("/servers/one/wait?timeout_s=30")
    assert ready["findings"] == []
    idle = ready["acceptance"]
    assert (idle["judgement"], idle["newest"]) == ("unknown", None)
    assert (idle["algorithm"], idle["floor"], idle["floor_source"]) == ("EAGLE3", 1.7, "hint")
    history = f"/launches/{ready['launch']['id']}/acceptance"
    assert await stage.get(history) == {"items": [], "next_cursor": None}
    before_load = datetime.now(UTC)
    operator = Operator(made["server"]["port"])
    await asyncio.gather(*(operator.generate(320) for _ in range(3)))
    loaded = await stage.until("/servers/one", lambda server: server["findings"] and server["acceptance"]["newest"])
    (finding,) = loaded["findings"]
    assert (finding["code"], finding["ended_at"]) == ("speculation_ineffective", None)
    assert finding["count"] >= 5
    assert all("accept len: 1.00, accept rate: 0.20" in item["text"] for item in finding["evidence"])
    assert abs((instant(finding["began_at"]) - before_load).total_seconds()) < 5
    told = re.search(
        r"accept length 1\.00 over about (\d+) tokens \((\d+) verify steps\) since (\S+)", finding["summary"]
    )
    assert told is not None, finding["summary"]
    assert 200 <= int(told[1]) == int(told[2]) <= 3 * 320
    assert instant(told[3]) == instant(finding["began_at"])
    assert loaded["state"] == "ready"
    assert loaded["verdict"]["verdict"] == "healthy"
    assert loaded["acceptance"]["judgement"] == "ineffective"
    (sample,) = (await stage.get(history))["items"]
    assert sample == loaded["acceptance"]["newest"]
    assert (sample["source"], sample["accept_length"], sample["accept_rate"]) == ("log", 1.0, 0.2)
    assert sample["definition"] == "with_bonus"
    assert sample["verify_steps"] == sample["generated_tokens"] >= 200
    assert sample["running_requests"] == 3
    assert 0 < sample["window_s"] < 60


async def test_a_draft_that_fits_is_no_finding_under_the_same_load(stage: Stage) -> None:
    made = await stage.begin(stage.kimi("fast"))
    await stage.get("/servers/one/wait?timeout_s=30")
    operator = Operator(made["server"]["port"])
    await asyncio.gather(*(operator.generate(640) for _ in range(3)))
    launch = await stage.launch_of()
    log = await stage.api.http.get(f"/api/v1/launches/{launch['id']}/log?contains=accept%20len")
    assert log.text.count("\n") >= 5
    loaded = await stage.until("/servers/one", lambda server: server["acceptance"]["judgement"] != "unknown")
    assert loaded["acceptance"]["judgement"] == "effective"
    assert "accept length 2.8" in loaded["acceptance"]["message"]
    assert (await stage.get("/findings?server=one"))["items"] == []
