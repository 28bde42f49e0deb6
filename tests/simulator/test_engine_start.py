"""A healthy start of the stand-in: what each version says, binds, answers and holds, and how it stops."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from service.simulator.homes import engine_python, state_dir
from service.simulator.specs import ENGINE_VERSIONS
from tests.simulator.engines import EngineHome, RunningEngine, eventually

OLD, MIDDLE, NEW = ENGINE_VERSIONS
SPECULATION = ("--speculative-algorithm", "EAGLE3", "--tp-size", "2", "--speculative-draft-model-path")
OLD_ORDER = (
    r"server_args=ServerArgs\(model_path=",
    r"TP0\] Init torch distributed begin\.",
    r"TP0\] Init torch distributed ends\. elapsed=\d+\.\d\d s, mem usage=0\.51 GB",
    r"TP0\] Load weight begin\. avail mem=\d+\.\d\d GB",
    r"Multi-thread loading shards: 100% Completed \| 64/64 \[",
    r"TP0\] Load weight end\. elapsed=\S+ s, type=DeepseekV3ForCausalLM, avail mem=\S+ GB, mem usage=\S+ GB\.",
    r"TP0\] KV Cache is allocated\. #tokens: \d+, K size: \S+ GB, V size: \S+ GB",
    r"TP0\] Memory pool end\. avail mem=",
    r"TP0\] Capture cuda graph begin\. This can take up to several minutes\. avail mem=",
    r"Capturing batches \(bs=1 avail_mem=\S+ GB\): 100%\|█+\| 24/24 \[",
    r"TP0\] Capture cuda graph end\. Time elapsed: \S+ s\. mem usage=",
    r"TP0\] Load weight end\. elapsed=\S+ s, type=LlamaForCausalLMEagle3",
    r"TP0\] Capture draft cuda graph begin\.",
    r"TP0\] Capture draft extend cuda graph end\. Time elapsed:",
    r"TP0\] max_total_num_tokens=\d+, .*context_len=262144, available_gpu_mem=",
    r"\] INFO:     Started server process \[\d+\]",
    r"\] INFO:     Uvicorn running on http://127\.0\.0\.1:\d+ \(Press CTRL\+C to quit\)",
    r'"GET /model_info HTTP/1\.1" 200 OK',
    r"Prefill batch, #new-seq: 1, #new-token: \d+, .*#queue-req: 0, cuda graph: False",
    r'"POST /generate HTTP/1\.1" 200 OK',
    r"The server is fired up and ready to roll!",
)
NEW_ORDER = (
    r"server_args=\{'model_path': ",
    r"TP0\] Init parallel begin\.",
    r"TP0\] Init parallel ends\. elapsed=\d+\.\d\d s\n",
    r"TP0\] Memory baseline taken\. mem usage=0\.51 GB",
    r"TP0\] Load weight begin\. avail mem=\d+\.\d\d GB",
    r"Multi-thread loading shards: 100% Completed \| 64/64 \[",
    r"TP0\] Load weight end\. elapsed=\S+ s, type=DeepseekV3ForCausalLM",
    r"TP0\] Load weight end\. elapsed=\S+ s, type=LlamaForCausalLMEagle3",
    r"TP0\] KV Cache is allocated\. dtype: torch\.bfloat16, #tokens: \d+, K size:",
    r"TP0\] Memory pool end\. avail mem=",
    r"TP0\] Capture target verify CUDA graph begin\. backend=full, num_tokens_per_req=4, avail mem=",
    r"Capturing batches \(bs=1 avail_mem=\S+ GB\): 100%\|█+\| 24/24 \[",
    r"TP0\] Capture target verify CUDA graph end\. bs=\[1, 2, .*\], elapsed=\S+ s, mem usage=",
    r"TP0\] Capture draft decode CUDA graph begin\. backend=full",
    r"TP0\] Capture draft extend CUDA graph end\. elapsed=",
    r"TP0\] max_total_num_tokens=\d+, .*context_len=262144, available_gpu_mem=",
    r"Engine startup timings \(s\): load_weight=",
    r"\] INFO:     Uvicorn running on http://127\.0\.0\.1:\d+ \(Press CTRL\+C to quit\)",
    r"Prefill batch, #new-seq: 1, .*#pending-token: 0, cuda graph: False",
    r"The server is fired up and ready to roll!",
)


def assert_in_order(log: str, patterns: tuple[str, ...]) -> None:
    position = 0
    for pattern in patterns:
        match = re.compile(pattern).search(log, position)
        assert match, f"{pattern} is not in the log after {position}:\n{log[position : position + 3000]}"
        position = match.end()


def start_big(home: EngineHome, version: str) -> RunningEngine:
    draft = home.model("kimi-like-eagle3")
    return home.start(*SPECULATION, draft, model="kimi-like", version=version)


@pytest.mark.parametrize(("version", "order"), [(OLD, OLD_ORDER), (NEW, NEW_ORDER)])
def test_log_of_each_version(home: EngineHome, version: str, order: tuple[str, ...]) -> None:
    engine = start_big(home, version)
    engine.wait_until_ready()
    assert_in_order(engine.log, order)


def test_middle_version_mixes_both(home: EngineHome) -> None:
    engine = start_big(home, MIDDLE)
    engine.wait_until_ready()
    assert "server_args=ServerArgs(" in engine.log
    assert "Init torch distributed ends." in engine.log
    assert re.search(
        r"Capture target verify CUDA graph begin\. backend=full, num_tokens_per_req=4, bs=\[1, ", engine.log
    )
    assert re.search(r"Capture target verify CUDA graph end\. elapsed=", engine.log)
    draft, pool = engine.log.index("type=LlamaForCausalLMEagle3"), engine.log.index("TP0] KV Cache is allocated")
    assert draft < pool


def test_progress_bars_redraw_with_a_carriage_return(home: EngineHome) -> None:
    engine = home.start(model="kimi-like", scale="0.1")
    engine.wait_until_ready()
    raw = engine.log_path.read_bytes()
    assert raw.count(b"\rMulti-thread loading shards") > 2
    assert b"\nMulti-thread" not in raw


def test_one_gpu_has_no_prefix_and_a_plain_title(home: EngineHome) -> None:
    engine = home.start()
    engine.wait_until_ready()
    assert re.search(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] Load weight begin\.", engine.log, re.MULTILINE)
    assert set(engine.children()) == {"sglang::scheduler", "sglang::detokenizer"}


def test_titles_groups_and_environment(home: EngineHome) -> None:
    engine = home.start("--tp-size", "2", "--dp-size", "2", env={"VIGIL_LAUNCH_ID": "ln_1"})
    engine.wait_until_ready()
    children = engine.children()
    ranks = {f"sglang::scheduler_DP{dp}_TP{tp}" for dp in (0, 1) for tp in (0, 1)}
    assert set(children) == {*ranks, "sglang::detokenizer", "sglang::data_parallel_controller"}
    for pid in children.values():
        assert os.getpgid(pid) == os.getsid(pid) == engine.process.pid
        assert b"VIGIL_LAUNCH_ID=ln_1\0" in Path(f"/proc/{pid}/environ").read_bytes()
    assert Path(f"/proc/{children['sglang::detokenizer']}/comm").read_text() == "sglang::detoken\n"


def test_titles_wipe_the_environment_without_spt_noenv(home: EngineHome) -> None:
    engine = home.start(env={"SPT_NOENV": "", "VIGIL_LAUNCH_ID": "ln_1"})
    engine.wait_until_ready()
    assert b"VIGIL_LAUNCH_ID" not in Path(f"/proc/{engine.children()['sglang::scheduler']}/environ").read_bytes()
    assert b"VIGIL_LAUNCH_ID" in Path(f"/proc/{engine.process.pid}/environ").read_bytes()


def test_first_line_comes_at_once(home: EngineHome) -> None:
    begun_at = time.monotonic()
    engine = home.start(scale="1")
    eventually(lambda: "UserWarning" in engine.log, "the first line")
    assert time.monotonic() - begun_at < 5, "a process that starts in a tenth of a second took five"


def test_health_is_refused_then_503_then_200(home: EngineHome) -> None:
    engine = home.start(scale="0.2")
    seen: list[int] = []
    while 200 not in seen:
        assert engine.process.poll() is None, engine.log
        try:
            answer = engine.ask("/health")
        except OSError:
            status = 0
        else:
            status = answer.status
            assert answer.body == b""
        if not seen or seen[-1] != status:
            seen.append(status)
        time.sleep(0.005)
    assert seen == [0, 503, 200]


def test_port_is_bound_only_after_everything_is_loaded(home: EngineHome) -> None:
    engine = home.start(scale="0.2")
    engine.wait_for("Capture target decode CUDA graph begin")
    with pytest.raises(OSError, match="refused"):
        engine.ask("/health")


def test_gpu_memory_grows_with_the_phases_and_is_given_back(home: EngineHome) -> None:
    engine = home.start("--tp-size", "2", model="kimi-like", scale="0.3")
    holders = state_dir(home.path) / "holders"
    engine.wait_for("Load weight begin")
    seen = [_held(holders, engine)]
    for line in ("Load weight end", "Memory pool end", "max_total_num_tokens"):
        engine.wait_for(line)
        seen.append(_held(holders, engine))
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]
    assert 0.8 * 81559 * 2 < seen[-1] < 81559 * 2


def _held(holders: Path, engine: RunningEngine) -> int:
    pids = set(engine.children().values())
    notes = [json.loads(path.read_text()) for path in holders.glob("*.json")]
    return sum(sum(note["gpus"].values()) for note in notes if note["pid"] in pids)


def test_cpu_engine_needs_no_gpu(home: EngineHome) -> None:
    engine = home.start("--device", "cpu", env={"CUDA_VISIBLE_DEVICES": ""})
    engine.wait_until_ready()
    assert "available_cpu_mem=" in engine.log
    assert "cpu graph: False" in engine.log


@pytest.mark.parametrize(("version", "code"), [(OLD, 137), (MIDDLE, 137), (NEW, 0)])
def test_clean_stop_of_each_version(home: EngineHome, version: str, code: int) -> None:
    engine = home.start(version=version)
    engine.wait_until_ready()
    assert any(name.startswith("sem.mp-") for name in _shared_memory(home))
    engine.process.send_signal(signal.SIGTERM)
    assert engine.exit_code() == code
    assert "SIGTERM received. signum=None frame=None. Draining requests and shutting down..." in engine.log
    assert "Gracefully exiting... Remaining number of requests 0." in engine.log
    assert ("INFO:     Application shutdown complete." in engine.log) == (version == NEW)
    left = [name.partition("_")[0] for name in _shared_memory(home)]
    assert left == ([] if version == OLD else ["sglang"]), "the real one leaves its loads even after a clean stop"
    eventually(lambda: not engine.children(), "no child is left")


def _shared_memory(home: EngineHome) -> list[str]:
    notes = [note.name for note in (state_dir(home.path) / "shm").iterdir()]
    return [name for name in notes if Path("/dev/shm", name).exists()]


def test_quiet_log_level_hides_the_ready_line(home: EngineHome) -> None:
    engine = home.start("--log-level", "warning")
    eventually(lambda: _status(engine) == 200, "healthy")
    assert "ready to roll" not in engine.log
    assert "Load weight" not in engine.log
    assert "Multi-thread loading shards" in engine.log


def _status(engine: RunningEngine) -> int:
    try:
        return engine.ask("/health").status
    except OSError:
        return 0


def test_arguments_can_be_judged_without_a_start(home: EngineHome) -> None:
    question = (
        "import sys; from sglang.srt.server_args import prepare_server_args as p; a = p(sys.argv[1:]); "
        "getattr(a, 'resolve_once', lambda: None)(); print(a.tp_size)"
    )
    for version in (OLD, NEW):
        words = [str(engine_python(home.path, version)), "-c", question, "--model-path", home.model("tiny-llama")]
        good = subprocess.run([*words, "--tp", "2"], capture_output=True, text=True, check=False)
        assert (good.returncode, good.stdout) == (0, "2\n")
        words += ["--speculative-algorithm", "EAGLE3", "--speculative-eagle-topk", "1"]
        bad = subprocess.run(words, capture_output=True, text=True, check=False)
        assert bad.returncode == 1
        assert bad.stderr.rstrip().endswith("AssertionError")
