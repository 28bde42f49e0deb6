"""Words that sound like trouble and are none, and failures that sound like another one."""

import pytest

from service.sglang.failures import Code, diagnose
from service.sglang.startup_log import StartupLog
from tests.sglang.lines import (
    BINDING,
    CAPTURING,
    INIT,
    LOADING,
    LOOP,
    MAIN,
    SERVING,
    SITE,
    SRT,
    as_log,
    hit,
    sigquit,
    stamped,
    traceback,
)

HARMLESS = (
    stamped(3, "Ignore import error when loading sglang.srt.models.grok: No module named 'vllm'"),
    stamped(3, "Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit"),
    stamped(
        3, "Setup Custom allreduce failed with peer access is not supported. To silence this warning, specify --disable"
    ),
    stamped(3, "Using default MoE kernel config. Performance might be sub-optimal! Config file not found at /x.json"),
    stamped(
        3, "NVFP4 KV cache calibration warmup failed; first real prefill will remain the fallback for auto-calibration."
    ),
    stamped(3, "Failed to get GPU memory capacity from nvidia-smi. Falling back to torch.cuda.mem_get_info()."),
    stamped(
        3, "Failed to load generation config for m: m does not appear to have a file named generation_config.json."
    ),
    stamped(3, "OpenAI Responses API (/v1/responses) disabled: Could not download the vocabulary"),
    stamped(
        3, "Warning: Target model's context_length (131072) is greater than the derived context_length (2048). This may"
    ),
    stamped(3, "Overriding the draft model's max_position_embeddings to 131072."),
    stamped(3, "Parameter model.layers.0.self_attn.k_scale not found in params_dict"),
    stamped(3, "Failed to import amdsmi with ModuleNotFoundError(\"No module named 'amdsmi'\")"),
    stamped(3, "Watchdog TokenizerManager initialized."),
    stamped(3, "'--cuda-graph-max-bs' is deprecated and will be removed in a future release. Use '--x' instead."),
    stamped(3, "If you encounter OOM issues, please try setting --mem-fraction-static to a lower value (such as 0.8)"),
    stamped(3, 'INFO:     127.0.0.1:58348 - "POST /update_weights HTTP/1.1" 400 Bad Request'),
    stamped(3, 'INFO:     10.0.0.2:1 - "GET /health HTTP/1.1" 503 Service Unavailable'),
    stamped(3, "WARNING:  Invalid HTTP request received."),
    stamped(3, "Failed to update weights: The size of tensor a (2048) must match the size of tensor b (3072)."),
    "[rank3]:[W104 00:44:47.49 compiler_depend.ts:198] Warning: Driver Version: is invalid or not supported yet.",
    (
        "[rank0]:[W613 18:25:21.8 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not called "
        "before"
    ),
    (
        "/usr/lib/python3.12/multiprocessing/resource_tracker.py:279: UserWarning: resource_tracker: There appear "
        "to be 2 "
        "leaked semaphore objects to clean up at shutdown"
    ),
    (
        "W0812 23:28:13.481000 70372 torch/utils/cpp_extension.py:2425] TORCH_CUDA_ARCH_LIST is not set, all archs for "
        "visible"
    ),
    (
        "2026-04-05 16:48:12,363 - CUTE_DSL - WARNING - [handle_import_error] - Unexpected error during package walk: "
        "cutlass"
    ),
    stamped(
        3, "Receive: obj=GenerateReqInput(text='Traceback (most recent call last): CUDA out of memory, port 98 in use')"
    ),
    stamped(3, "Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)"),
)


@pytest.mark.parametrize("line", HARMLESS)
@pytest.mark.parametrize("start", [LOADING, CAPTURING, BINDING], ids=["loading", "capturing", "binding"])
def test_words_of_healthy_logs_raise_no_alarm(start: tuple[str, ...], line: str) -> None:
    soft = "soft=True" in line
    log = StartupLog().feed(as_log(start, [line]))
    diagnosis = diagnose(log)
    assert not log.reading.has_failed
    assert diagnosis is None or (soft and diagnosis.code is Code.WATCHDOG_TIMEOUT) or "leaked semaphore" in line


