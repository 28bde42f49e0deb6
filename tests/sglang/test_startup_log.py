"""The phases of a start, read from the lines of every engine version that is known."""

from datetime import UTC, datetime, timedelta

import pytest

from service.sglang.phases import Phase
from service.sglang.startup_log import LogReading, Progress, StartupLog
from tests.sglang.lines import BINDING, DRAFTING, LOADING, SERVING, STARTS, WARMING, as_log, stamped

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def read(*lines: str, at: datetime | None = None) -> LogReading:
    return StartupLog().feed(as_log(lines), at).reading


def phases(reading: LogReading) -> list[Phase]:
    return [span.phase for span in reading.phases]


@pytest.mark.parametrize("phase", STARTS)
def test_a_start_is_in_the_phase_that_its_last_mark_begins(phase: Phase) -> None:
    reading = read(*STARTS[phase])
    assert reading.phase is phase
    assert reading.is_ready is (phase is Phase.SERVING)
    assert not reading.has_failed


def test_the_timeline_of_a_whole_start_has_no_gaps() -> None:
    reading = read(*SERVING)
    assert phases(reading) == [
        Phase.PARSING_ARGUMENTS,
        Phase.RESOLVING_CONFIG,
        Phase.SPAWNING,
        Phase.DISTRIBUTED_INIT,
        Phase.LOADING_WEIGHTS,
        Phase.ALLOCATING_KV_CACHE,
        Phase.CAPTURING_GRAPHS,
        Phase.BINDING_HTTP,
        Phase.WARMING_UP,
        Phase.SERVING,
    ]
    assert [span.ended_at for span in reading.phases[:-1]] == [span.started_at for span in reading.phases[1:]]
    assert reading.phases[-1].ended_at is None


def test_shards_and_graphs_are_counted() -> None:
    assert read(*LOADING).progress == Progress(2, 4, "shards")
    graphs = {span.phase: span.progress for span in read(*SERVING).phases}
    assert graphs[Phase.LOADING_WEIGHTS] == Progress(4, 4, "shards")
    assert graphs[Phase.CAPTURING_GRAPHS] == Progress(1, 4, "graphs")


@pytest.mark.parametrize(
    ("bar", "progress"),
    [
        ("Multi-thread loading shards:  17% Completed | 11/64 [00:09<00:44,  1.19it/s]", Progress(11, 64, "shards")),
        ("Loading pt checkpoint shards: 100% Completed | 1/1 [00:01<00:00,  1.22s/it]", Progress(1, 1, "shards")),
        (
            "Loading safetensors using Fastsafetensor loader:  50%|#####     | 2/4 [00:01<00:01]",
            Progress(2, 4, "shards"),
        ),
        ("^MLoading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]", Progress(0, 1, "shards")),
    ],
)
def test_every_loader_has_its_bar(bar: str, progress: Progress) -> None:
    assert read(*LOADING, bar).progress == progress


@pytest.mark.parametrize(
    "bar",
    [
        "Capturing batches (bs=160 avail_mem=7.30 GB):  25%|##        | 3/12 [00:00<00:16,  1.32it/s]",
        "Capturing num tokens (num_tokens=512 avail_mem=101.98 GB):  25%|#         | 3/12 [00:00<00:00, 42.06it/s]",
        "Capturing batches (avail_mem=54.94 GB):  25%|             | 3/12 [00:00<?, ?it/s]",
        " 25%|##        | 3/12 [00:07<00:07,  7.78s/it]",
    ],
)
def test_every_capture_has_its_bar(bar: str) -> None:
    begin = stamped(20, "Capture target verify CUDA graph begin. backend=full, bs=[1, 2], avail mem=6.67 GB")
    assert read(*LOADING, begin, bar).progress == Progress(3, 12, "graphs")


def test_a_bar_is_redrawn_with_carriage_returns_and_never_ended() -> None:
    bars = b"\r".join(b"Multi-thread loading shards: %3d%% Completed | %d/9 [00:00<00:01]" % (n, n) for n in range(6))
    reading = StartupLog().feed(as_log(LOADING) + bars).reading
    assert reading.progress == Progress(5, 9, "shards")
    assert reading.line_count == len(LOADING) + 1


