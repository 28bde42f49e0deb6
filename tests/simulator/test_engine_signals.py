"""Processes stopped, killed and orphaned under the stand-in, and what it says and answers meanwhile."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from service.simulator.homes import state_dir
from service.simulator.specs import ENGINE_VERSIONS
from tests.simulator.engines import DEADLINE_S, EngineHome, RunningEngine, eventually, resume, stop

OLD, MIDDLE, NEW = ENGINE_VERSIONS
Write = Callable[[str], Path]
IMPATIENT = '{"health_timeout_s": 10, "steps_per_s": 300}'
"""At the scale of the tests /health gives up after 0.3 s."""


def serving(home: EngineHome, script: Path | str = "default", *words: str, version: str = NEW) -> RunningEngine:
    engine = home.start("--enable-metrics", *words, script=script, version=version)
    engine.wait_until_ready()
    return engine


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def test_stopped_scheduler_fails_health_and_heals(home: EngineHome, write_script: Write) -> None:
    engine = serving(home, write_script(IMPATIENT))
    scheduler = engine.children()["sglang::scheduler"]
    stop(scheduler)
    asked_at = time.monotonic()
    for _ in range(2):
        assert engine.ask("/health").status == 503
    assert time.monotonic() - asked_at >= 0.6, "each answer takes as long as the engine waits"
    assert re.search(r"Health check failed\. Server couldn't get a response from detokenizer for last 0\.3", engine.log)
    for path in ("/model_info", "/v1/models", "/metrics"):
        assert engine.ask(path, timeout_s=1).status == 200
    assert engine.ask("/ready").status == 503
    with pytest.raises(TimeoutError):
        engine.ask("/server_info", timeout_s=0.5)
    resume(scheduler)
    eventually(lambda: engine.ask("/health").status == 200, "healthy again")
    assert engine.ask("/server_info").status == 200
    assert engine.process.poll() is None


def test_stopped_rank_holds_up_the_others(home: EngineHome, write_script: Write) -> None:
    engine = serving(home, write_script(IMPATIENT), "--tp-size", "2")
    other = engine.children()["sglang::scheduler_TP1"]
    stop(other)
    eventually(lambda: engine.ask("/health").status == 503, "the first rank waits for it in the next collective")
    resume(other)
    eventually(lambda: engine.ask("/health").status == 200, "healthy again")


def test_stopped_while_loading_makes_no_progress(home: EngineHome) -> None:
    engine = home.start(model="kimi-like", scale="0.15")
    engine.wait_for("Load weight begin")
    scheduler = engine.children()["sglang::scheduler"]
    stop(scheduler)
    before = engine.log
    time.sleep(0.3)
    assert engine.log == before
    resume(scheduler)
    engine.wait_until_ready()


@pytest.mark.parametrize("version", ENGINE_VERSIONS)
def test_killed_scheduler_ends_the_engine(home: EngineHome, version: str) -> None:
    engine = serving(home, version=version)
    children = engine.children()
    os.kill(children["sglang::scheduler"], signal.SIGKILL)
    assert engine.exit_code() == 137
    pid = children["sglang::scheduler"]
    text = f"Subprocess scheduler_0 (pid={pid}) crashed with exit code -9. Triggering SIGQUIT for cleanup..."
    assert text in engine.log
    assert ("Sleeping 5 seconds" in engine.log) == (version != OLD)
    eventually(lambda: all(is_gone(child) for child in children.values()), "the children are gone")


def test_killed_scheduler_while_loading(home: EngineHome) -> None:
    engine = home.start("--tp-size", "2", model="kimi-like", scale="0.5")
    engine.wait_for("Load weight begin")
    os.kill(engine.children()["sglang::scheduler_TP1"], signal.SIGKILL)
    assert engine.exit_code() == 1
    assert "RuntimeError: Rank 1 scheduler died during initialization (exit code: -9)" in engine.log


def test_killed_detokenizer_ends_the_engine(home: EngineHome) -> None:
    engine = serving(home)
    os.kill(engine.children()["sglang::detokenizer"], signal.SIGKILL)
    assert engine.exit_code() == 137
    assert "Subprocess detokenizer (pid=" in engine.log


def test_killed_parent_takes_its_children_along(home: EngineHome) -> None:
    engine = serving(home)
    children = engine.children()
    engine.process.kill()
    assert engine.exit_code() == 137
    eventually(lambda: all(is_gone(child) for child in children.values()), "the children are gone")
    left = {note.name.partition("_")[0] for note in (state_dir(home.path) / "shm").iterdir()}
    assert "sglang" in left
    assert any(name.startswith("sem.mp-") for name in left)


def test_orphans_outlive_their_parent_when_the_script_says_so(home: EngineHome, write_script: Write) -> None:
    engine = serving(home, write_script('{"has_orphans": true}'))
    detokenizer = engine.children()["sglang::detokenizer"]
    engine.process.kill()
    engine.exit_code()
    time.sleep(0.1)
    assert not is_gone(detokenizer)
    assert Path(f"/proc/{detokenizer}/cmdline").read_bytes().rstrip(b"\0") == b"sglang::detokenizer"


def test_term_while_loading_is_not_handled(home: EngineHome) -> None:
    engine = home.start(scale="0.5")
    engine.wait_for("Load weight begin")
    children = engine.children()
    engine.process.send_signal(signal.SIGTERM)
    assert engine.exit_code() == 143
    assert "SIGTERM received" not in engine.log
    eventually(lambda: all(is_gone(child) for child in children.values()), "the children are gone")


def test_term_to_the_whole_group_ends_it(home: EngineHome) -> None:
    engine = serving(home)
    os.killpg(engine.process.pid, signal.SIGTERM)
    assert engine.exit_code() in (0, 137), "the parent's drain and its dead children race, as in the real engine"
    eventually(lambda: not engine.children(), "the children are gone")


def test_drain_waits_for_open_requests(home: EngineHome, write_script: Write) -> None:
    engine = serving(home, write_script(IMPATIENT))
    answers: list[int] = []
    body = {"text": "x", "sampling_params": {"max_new_tokens": 200}}
    request = threading.Thread(
        target=lambda: answers.append(engine.ask("/generate", body).json()["meta_info"]["completion_tokens"])
    )
    request.start()
    eventually(lambda: engine.metric("num_running_reqs") == 1, "the request runs")
    engine.process.send_signal(signal.SIGTERM)
    engine.wait_for("Gracefully exiting... Remaining number of requests 1.")
    assert engine.ask("/health").status == 503
    assert "Health check request received during shutdown. Returning 503." in engine.log
    assert engine.exit_code() == 0
    request.join()
    assert answers == [200]


def test_older_version_gives_up_draining_when_unhealthy(home: EngineHome, write_script: Write) -> None:
    engine = serving(home, write_script(IMPATIENT), version=OLD)
    stop(engine.children()["sglang::scheduler"])
    assert engine.ask("/health").status == 503
    engine.process.send_signal(signal.SIGTERM)
    assert engine.exit_code() == 137
    assert "Signal SIGTERM received while health check failed. Force exiting." in engine.log


def test_frozen_scheduler_is_silent_but_alive(home: EngineHome, write_script: Write) -> None:
    frozen = '{"health_timeout_s": 10, "events": [{"do": "freeze", "phase": "serving", "after_s": 1}]}'
    engine = serving(home, write_script(frozen))
    eventually(lambda: engine.ask("/health").status == 503, "frozen")
    assert engine.ask("/model_info").status == 200
    assert len(engine.children()) == 2


def test_frozen_start_holds_its_memory_and_burns_what_the_script_says(home: EngineHome, write_script: Write) -> None:
    event = '{"do": "freeze", "phase": "capturing_graphs", "step": 3, "busy": 0.9}'
    engine = home.start(script=write_script(f'{{"graphs": 52, "events": [{event}]}}'))
    engine.wait_for("3/52 [")
    pid = engine.children()["sglang::scheduler"]
    before, log = _cpu_ticks(pid), engine.log
    eventually(lambda: _cpu_ticks(pid) - before >= 10, "a tenth of a second of CPU is burnt", DEADLINE_S)
    assert engine.log == log
    assert (state_dir(home.path) / "holders" / f"{pid}.json").exists()


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
