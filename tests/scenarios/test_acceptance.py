"""After scenario A: an acceptance that recovers, one below the profile's floor, one of which the log says nothing."""

import json
import re
from pathlib import Path

from service.simulator.specs import NEWEST_ENGINE
from tests.scenarios.conftest import Stage

QUICK: dict[str, object] = {"time_scale": 0.12, "traffic_per_s": 20, "traffic_tokens": 200, "steps_per_s": 300}
"""A start of a second, then requests that the engine gives itself."""


def script(tmp_path: Path, **more: object) -> str:
    """Write a script for the engine and return its path."""
    path = tmp_path / "acceptance.json"
    path.write_text(json.dumps({**QUICK, **more}))
    return str(path)


async def test_a_finding_ends_when_the_acceptance_recovers(stage: Stage, tmp_path: Path) -> None:
    recovering = script(tmp_path, accept_lengths=[[0, 1.0], [75, 2.8]])
    await stage.begin(stage.kimi(recovering))
    await stage.until("/servers/one", lambda server: server["findings"])
    healed = await stage.until("/servers/one", lambda server: server["state"] == "ready" and not server["findings"])
    (finding,) = (await stage.get("/findings?server=one"))["items"]
    assert finding["code"] == "speculation_ineffective"
    assert finding["began_at"] < finding["ended_at"]
    assert healed["acceptance"]["judgement"] == "effective"


async def test_below_what_the_profile_wants_is_a_finding_by_its_number(stage: Stage, tmp_path: Path) -> None:
    await stage.begin(stage.kimi(script(tmp_path), limits={"min_accept_length": 3.2}))
    loaded = await stage.until("/servers/one", lambda server: server["findings"])
    (finding,) = loaded["findings"]
    assert finding["code"] == "speculation_below_floor"
    assert "below 3.20 (the profile wants at least 3.20)" in finding["summary"]
    shown = loaded["acceptance"]
    assert (shown["judgement"], shown["floor"], shown["floor_source"]) == ("below_floor", 3.2, "profile")


async def test_a_quiet_log_is_read_by_the_metrics_and_a_poor_draft_is_found_by_a_hint(
    stage: Stage, tmp_path: Path
) -> None:
    recipe = stage.kimi(script(tmp_path, accept_lengths=[[0, 1.1]]))
    recipe["server_args"]["log-level"] = "warning"
    await stage.begin(recipe)
    loaded = await stage.until("/servers/one", lambda server: server["findings"] and server["acceptance"]["newest"])
    (finding,) = loaded["findings"]
    assert finding["code"] == "speculation_below_floor"
    assert "below 1.70 (a hint, not a measurement: EAGLE3 with 3 steps" in finding["summary"]
    assert [item["line"] for item in finding["evidence"]] == [None] * len(finding["evidence"])
    told = [item["text"] for item in finding["evidence"]]
    assert all(
        re.fullmatch(r"sglang:spec_accept_length 1\.[01]\d, sglang:spec_accept_rate 0\.0\d", text) for text in told
    )
    launch, sample = await stage.launch_of(), loaded["acceptance"]["newest"]
    assert launch["engine_version"] == NEWEST_ENGINE
    assert (sample["source"], sample["definition"]) == ("metrics", "drafts_only")
    assert abs(sample["accept_length"] - 1.1) < 0.05
    assert abs(sample["accept_rate"] - 0.1 / 3) < 0.02