@pytest.mark.parametrize(
    ("lines", "phase"),
    [
        (("Rank 0: Load weight begins.",), Phase.LOADING_WEIGHTS),
        (("[gpu=0] Load weight begin. avail mem=78.94 GB",), Phase.LOADING_WEIGHTS),
        ((stamped(1, "Init parallel begin."),), Phase.DISTRIBUTED_INIT),
        ((stamped(1, "server_args={'model_path': '/m', 'port': 30000}"),), Phase.SPAWNING),
        (
            (stamped(1, "KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 5, K size: 1 GB"),),
            Phase.ALLOCATING_KV_CACHE,
        ),
        ((stamped(1, "The available memory for KV cache is 4.85 GB.", rank="DP0 TP0 EP0"),), Phase.ALLOCATING_KV_CACHE),
        ((stamped(1, "Capture npu graph begin. This can take up to several minutes."),), Phase.CAPTURING_GRAPHS),
        ((stamped(1, "Capture piecewise CUDA graph begin. avail mem=102.67 GB"),), Phase.CAPTURING_GRAPHS),
        ((stamped(1, "Capture draft extend CUDA graph begin. backend=full"),), Phase.CAPTURING_GRAPHS),
        ((stamped(1, "Running FlashInfer autotune..."),), Phase.COMPILING_KERNELS),
        ((stamped(1, "Entering DeepGEMM JIT Pre-Compile session. It may take a long time"),), Phase.COMPILING_KERNELS),
        (("Rank 0: Max_total_num_token=115621, max_prefill_num_token=32768",), Phase.SERVING),
        ((stamped(1, "Dummy health check server started in background thread at 0.0.0.0:30000"),), Phase.SERVING),
    ],
)
def test_marks_of_other_versions_and_devices(lines: tuple[str, ...], phase: Phase) -> None:
    assert read(*lines).phase is phase


def test_a_compile_within_a_capture_stays_a_capture() -> None:
    reading = read(*STARTS[Phase.CAPTURING_GRAPHS], stamped(40, "Entering DeepGEMM JIT Pre-Compile session."))
    assert reading.phase is Phase.CAPTURING_GRAPHS


def test_the_draft_is_told_from_the_target_after_its_graphs() -> None:
    """Up to 0.5.10 the draft comes after the target's graphs."""
    reading = read(*DRAFTING)
    assert reading.phase is Phase.LOADING_DRAFT_WEIGHTS
    assert phases(reading)[-2:] == [Phase.CAPTURING_GRAPHS, Phase.LOADING_DRAFT_WEIGHTS]


def test_the_draft_is_told_from_the_target_right_after_its_weights() -> None:
    """From 0.5.16 on the draft comes right after the target's weights, and its bar starts again."""
    reading = read(
        *LOADING,
        stamped(
            30, "Load weight end. elapsed=109.33 s, type=LagunaForCausalLM, avail mem=47.80 GB, mem usage=67.56 GB."
        ),
        stamped(31, "Load weight begin. avail mem=47.83 GB"),
        "Multi-thread loading shards:   0% Completed | 0/1 [00:00<?, ?it/s]",
    )
    assert reading.phase is Phase.LOADING_DRAFT_WEIGHTS
    assert reading.progress == Progress(0, 1, "shards")


def test_ranks_that_lag_behind_do_not_turn_the_phase_back() -> None:
    reading = read(
        *(stamped(9, "Init torch distributed begin.", rank=f"TP{rank}") for rank in range(2)),
        *(stamped(10, "Load weight begin. avail mem=78 GB", rank=f"TP{rank}") for rank in range(2)),
        stamped(20, "Memory pool end. avail mem=7.85 GB", rank="TP1"),
        stamped(21, "Capture cuda graph begin.", rank="TP1"),
        stamped(22, "Memory pool end. avail mem=7.85 GB", rank="TP0"),
    )
    assert phases(reading) == [
        Phase.DISTRIBUTED_INIT,
        Phase.LOADING_WEIGHTS,
        Phase.ALLOCATING_KV_CACHE,
        Phase.CAPTURING_GRAPHS,
    ]


def test_two_ranks_that_load_once_each_load_no_draft() -> None:
    reading = read(*(stamped(9, "Load weight begin. avail mem=78 GB", rank=f"TP{rank}") for rank in range(8)))
    assert reading.phase is Phase.LOADING_WEIGHTS


def test_a_server_whose_bind_failed_is_not_ready_though_it_says_so() -> None:
    """Facts §0.2: its warm-up talks to the server that holds the port."""
    reading = read(
        *BINDING,
        stamped(
            33, "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already"
        ),
        stamped(33, "INFO:     Waiting for application shutdown."),
        stamped(34, "The server is fired up and ready to roll!"),
    )
    assert (reading.phase, reading.is_ready, reading.has_failed) == (Phase.BINDING_HTTP, False, True)


def test_two_servers_in_one_stream_are_ready_when_both_are() -> None:
    args = "server_args=ServerArgs(model_path='/m', host='0.0.0.0', port={})"
    lines = (
        stamped(1, args.format(30001)),
        stamped(1, args.format(30002)),
        stamped(9, "The server is fired up and ready to roll!"),
    )
    assert not read(*lines).is_ready
    assert read(*lines, stamped(9, "The server is fired up and ready to roll!")).is_ready


def test_a_log_that_goes_on_with_a_new_run_is_about_the_new_run() -> None:
    died = stamped(50, "Received sigquit from a child process. It usually means the child failed.")
    assert read(*SERVING, died).has_failed
    again = read(*SERVING, died, *LOADING)
    assert (again.phase, again.has_failed, again.is_ready) == (Phase.LOADING_WEIGHTS, False, False)
    assert read(*SERVING, died, *SERVING).is_ready


