"""How fast a log is read and diagnosed, where the time goes, and what following a live log costs.

    python bench/read_log.py [--mib 100] [--profile]

Makes logs in memory in the engine's formats: a serving engine's, one of warnings only, one of long request dumps, and
one where every line sounds like trouble. Prints MB/s on one core for each, and the share of a core that following
100 lines/s takes.
"""

import argparse
import cProfile
import pstats
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from service.sglang.failures import diagnose
from service.sglang.startup_log import StartupLog

PIECE_BYTES = 1 << 18
LIVE_LINES_PER_S = 100
LIVE_S = 60
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def _stamp(seconds: float) -> str:
    return (_BEGIN + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")


def start_lines() -> list[str]:
    """Return the start of an engine with eight ranks."""
    lines = [f"[{_stamp(0)}] server_args=ServerArgs(model_path='/models/m', port=30000, tp_size=8)"]
    lines += [f"[{_stamp(9)} TP{rank}] Init torch distributed begin." for rank in range(8)]
    lines += [f"[{_stamp(12)} TP{rank}] Load weight begin. avail mem=78.59 GB" for rank in range(8)]
    lines += [
        f"Loading safetensors checkpoint shards: {n * 100 // 64:3}% Completed | {n}/64 [00:{n % 60:02}<00:10,  1.0s/it]"
        for n in range(65)
    ]
    lines += [f"[{_stamp(90)} TP{rank}] Memory pool end. avail mem=7.42 GB" for rank in range(8)]
    lines += [
        f"[{_stamp(91)} TP{rank}] Capture cuda graph begin. This can take up to several minutes." for rank in range(8)
    ]
    lines += [f"[{_stamp(120)}] INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)"]
    return [*lines, f"[{_stamp(121)}] The server is fired up and ready to roll!"]


def serving(n: int) -> str:
    """Return the n-th line of a busy engine: decode and prefill batches, and answered requests."""
    stamp = _stamp(130 + n / 20)
    match n % 5:
        case 0:
            return f'[{stamp}] INFO:     10.0.0.{n % 250}:{n % 60000} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        case 1:
            return (
                f"[{stamp} TP0] Prefill batch, #new-seq: {n % 9}, #new-token: {n % 8192}, #cached-token: 0, token "
                f"usage: "
                f"0.{n % 100:02}, #running-req: {n % 40}, #queue-req: 0, cuda graph: False, input throughput "
                f"(token/s): 9.1"
            )
        case _:
            return (
                f"[{stamp} TP0] Decode batch, #running-req: {n % 40}, #token: {n}, token usage: 0.{n % 100:02}, "
                f"accept len: "
                f"2.{n % 100:02}, accept rate: 0.62, cuda graph: True, gen throughput (token/s): 123.45, #queue-req: 0"
            )


def warnings_only(n: int) -> str:
    """Return the n-th line of an engine that warns of parameters it does not know."""
    return f"[{_stamp(130 + n / 20)} TP{n % 8}] Using default W8A8 Block FP8 kernel config for N={n},K=7168: slow path"


def request_dump(n: int) -> str:
    """Return the n-th line of an engine that logs whole requests."""
    ids = ", ".join(str(n + i) for i in range(400))
    return f"[{_stamp(130 + n)}] Receive: obj=GenerateReqInput(rid='{n:032x}', text='prompt {n}', input_ids=[{ids}])"


def trouble(n: int) -> str:
    """Return the n-th line of an engine that complains without end."""
    return f"E0528 06:32:54.{n % 1000000:06} 735017 tcp_transport.cpp:136] Session::writeBody failed. Bad address {n}"


def failure_lines(at_s: float) -> list[str]:
    """Return the end of an engine whose rank 3 runs out of memory."""
    return [
        f"[{_stamp(at_s)} TP3] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/opt/sglang/srt/managers/scheduler.py", line 1787, in run_scheduler_process',
        "    scheduler.event_loop_normal()",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 174.00 MiB.",
        f"[{_stamp(at_s)}] Received sigquit from a child process. It usually means the child failed.",
    ]


def make_log(line: Callable[[int], str], mib: int) -> bytes:
    """Return a log of about `mib` MiB: a start, the body, and a failure."""
    size, n = mib << 20, 0
    blocks = ["\n".join(start_lines()).encode()]
    held = 0
    while held < size:
        block = "\n".join(line(n + i) for i in range(5000)).encode()
        n += 5000
        held += len(block)
        blocks.append(block)
    blocks.append("\n".join(failure_lines(130 + n)).encode())
    return b"\n".join(blocks) + b"\n"


def read(data: bytes) -> str:
    """Read a log in pieces and return what it is diagnosed as."""
    log = StartupLog()
    for offset in range(0, len(data), PIECE_BYTES):
        log = log.feed(data[offset : offset + PIECE_BYTES])
    found = diagnose(log)
    return found.code if found else "none"


def live_share() -> float:
    """Return the share of a core that following a busy server takes, looked at ten times a second."""
    log = StartupLog().feed("\n".join(start_lines()).encode() + b"\n", _BEGIN)
    per_look = LIVE_LINES_PER_S // 10
    pieces = [
        ("\n".join(serving(look * per_look + i) for i in range(per_look)) + "\n").encode()
        for look in range(LIVE_S * 10)
    ]
    began = time.process_time()
    for piece in pieces:
        log = log.feed(piece, _BEGIN)
        if log.reading.has_failed:
            raise AssertionError
    return (time.process_time() - began) / LIVE_S


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=100)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    for body in (serving, warnings_only, request_dump, trouble):
        data = make_log(body, arguments.mib)
        began = time.process_time()
        code = read(data)
        took_s = time.process_time() - began
        print(
            f"{body.__name__:14} {len(data) / 1e6:6.1f} MB in {took_s:5.2f} s: {len(data) / 1e6 / took_s:6.1f} "
            f"MB/s, {code}"
        )
    print(f"following {LIVE_LINES_PER_S} lines/s takes {live_share():.2%} of a core")
    if arguments.profile:
        data = make_log(serving, arguments.mib)
        profile = cProfile.Profile()
        profile.runcall(read, data)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()
