"""The scripts that are shipped: each is valid, and does what its name says."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from service.simulator.engine.sglang.script import PHASES, Event, Script, ScriptError, parse_script
from tests.simulator.engines import EngineHome, eventually

SHIPPED = sorted((Path(__file__).parents[2] / "service" / "simulator" / "scripts").glob("*.json"))
NAMES = {
    "default", "fast", "slow_weights", "frozen_graphs", "frozen_while_serving", "oom_graph_capture",
    "crash_while_serving", "scenario_a", "scenario_b", "scenario_c", "scenario_d", "scenario_d_slow", "scenario_e",
}  # fmt: skip


def total_s(script: Script) -> float:
    return sum(script.phases.values())


def shipped(name: str) -> Script:
    path = next(path for path in SHIPPED if path.stem == name)
    content = json.loads(path.read_text())
    return parse_script(content, scale=content.pop("time_scale", 1.0))


def test_all_are_there_and_say_what_they_are_about() -> None:
    assert {path.stem for path in SHIPPED} == NAMES
    for path in SHIPPED:
        assert json.loads(path.read_text())["about"].endswith(".")
        shipped(path.stem)


def test_durations() -> None:
    assert 5 < total_s(shipped("default")) < 8
    assert total_s(shipped("fast")) < 1.2
    assert shipped("scenario_b").phases["warming_up"] > 3 * (
        total_s(shipped("scenario_b")) - shipped("scenario_b").phases["warming_up"]
    )
    assert total_s(shipped("scenario_c")) < 1


def test_scale_applies_to_every_duration() -> None:
    content = {"health_latency_s": 1.0, "events": [{"do": "freeze", "phase": "serving", "after_s": 60}]}
    script = parse_script(content, scale=0.1)
    assert script.health_latency_s == pytest.approx(0.1)
    assert script.events[0].after_s == pytest.approx(6.0)
    assert script.phases["loading_weights"] == pytest.approx(PHASES["loading_weights"] / 10)
    assert script.steps_per_s == Script().steps_per_s


def test_pace_of_slow_steps() -> None:
    script = Script(events=(Event("slow", "loading_weights", step=2, until=4, factor=5.0),))
    assert [script.pace("loading_weights", step) for step in range(6)] == [1, 1, 5, 5, 1, 1]
    assert script.pace("capturing_graphs", 2) == 1


def test_acceptance_over_time() -> None:
    script = Script(accept_lengths=((0, 2.5), (60, 1.0)))
    assert [script.acceptance(at, 2.85) for at in (0, 59, 60)] == [2.5, 2.5, 1.0]
    assert Script().acceptance(0, 2.85) == 2.85


@pytest.mark.parametrize(
    "content",
    [{"phases": {"sleeping": 1}}, {"events": [{"do": "freeze", "phase": "nowhere"}]}, {"unknown": 1}],
)
def test_mistakes_are_refused(content: dict[str, object]) -> None:
    with pytest.raises(ScriptError):
        parse_script(content, scale=1.0)


@pytest.mark.parametrize("name", ["frozen_graphs", "scenario_d"])
def test_frozen_scripts_stop_at_graph_three(home: EngineHome, name: str) -> None:
    engine = home.start("--tp-size", "2", script=name, scale="0.1")
    engine.wait_for("3/52 [")
    before = engine.log
    with pytest.raises(AssertionError, match="not in"):
        eventually(lambda: engine.log != before, "a change", 0.3)
    assert engine.process.poll() is None


@pytest.mark.parametrize(
    ("name", "proof"),
    [("oom_graph_capture", "Capture cuda graph failed: CUDA out of memory"), ("crash_while_serving", "illegal memory")],
)
def test_failing_scripts(home: EngineHome, name: str, proof: str) -> None:
    engine = home.start(script=name)
    assert engine.exit_code() == 137
    assert proof in engine.log


def test_slow_weights_move(home: EngineHome) -> None:
    engine = home.start(script="slow_weights")
    engine.wait_until_ready()
    assert "16/16 [" in engine.log


def test_scenario_a_accepts_no_draft_token(home: EngineHome, write_script: Callable[[str], Path]) -> None:
    quicker = {
        **json.loads(next(path for path in SHIPPED if path.stem == "scenario_a").read_text()),
        "steps_per_s": 900,
    }
    draft = home.model("kimi-like-eagle3")
    speculation = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", draft)
    numbers = ("--speculative-num-steps", "4", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "5")
    engine = home.start(
        *speculation, *numbers, "--enable-metrics", "--tp-size", "2",
        model="kimi-like", version="0.5.10.post1", script=write_script(json.dumps(quicker)),
    )  # fmt: skip
    engine.wait_until_ready()
    engine.ask("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 90}})
    assert "accept len: 1.00, accept rate: 0.20" in engine.log
    assert engine.metric("spec_accept_rate") == pytest.approx(0.2)


def test_scenario_e_has_64_shards_and_kernels_to_compile(home: EngineHome) -> None:
    engine = home.start("--tp-size", "2", script="scenario_e")
    engine.wait_until_ready()
    assert "64/64 [" in engine.log
    assert "Entering DeepGEMM JIT Pre-Compile session." in engine.log


def test_traffic_of_its_own(home: EngineHome, write_script: Callable[[str], Path]) -> None:
    script = write_script('{"traffic_per_s": 20, "traffic_tokens": 50, "steps_per_s": 500}')
    engine = home.start("--enable-metrics", script=script)
    engine.wait_until_ready()
    engine.wait_for("Decode batch, #running-req:")
    eventually(lambda: engine.metric("realtime_tokens_total") > 0, "tokens move")
