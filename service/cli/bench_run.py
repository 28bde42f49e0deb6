"""`vigil bench run`: a benchmark run is asked for, and followed on request with a live line."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from service.benchmarks.svg import number
from service.cli.asking import Api, Refused, run
from service.cli.client import Unreachable
from service.cli.output import ExitCode, note, print_json, printable, problem_line, say
from service.cli.waiting import bar

LOOK_EVERY_S = 1.0
SHOWN = ("output_throughput_tps", "ttft_p99_ms", "tpot_p50_ms", "accept_length")
_BUSY = frozenset({429, 500, 502, 503})


def begin(url: str, wish: Mapping[str, Any], *, wait_s: float | None, as_json: bool) -> int:
    """Ask for a run; `wait_s` None does not wait for its end. Code 1: it did not succeed, 2: the time is up."""

    async def work(api: Api) -> int:
        accepted = await api.change("POST", "/benchmark-runs", dict(wish))
        if wait_s is None:
            if as_json:
                print_json(accepted)
            else:
                for one in _both(accepted):
                    say(f"run {one['id']}: {one['benchmark']} on {one['server']}, {one['steps']} clients")
            return ExitCode.OK
        deadline = time.monotonic() + wait_s
        ended = [await _follow(api, one["id"], deadline) for one in _both(accepted)]
        if as_json:
            print_json(ended[0] if len(ended) == 1 else ended)
        else:
            for one in ended:
                _tell(one)
        return _exit_code(ended)

    return run(url, work)


def _both(accepted: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [accepted, *([accepted["against"]] if accepted["against"] else [])]


def _exit_code(ended: Sequence[Mapping[str, Any]]) -> int:
    late = [one["id"] for one in ended if one["state"] == "running"]
    if late:
        note(f"the time is up; {', '.join(late)} goes on")
        return ExitCode.NO_ANSWER
    return ExitCode.OK if all(one["state"] == "succeeded" for one in ended) else ExitCode.REFUSED


async def _follow(api: Api, run_id: str, deadline: float) -> dict[str, Any]:
    """Look at a run until it has ended or the time is up; a restart of the service is waited out."""
    with Console(stderr=True).status(f"{run_id}: asking") as line:
        while True:
            is_late = time.monotonic() >= deadline
            try:
                seen: dict[str, Any] = await api.get(f"/benchmark-runs/{run_id}")
            except (Unreachable, Refused) as error:
                if is_late or (isinstance(error, Refused) and error.status not in _BUSY):
                    raise
                line.update(Text(printable(f"{run_id}: {error}; trying again")))
            else:
                if seen["state"] != "running" or is_late:
                    return seen
                line.update(Text(printable(describe(seen))))
            await asyncio.sleep(min(LOOK_EVERY_S, max(deadline - time.monotonic(), 0)))


def describe(seen: Mapping[str, Any]) -> str:
    """Return how far a run has come, in one line."""
    progress = seen["progress"]
    if progress is None:
        return f"{seen['id']}: about to begin"
    done, total = progress["done"], progress["total"]
    requests = f", {bar(done, total)} {done} of {total} requests" if total else ""
    failed = f", {progress['failed']} failed" if progress["failed"] else ""
    stage = progress["stage"].replace("_", " ")
    step = f"client {progress['step']} of {progress['steps']} ({progress['load']})"
    return f"{seen['id']}: {step}, {stage}{requests}{failed}"


def _tell(ended: Mapping[str, Any]) -> None:
    say(f"run {ended['id']}: {ended['state']}")
    for point in ended["points"]:
        numbers = [f"{name} {number(point['metrics'][name])}" for name in SHOWN if name in point["metrics"]]
        say(f"  {point['load']}: {', '.join(numbers) or 'no numbers'} (mean of {point['repeats']})")
    if ended["problem"]:
        note(problem_line(ended["problem"]))
    baseline = ended["baseline"]
    if baseline:
        say(f"  against baseline {baseline['baseline_run_id']}: {baseline['verdict']}")
