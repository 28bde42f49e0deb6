"""The stand-in of the benchmark client, run against the stand-in of the engine: its file, log and exit codes."""

import json
import math
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from service.benchmarks.own_runs import Target, run_command
from service.benchmarks.workload import ClosedLoad, FileLayout, GoodputLimits, NodeFile, RandomIds, Workload
from service.sglang.bench_client import ClientStage, read_progress
from service.simulator.homes import engine_python, session_environment
from service.simulator.specs import ENGINE_VERSIONS, NEWEST_ENGINE
from tests.simulator.engines import EngineHome, RunningEngine

OLD, MIDDLE, NEW = ENGINE_VERSIONS
RECORDED = Path(__file__).parents[1] / "benchmarks" / "files"


def workload(**fields: Any) -> Workload:
    given = {
        "dataset": RandomIds(input_tokens=12, output_tokens=6),
        "load": ClosedLoad(concurrency=3),
        "num_prompts": 9,
        **fields,
    }
    return Workload(**given)


def run_client(
    home: EngineHome,
    engine: RunningEngine,
    folder: Path,
    wanted: Workload,
    *,
    version: str = NEWEST_ENGINE,
    key: str | None = None,
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any] | None]:
    """Run the command that Vigil would run; return how it ended and the object in its file."""
    target = Target(
        host="127.0.0.1",
        port=engine.port,
        python=str(engine_python(home.path, version)),
        engine_version=version,
        model_path=home.model("tiny-llama"),
        served_model_name=home.model("tiny-llama"),
    )
    command = run_command(wanted, wanted.points()[0], target, repeat_index=0, output_file="result.jsonl", tag="t")
    environment = {**session_environment(home.spec, home.path), **command.environment}
    if key is not None:
        environment["OPENAI_API_KEY"] = key
    done = subprocess.run(
        command.argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    file = folder / "result.jsonl"
    return done, json.loads(file.read_text()) if file.exists() else None


@pytest.mark.parametrize("version", ENGINE_VERSIONS)
def test_a_run_writes_what_the_real_client_of_the_version_writes(
    home: EngineHome, tmp_path: Path, version: str
) -> None:
    engine = home.start(version=version)
    engine.wait_until_ready()
    wanted = workload(goodput=GoodputLimits(ttft_ms=60_000, tpot_ms=60_000))
    done, document = run_client(home, engine, tmp_path, wanted, version=version)
    assert (done.returncode, document is None) == (0, False), done.stderr
    assert document is not None
    recorded = RECORDED / f"sglang-{version}.jsonl"
    if recorded.exists():
        assert list(document) == list(json.loads(recorded.read_text()))
    assert (document["completed"], document["total_input_tokens"], document["total_output_tokens"]) == (9, 108, 54)
    assert document["request_rate"] == math.inf
    assert document["input_lens"] == [12] * 9
    assert document["output_lens"] == [6] * 9
    assert document["mean_ttft_ms"] == pytest.approx(1000 * sum(document["ttfts"]) / 9)
    assert document["server_info"]["version"] == version
    progress = read_progress(done.stdout + done.stderr)
    assert progress.stage is ClientStage.REPORTING
    assert "9/9" in done.stderr


def test_requests_that_do_not_fit_are_answers_to_the_client(home: EngineHome, tmp_path: Path) -> None:
    engine = home.start()
    engine.wait_until_ready()
    dataset = RandomIds(input_tokens=2048, output_tokens=4)
    done, document = run_client(home, engine, tmp_path, workload(dataset=dataset))
    assert document is not None
    assert (done.returncode, document["completed"], document["total_output_tokens"]) == (0, 9, 36)
    assert (document["ttfts"], document["errors"]) == ([0.0] * 9, [""] * 9)
    assert "is longer than the model's context length" in engine.log


def test_a_file_of_prompts_that_is_none_leaves_no_result(home: EngineHome, tmp_path: Path) -> None:
    engine = home.start()
    engine.wait_until_ready()
    path = tmp_path / "prompts.jsonl"
    path.write_text("no prompts\n")
    dataset = NodeFile(path=str(path), layout=FileLayout.CUSTOM)
    done, document = run_client(home, engine, tmp_path, workload(dataset=dataset))
    assert (done.returncode, document) == (1, None)
    assert "JSONDecodeError" in done.stderr


def test_a_server_that_ends_meanwhile_makes_requests_fail(home: EngineHome, tmp_path: Path) -> None:
    engine = home.start()
    engine.wait_until_ready()
    dataset = RandomIds(input_tokens=8, output_tokens=900)
    threading.Timer(4, engine.process.kill).start()
    done, document = run_client(home, engine, tmp_path, workload(dataset=dataset, warmup_requests=0))
    assert document is not None
    assert (done.returncode, document["completed"]) == (0, 0)
    assert math.isnan(document["mean_e2e_latency_ms"])
    assert all("Traceback" in error for error in document["errors"])


def test_a_server_with_a_key_wants_it(home: EngineHome, tmp_path: Path) -> None:
    engine = home.start("--api-key", "sk-secret-1")
    engine.wait_until_ready()
    wanted = workload()
    done, document = run_client(home, engine, tmp_path, wanted, key="sk-secret-1")
    assert (done.returncode, document is not None) == (0, True), done.stderr
    assert "sk-secret-1" not in done.stdout + done.stderr


def test_prompts_come_from_a_file(home: EngineHome, tmp_path: Path) -> None:
    engine = home.start()
    engine.wait_until_ready()
    path = tmp_path / "chats.jsonl"
    chat = {"messages": [{"role": "user", "content": "What is a rack?"}]}
    path.write_text("".join(json.dumps(chat) + "\n" for _ in range(4)))
    dataset = NodeFile(path=str(path), layout=FileLayout.OPENAI, output_tokens=5)
    done, document = run_client(home, engine, tmp_path, workload(dataset=dataset))
    assert document is not None, done.stderr
    assert (document["completed"], document["backend"], document["output_lens"]) == (4, "sglang-oai-chat", [5] * 4)
