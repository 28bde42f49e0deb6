"""Logs written line by line in the engine's formats: a start up to each phase, tracebacks, and what follows them."""

from collections.abc import Iterable

from service.sglang.phases import Phase

STAMP = "2026-03-01 10:00"


def stamped(second: int, text: str, *, rank: str = "") -> str:
    """Return a line as the engine stamps it."""
    return f"[{STAMP}:{second:02}{' ' + rank if rank else ''}] {text}"


SPAWNING = (
    "/env/lib/python3.11/site-packages/sglang/launch_server.py:54: UserWarning: 'python -m sglang.launch_server'",
    stamped(1, "Attention backend not specified. Use fa3 backend by default."),
    stamped(2, "server_args=ServerArgs(model_path='/models/m', port=30000, nnodes=2, watchdog_timeout=300)"),
)
JOINING = (*SPAWNING, stamped(9, "Init torch distributed begin."))
LOADING = (
    *JOINING,
    stamped(11, "Init torch distributed ends. mem usage=0.09 GB"),
    stamped(12, "Load weight begin. avail mem=78.58 GB"),
    "Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]",
    "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.81it/s]",
)
ALLOCATING = (
    *LOADING,
    "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:02<00:00,  1.81it/s]",
    stamped(20, "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=75.68 GB, mem usage=3.1 GB."),
    stamped(21, "Using KV cache dtype: torch.bfloat16"),
)
CAPTURING = (
    *ALLOCATING,
    stamped(22, "KV Cache is allocated. #tokens: 20480, K size: 1.88 GB, V size: 1.88 GB"),
    stamped(22, "Memory pool end. avail mem=7.85 GB"),
    stamped(23, "Capture cuda graph begin. This can take up to several minutes. avail mem=7.02 GB"),
    "Capturing batches (bs=8 avail_mem=7.02 GB):  25%|##        | 1/4 [00:00<00:01,  4.66it/s]",
)
DRAFTING = (
    *CAPTURING,
    "Capturing batches (bs=1 avail_mem=7.02 GB): 100%|##########| 4/4 [00:00<00:00,  4.66it/s]",
    stamped(30, "Capture cuda graph end. Time elapsed: 0.76 s. mem usage=0.07 GB. avail mem=6.95 GB."),
    stamped(31, "Init torch distributed begin."),
    stamped(31, "Load weight begin. avail mem=6.90 GB"),
)
BINDING = (
    *CAPTURING,
    stamped(30, "Capture cuda graph end. Time elapsed: 0.76 s. mem usage=0.07 GB. avail mem=6.95 GB."),
    stamped(31, "max_total_num_tokens=20480, chunked_prefill_size=8192, max_prefill_tokens=16384, context_len=8192"),
    stamped(32, "INFO:     Started server process [3384007]"),
    stamped(32, "INFO:     Waiting for application startup."),
    stamped(32, "INFO:     Application startup complete."),
)
WARMING = (
    *BINDING,
    stamped(33, "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)"),
    stamped(34, 'INFO:     127.0.0.1:38958 - "GET /model_info HTTP/1.1" 200 OK'),
)
SERVING = (
    *WARMING,
    stamped(35, "The server is fired up and ready to roll!"),
    stamped(40, "Decode batch, #running-req: 1, #token: 91, token usage: 0.00, cuda graph: True, #queue-req: 0"),
)
STARTS = {
    Phase.SPAWNING: SPAWNING,
    Phase.DISTRIBUTED_INIT: JOINING,
    Phase.LOADING_WEIGHTS: LOADING,
    Phase.LOADING_DRAFT_WEIGHTS: DRAFTING,
    Phase.ALLOCATING_KV_CACHE: ALLOCATING,
    Phase.CAPTURING_GRAPHS: CAPTURING,
    Phase.BINDING_HTTP: BINDING,
    Phase.WARMING_UP: WARMING,
    Phase.SERVING: SERVING,
}
"""A start up to and into each phase."""

SRT = "/env/lib/python3.11/site-packages/sglang/srt"
SITE = "/env/lib/python3.11/site-packages"
LOOP = (f"{SRT}/managers/scheduler.py event_loop_overlap", f"{SRT}/managers/scheduler.py run_batch")
INIT = (f"{SRT}/managers/scheduler.py run_scheduler_process", f"{SRT}/managers/scheduler.py __init__")
LOAD = (*INIT, f"{SRT}/model_executor/model_runner.py load_model", f"{SRT}/model_loader/loader.py load_model")
MAIN = (f"{SITE}/sglang/launch_server.py <module>", f"{SRT}/server_args.py prepare_server_args")


def traceback(*frames: str, error: str, code: str = "call()") -> tuple[str, ...]:
    """Return a Python traceback; a frame is "path function"."""
    lines = ["Traceback (most recent call last):"]
    for frame in frames:
        path, function = frame.rsplit(" ", 1)
        lines += [f'  File "{path}", line 42, in {function}', f"    {code}"]
    return (*lines, *error.split("\n"))


def hit(*frames: str, error: str, rank: str = "TP0", second: int = 50, code: str = "call()") -> tuple[str, ...]:
    """Return what a scheduler logs that ends in an exception, and what the parent says to it."""
    head, *rest = traceback(*frames, error=error, code=code)
    return (stamped(second, f"Scheduler hit an exception: {head}", rank=rank), *rest, "", sigquit(second))


def sigquit(second: int = 50) -> str:
    """Return what the parent says when a child has failed."""
    return stamped(second, "Received sigquit from a child process. It usually means the child failed.")


def as_log(*parts: Iterable[str]) -> bytes:
    """Return lines as the bytes of a log."""
    return "\n".join(line for part in parts for line in part).encode() + b"\n"
