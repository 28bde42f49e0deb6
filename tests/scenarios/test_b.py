"""The server that was not hanging: the log still, GPUs idle, no health for minutes; it was warming up.

Twice it was killed for a hang. It would have served a minute later.
"""

from typing import Any

from tests.api.bench_files import import_file, lines, regressions
from tests.scenarios.conftest import Stage

HANG_AFTER_S = 14
"""In the story's time: seven minutes. The warm-up takes ten seconds, which are the story's five minutes."""
WEIGHTS_AND_POOL_MIB = 70_000
PLAIN_TPS = (90.0, 90.6, 89.5, 90.2, 89.8)
SLOW_TPS = (24.8, 24.9, 24.7, 24.8, 24.6)


def is_warming_up(server: Any) -> bool:
    return bool(server["launch"]["phase"] == "warming_up")


async def test_a_silent_warm_up_is_slow_at_most_and_becomes_ready(stage: Stage) -> None:
    await stage.begin(stage.kimi("scenario_b", scale=0.1), server="earlier")
    await stage.get("/servers/earlier/wait?timeout_s=30")
    await stage.end("earlier")
    await stage.begin(stage.kimi("scenario_b", limits={"hang_after_s": HANG_AFTER_S}))
    await stage.until("/servers/one", is_warming_up)
    status, waited = await stage.api.call("GET", "/servers/one/wait?timeout_s=0.1")
    assert (status, waited["context"]["phase"]) == (504, "warming_up")
    assert waited["context"]["server"]["eta"]["learned_from_starts"] == 1
    assert min(await stage.used_mib()) > WEIGHTS_AND_POOL_MIB
    said = await stage.watch_start()
    assert said[-1]["state"] == "ready"

    verdicts = [server["verdict"]["verdict"] for server in said[:-1]]
    assert set(verdicts) == {"progressing", "slow"}
    assert "suspected_hung" not in await stage.verdicts()
    slow = next(server for server in said if server["verdict"]["verdict"] == "slow")
    assert slow["state"] == "starting"
    assert slow["launch"]["phase"] == "warming_up"
    assert slow["verdict"]["phase"] == "warming_up"
    assert slow["verdict"]["message"].startswith("warming_up for ")
    assert "hang_after_s to 14" in slow["verdict"]["message"]
    assert (slow["verdict"]["deadline_source"], slow["verdict"]["deadline_s"]) == ("profile_limit", HANG_AFTER_S)
    assert slow["verdict"]["sample_count"] == 1
    assert slow["verdict"]["expected_s"]["p50"] < HANG_AFTER_S / 2
    assert slow["eta"]["is_overdue"]


async def test_by_default_a_warm_up_has_as_long_as_the_engine_gives_it(stage: Stage) -> None:
    await stage.begin(stage.kimi("scenario_b", scale=0.3))
    warming = await stage.until("/servers/one", lambda server: is_warming_up(server) and server["verdict"])
    verdict = warming["verdict"]
    assert (verdict["verdict"], verdict["deadline_source"]) == ("progressing", "shipped")
    assert verdict["deadline_s"] > 600
    assert "the engine ends its warm-up itself after 600 s" in verdict["deadline_why"]
    assert warming["eta"] is None
    await stage.get("/servers/one/wait?timeout_s=30")
    assert await stage.verdicts() in (["progressing"], ["progressing", "healthy"])


async def test_the_benchmark_says_regressed_with_the_accept_length_beside_it(stage: Stage) -> None:
    """24.8 tokens a second where the model alone gave 90: the draft is never accepted."""
    plain = stage.kimi("scenario_b")
    await stage.write({**plain, "server_args": {"tp-size": 8, "trust-remote-code": True}})
    about = "profile=kimi&benchmark=chat&model=kimi&gpu_model=RTX%20PRO%206000&gpu_count=8"
    normal = await import_file(stage.api, lines(PLAIN_TPS, accept_length=None), f"{about}&profile_version=1")
    status, _ = await stage.api.call("PUT", "/profiles/kimi/baseline", {"run": normal["id"]})
    assert status == 200
    await stage.write(plain)
    slow = await import_file(stage.api, lines(SLOW_TPS, accept_length=1.0), f"{about}&profile_version=2")

    assert slow["baseline"]["verdict"] == "regressed"
    (point,) = slow["baseline"]["points"]
    assert (round(point["baseline"]), round(point["candidate"], 1)) == (90, 24.8)
    assert point["accept_length"] == {"baseline": None, "candidate": 1.0}
    whole = await stage.get(f"/benchmark-comparisons?baseline=kimi&candidate={slow['id']}")
    (compared,) = whole["points"]
    assert (whole["verdict"], compared["primary"]) == ("regressed", "output_throughput_tps")
    context = {item["metric"]: item["candidate"] for item in compared["context"]}
    assert context["accept_length"] == 1.0
    changed = {item["field"]: item["candidate"] for item in compared["setup_differences"]}
    assert changed["profile_version"] == 2
    (told,) = await regressions(stage.api)
    assert (told["run_id"], told["baseline_run_id"]) == (slow["id"], normal["id"])
    assert told["points"][0]["accept_length"] == {"baseline": None, "candidate": 1.0}
