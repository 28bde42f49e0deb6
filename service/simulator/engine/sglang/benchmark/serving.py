"""`python -m sglang.benchmark.serving ARGUMENTS`: the benchmark client, against whatever server is at its address."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Tuple

from ..versions import this_version  # noqa: TID252  the package has another name where it runs
from .prompts import rows_of
from .report import append_line, details_of, result_of, table_of
from .requests import Address, Outcome, Row, ask, generate

BAR_EVERY_S = 0.1
WARMUP_TOKENS = 32
MOST_THREADS = 512
HTTP_OK = 200
PAUSE_S = 1.0
"""Between the warm-up and the first measured request, as the real client has it."""
PLAIN_FLAGS = (
    "--served-model-name",
    "--tokenizer",
    "--dataset-path",
    "--tag",
)


def main(argv: List[str]) -> int:
    """Run the client and return its exit code: 0 also when requests failed."""
    arguments = _parser().parse_args(argv)
    print(f"benchmark_args={arguments}", flush=True)
    random.seed(arguments.seed)
    address = _address(arguments)
    if not _is_ready(address, arguments.ready_check_timeout_sec):
        print(f"Server at http://{address.host}:{address.port}/v1/models is not ready. Exiting.", flush=True)
        return 1
    rows = rows_of(arguments)
    _warm_up(arguments, address, rows[0])
    time.sleep(PAUSE_S)
    began = time.perf_counter()
    outcomes = _measure(arguments, address, rows)
    server_info = _server_info(address)
    result = result_of(arguments, outcomes, time.perf_counter() - began, server_info)
    print(table_of(result), flush=True)
    details = details_of(arguments, outcomes) if arguments.output_details else {}
    append_line(arguments.output_file, {**result, **details})
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the flags that a workload of Vigil comes to, as far as the version has them."""
    version = this_version()
    parser = argparse.ArgumentParser(prog="serving.py", allow_abbrev=True)
    parser.add_argument("--backend", default="sglang", choices=["sglang", "sglang-oai", "sglang-oai-chat"])
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104  as the real one has it
    parser.add_argument("--model", required=True)
    parser.add_argument("--output-file", required=True)
    parser.add_argument("--dataset-name", default="sharegpt")
    for name in PLAIN_FLAGS:
        parser.add_argument(name, default=None)
    for name, default in (("--port", 30000), ("--num-prompts", 1000), ("--seed", 42), ("--warmup-requests", 1)):
        parser.add_argument(name, type=int, default=default)
    for name in ("--max-concurrency", "--sharegpt-output-len"):
        parser.add_argument(name, type=int, default=None)
    for name, default in (("random-input-len", 1024), ("random-output-len", 1024), ("gsp-num-groups", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("prompts-per-group", 16), ("system-prompt-len", 2048), ("question-len", 128)):
        parser.add_argument(f"--gsp-{name}", type=int, default=default)
    parser.add_argument("--gsp-output-len", type=int, default=256)
    for name in ("--random-range-ratio", "--gsp-range-ratio"):
        parser.add_argument(name, type=float, default=0.0)
    parser.add_argument("--request-rate", type=float, default=float("inf"))
    parser.add_argument("--ready-check-timeout-sec", type=int, default=60)
    flags = ["--tokenize-prompt", "--output-details", "--disable-ignore-eos", "--flush-cache"]
    for name in [*flags, "--cache-report"] if version.has_new_texts else flags:
        parser.add_argument(name, action="store_true")
    if version.is_newest:
        parser.add_argument("--flush-cache-timeout", type=float, default=30.0)
        parser.add_argument("--goodput", nargs="+", type=_limit, default=None)
    return parser


def _limit(text: str) -> Tuple[str, float]:
    name, _, value = text.partition(":")
    return name, float(value)


def _address(arguments: argparse.Namespace) -> Address:
    key = os.environ.get("OPENAI_API_KEY")
    return Address(arguments.host, arguments.port, {"Authorization": f"Bearer {key}"} if key else {})


def _is_ready(address: Address, patience_s: float) -> bool:
    print(f"Waiting up to {patience_s}s for http://{address.host}:{address.port}/v1/models to become ready...")
    deadline = time.monotonic() + patience_s
    while ask(address, "GET", "/v1/models", patience_s=5)[0] != HTTP_OK:
        if time.monotonic() >= deadline:
            return False
        time.sleep(1)
    return True


def _warm_up(arguments: argparse.Namespace, address: Address, row: Row) -> None:
    """Send copies of the first prompt; ends the process as the real client does when all of them fail."""
    count = arguments.warmup_requests
    print(f"Starting warmup with {count} sequences...", flush=True)
    short = row._replace(output_tokens=min(row.output_tokens, WARMUP_TOKENS))
    with ThreadPoolExecutor(_threads(arguments, count)) as pool:
        outcomes = list(pool.map(lambda _: _one(arguments, address, short), range(count)))
    if outcomes and not any(outcome.is_good for outcome in outcomes):
        text = "Warmup failed - Please make sure benchmark arguments are correctly specified."
        raise ValueError(f"{text} Error: {outcomes[0].error}")
    print(f"Warmup completed with {count} sequences. Starting main benchmark run...", flush=True)
    if arguments.flush_cache:
        status, body = ask(address, "POST", "/flush_cache")
        if status != HTTP_OK and this_version().is_newest:
            raise RuntimeError(f"{status} Client Error: {body.decode('utf-8', 'replace')} for url: /flush_cache")


def _measure(arguments: argparse.Namespace, address: Address, rows: List[Row]) -> List[Outcome]:
    bar = _Bar(len(rows))

    def one(row: Row) -> Outcome:
        outcome = _one(arguments, address, row)
        bar.advance()
        return outcome

    with ThreadPoolExecutor(_threads(arguments, len(rows))) as pool:
        pending = []
        for row in rows:
            pending.append(pool.submit(one, row))
            if arguments.request_rate != float("inf"):
                time.sleep(random.expovariate(arguments.request_rate))
        return [one.result() for one in pending]


def _one(arguments: argparse.Namespace, address: Address, row: Row) -> Outcome:
    return generate(
        address,
        row,
        model=arguments.served_model_name or arguments.model,
        is_chat=arguments.backend == "sglang-oai-chat",
        ignores_end=not arguments.disable_ignore_eos,
    )


def _threads(arguments: argparse.Namespace, count: int) -> int:
    return max(min(arguments.max_concurrency or count, MOST_THREADS), 1)


def _server_info(address: Address) -> Optional[Dict[str, Any]]:
    status, body = ask(address, "GET", "/server_info")
    return json.loads(body) if status == HTTP_OK else None


class _Bar:
    """The bar of the measured requests, in tqdm's manner, on the error stream."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._drawn_at = 0.0
        self._lock = threading.Lock()
        self._draw()

    def advance(self) -> None:
        """Count one request; drawn when it is time, and at the last."""
        with self._lock:
            self._done += 1
            if self._done == self._total or time.monotonic() - self._drawn_at >= BAR_EVERY_S:
                self._draw()

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        seconds = int(self._drawn_at - self._began)
        filled = "█" * (10 * self._done // self._total)
        ending = "\n" if self._done == self._total else ""
        percent = 100 * self._done // self._total
        text = f"{percent:>3}%|{filled:<10}| {self._done}/{self._total} [00:{seconds:02d}<?, ?it/s]"
        sys.stderr.write(f"\r{text}{ending}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