def test_what_dies_on_request_has_not_failed() -> None:
    reading = read(
        *SERVING,
        stamped(50, "SIGTERM received. signum=None frame=None. Draining requests and shutting down..."),
        stamped(51, "Subprocess scheduler_0 (pid=17427) crashed with exit code -15. Triggering SIGQUIT for cleanup..."),
        stamped(51, "SIGQUIT received. signum=None, frame=None. It usually means one child failed."),
    )
    assert (reading.has_failed, reading.is_stopping) == (False, True)


def test_marks_after_a_failure_change_the_phase_no_more() -> None:
    """Other ranks keep printing while the first one dies."""
    reading = read(
        *LOADING,
        stamped(20, "Received sigquit from a child process. It usually means the child failed."),
        stamped(21, "Memory pool end. avail mem=7.85 GB", rank="TP3"),
        "Capturing batches (bs=8 avail_mem=7.02 GB):  25%|##        | 1/4 [00:00<00:01,  4.66it/s]",
    )
    assert (reading.phase, reading.has_failed) == (Phase.LOADING_WEIGHTS, True)


def test_a_quiet_log_is_judged_by_its_bars() -> None:
    """At --log-level warning no phase line and no ready line exist."""
    half = ("Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00]",)
    graphs = "Capturing batches (bs=1 avail_mem=44.90 GB): {:3}%|###| {}/4 [00:00<00:00,  6.26it/s]"
    assert (read(*half).phase, read(*half).is_quiet) == (Phase.LOADING_WEIGHTS, True)
    assert not read(*half, graphs.format(50, 2)).is_ready
    drawn = read(*half, graphs.format(100, 4))
    assert (drawn.phase, drawn.is_ready) == (Phase.SERVING, True)
    draft = read(*half, graphs.format(100, 4), "Loading pt checkpoint shards:   0% Completed | 0/1 [00:00<?]")
    assert (draft.phase, draft.is_ready) == (Phase.LOADING_DRAFT_WEIGHTS, False)
    assert not read(*SERVING).is_quiet


def test_a_log_that_begins_while_it_serves_is_serving() -> None:
    decode = stamped(40, "Decode batch. #running-req: 1, #token: 91, token usage: 0.00, #queue-req: 0")
    assert read(decode).is_ready
    early = read(*WARMING, decode)
    assert (early.phase, early.is_ready) == (Phase.WARMING_UP, False)


def test_instants_are_those_of_the_lines_local_to_the_node() -> None:
    log = StartupLog(utc_offset_s=7200).feed(as_log(LOADING))
    assert log.reading.phases[-1].started_at == datetime(2026, 3, 1, 8, 0, 12, tzinfo=UTC)
    assert log.reading.last_line_at == datetime(2026, 3, 1, 8, 0, 12, tzinfo=UTC)


def test_a_line_that_names_its_zone_is_believed() -> None:
    line = "2026-03-01T10:00:12.345678901+02:00 stderr F Load weight begin. avail mem=78.58 GB"
    reading = StartupLog(utc_offset_s=-3600).feed(f"{line}\n".encode()).reading
    assert reading.phases[-1].started_at == datetime(2026, 3, 1, 8, 0, 12, 345678, tzinfo=UTC)


def test_lines_without_an_instant_have_that_of_their_arrival() -> None:
    log = StartupLog().feed(b"Rank 0: Load weight begins.\n", AT)
    log = log.feed(b"Rank 0: Max_total_num_token=115621, max\n", AT + timedelta(seconds=9))
    assert [(span.started_at, span.ended_at) for span in log.reading.phases] == [
        (AT, AT + timedelta(seconds=9)),
        (AT + timedelta(seconds=9), None),
    ]
    assert log.reading.last_line_at == AT + timedelta(seconds=9)


def test_an_impossible_instant_is_none() -> None:
    assert read("[2026-13-45 99:99:99] Load weight begin. avail mem=1 GB").phases[-1].started_at is None


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("SGLang Version 0.5.11+05fb6a52", "0.5.11"),
        ("sglang version: 0.5.10.post1", "0.5.10.post1"),
        ("sglang==0.4.9.post6", "0.4.9.post6"),
        ("sglang is using nccl==2.27.7", None),
    ],
)
def test_the_engine_version_is_read_where_it_is_named(line: str, version: str | None) -> None:
    assert read(line, *LOADING).engine_version == version


def test_the_unfinished_last_line_counts_without_being_used_up() -> None:
    log = StartupLog().feed(as_log(WARMING) + b"[2026-03-01 10:00:35] The server is fired up and ready")
    assert not log.reading.is_ready
    log = log.feed(b" to roll!")
    assert log.reading.is_ready
    assert log.feed(b"\n").reading.is_ready


def test_an_empty_log_says_nothing() -> None:
    reading = StartupLog().reading
    assert (reading.phase, reading.is_ready, reading.has_failed, reading.line_count) == (None, False, False, 0)


def test_the_ready_line_quoted_by_somebody_is_not_the_ready_line() -> None:
    quoted = stamped(
        20, 'grep -q "The server is fired up and ready to roll!" /var/log/engine.log && curl http://x/health'
    )
    assert not read(*WARMING, quoted).is_ready