@pytest.mark.parametrize("line", HARMLESS[:-1])
def test_nor_do_they_on_a_server_that_serves(line: str) -> None:
    log = StartupLog().feed(as_log(SERVING, [line]))
    assert diagnose(log) is None
    assert (log.reading.is_ready, log.reading.has_failed) == (True, False)


def test_children_that_are_killed_with_their_server_have_not_failed() -> None:
    """A harness that is done with its server kills the whole tree."""
    done = stamped(59, "Child process unexpectedly failed with exitcode=9. pid=262592")
    log = StartupLog().feed(as_log(SERVING, [done]))
    assert (log.reading.is_ready, log.reading.has_failed, diagnose(log)) == (True, False, None)
    assert StartupLog().feed(as_log(LOADING, [done])).reading.has_failed


def test_one_retraction_is_normal() -> None:
    once = stamped(50, "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.1 -> 0.2")
    assert diagnose(StartupLog().feed(as_log(SERVING, [once] * 8))) is None


def test_the_traceback_of_a_client_is_no_failure_of_the_server() -> None:
    client = traceback(
        "/tests/test_speed.py test_tpot", f"{SITE}/unittest/case.py fail", error="AssertionError: 79 > 45"
    )
    log = StartupLog().feed(as_log(SERVING, client, ["FAILED (errors=1)"]))
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert (diagnosis.code, log.reading.is_ready, log.reading.has_failed) == (Code.CLIENT_SIDE_BUG, True, False)


def test_an_exception_that_the_start_survives_is_none() -> None:
    caught = traceback(f"{SRT}/utils.py probe", error="RuntimeError: CUDA error: no kernel image is available")
    log = StartupLog().feed(as_log(LOADING, caught, [stamped(20, "Memory pool end. avail mem=7.85 GB")]))
    assert (log.reading.has_failed, diagnose(log)) == (False, None)


def test_a_request_that_failed_inside_a_healthy_server_is_no_failure() -> None:
    asgi = traceback(f"{SRT}/entrypoints/http_server.py generate", error="ValueError: the prompt is too long")
    log = StartupLog().feed(as_log(SERVING, ["ERROR:    Exception in ASGI application"], asgi))
    assert (log.reading.has_failed, diagnose(log)) == (False, None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        # graph capture's own advice speaks of memory and torch.compile, whatever went wrong
        ("Exception: Capture cuda graph failed: Ninja is required to load C++ extensions", Code.JIT_COMPILE_FAILURE),
        ("Exception: Capture cuda graph failed: nhead=8 not supported", Code.ATTENTION_BACKEND_UNSUPPORTED),
        ("Exception: Capture cuda graph failed: something nobody knows", Code.UNKNOWN),
    ],
)
def test_the_advice_of_graph_capture_is_not_the_cause(error: str, code: Code) -> None:
    advice = (
        "Possible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
        "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n3. disable torch compile by not using "
        "--enable-torch-compile\n4. disable cuda graph by --disable-cuda-graph. (Not recommended. Huge perf loss)"
    )
    frames = (*INIT, f"{SRT}/model_executor/cuda_graph_runner.py capture")
    diagnosis = diagnose(StartupLog().feed(as_log(CAPTURING, hit(*frames, error=f"{error}\n{advice}"))))
    assert diagnosis is not None
    assert diagnosis.code is code


def test_the_first_rank_that_failed_is_the_root_and_the_others_are_echoes() -> None:
    frames = (*INIT, f"{SRT}/model_executor/model_runner.py load_model")
    peers = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:45492"
    log = StartupLog().feed(
        as_log(
            LOADING,
            hit(*frames, error=peers, rank="TP0", second=49),
            hit(*frames, error="KeyError: 'model.layers.0.mlp.experts.w2_qweight'", rank="TP3"),
            hit(*frames, error="EOFError", rank="TP5"),
            [stamped(55, "Watchdog timeout (self.watchdog_timeout=300)", rank="TP2"), "Killed"],
        )
    )
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert diagnosis.code is Code.CHECKPOINT_MISMATCH


def test_a_watchdog_after_a_crash_is_a_consequence() -> None:
    log = StartupLog().feed(
        as_log(
            SERVING,
            hit(*LOOP, error="RuntimeError: CUDA error: an illegal memory access was encountered"),
            [stamped(59, "Watchdog timeout (self.watchdog_timeout=300)", rank="TP2")],
        )
    )
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert diagnosis.code is Code.ILLEGAL_MEMORY_ACCESS


def test_the_parent_only_repeats_what_a_child_said() -> None:
    parent = traceback(*MAIN, f"{SRT}/entrypoints/engine.py _launch_subprocesses", error="EOFError")
    log = StartupLog().feed(as_log(LOADING, hit(*INIT, error="TypeError: cannot unpack non-iterable X object"), parent))
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert diagnosis.code is Code.SOFTWARE_BUG


def test_where_no_rule_knows_the_root_is_quoted() -> None:
    log = StartupLog().feed(as_log(SERVING, hit(*LOOP, error="RuntimeError: the flux capacitor lost its flux")))
    diagnosis = diagnose(log)
    assert diagnosis is not None
    assert diagnosis.code is Code.UNKNOWN
    assert "RuntimeError: the flux capacitor lost its flux" in diagnosis.summary
    assert diagnosis.evidence[0].text == "RuntimeError: the flux capacitor lost its flux"


def test_sigquit_alone_tells_that_a_child_died() -> None:
    diagnosis = diagnose(StartupLog().feed(as_log(LOADING, [sigquit()])))
    assert diagnosis is not None
    assert (diagnosis.code, diagnosis.confidence) == (Code.CHILD_PROCESS_DIED, "low")


@pytest.mark.parametrize(
    ("start", "lines", "code"),
    [
        (LOADING, ("KeyError: 'model.layers.0.mlp.experts.w2_qweight'",), Code.CHECKPOINT_MISMATCH),
        (BINDING, ("Initialization failed. warmup error:", "AssertionError"), Code.WARMUP_FAILED),
        (LOADING, ("Fatal Python error: Bus error",), Code.STORAGE_READ_FAULT),
        (SERVING, ("TypeError: cannot unpack non-iterable ForwardMetadata object",), Code.SOFTWARE_BUG),
        (
            MAIN[:0],
            (
                "Traceback (most recent call last):",
                "importlib.metadata.PackageNotFoundError: No package metadata was found for flashinfer_python",
                "During handling of the above exception, another exception occurred:",
                "Traceback (most recent call last):",
                "Exception: flashinfer_python with minimum required version 0.2.5 is not installed.",
            ),
            Code.DEPENDENCY_VERSION_MISMATCH,
        ),
    ],
)
def test_a_report_that_dropped_the_frames_is_read_by_its_words(
    start: tuple[str, ...], lines: tuple[str, ...], code: Code
) -> None:
    diagnosis = diagnose(StartupLog().feed(as_log(start, lines, [sigquit()])))
    assert diagnosis is not None
    assert diagnosis.code is code


@pytest.mark.parametrize("said", ["what does SIGTERM received mean?", "server_args=ServerArgs(port=30000, ...)"])
def test_what_users_ask_is_taken_for_nothing_that_the_engine_says(said: str) -> None:
    before = StartupLog().feed(as_log(SERVING)).reading
    request = stamped(3, f"Receive: obj=GenerateReqInput(rid='7', text='{said} KeyboardInterrupt')")
    after = StartupLog().feed(as_log(SERVING, [request])).reading
    assert (after.is_stopping, after.is_ready, after.phase) == (before.is_stopping, before.is_ready, before.phase)
