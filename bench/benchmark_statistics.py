"""What the statistics of benchmarks find and what they imagine: simulated runs with known noise.

Prints the verdicts of `compare` and the change points of `history` at 2 % noise between runs, and says whether the
promises hold: false alarms of at most 6 %, a change of -5 % found with five repeats at least 80 times in 100.
Usage: python bench/benchmark_statistics.py [--trials 400] [--seed 1]
"""

import argparse
import math
import random
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from service.benchmarks.comparison import Policy, compare
from service.benchmarks.history import HistoryPoint, history
from service.benchmarks.judging import Verdict
from service.benchmarks.results import (
    ClientProvenance,
    HostProvenance,
    Rates,
    Result,
    ServerProvenance,
    Totals,
    WorkloadFacts,
)

NOISE = 0.02
MAX_FALSE_ALARMS = 0.06
MIN_FOUND = 0.80
START = datetime(2026, 1, 1, tzinfo=UTC)


def runs(generator: random.Random, count: int, mean_tps: float, noise: float = NOISE) -> list[Result]:
    """Return results that differ by log-normal noise alone."""
    return [_result(mean_tps * math.exp(generator.gauss(0.0, noise))) for _ in range(count)]


def verdicts(generator: random.Random, repeats: int, change: float, trials: int) -> Counter[Verdict]:
    """Return how often each verdict came of runs whose true difference is `change`."""
    policy = Policy(metrics=())
    return Counter(
        compare(runs(generator, repeats, 100.0), runs(generator, repeats, 100.0 * (1 + change)), policy=policy).verdict
        for _ in range(trials)
    )


def series(generator: random.Random, length: int, step: float, at: int) -> list[HistoryPoint]:
    """Return a history that changes by `step` from run `at` on."""
    return [
        HistoryPoint(
            run_id=str(place),
            at=START + timedelta(days=place),
            value=(100.0 * (1 + step) if place >= at else 100.0) * math.exp(generator.gauss(0.0, NOISE)),
        )
        for place in range(length)
    ]


def found_share(generator: random.Random, *, length: int, step: float, at: int, trials: int) -> float:
    """Return the share of series in which a change was told, within three runs of the true one when there is one."""
    hits = 0
    for _ in range(trials):
        changes = history("output_throughput_tps", series(generator, length, step, at)).changes
        hits += bool(changes) if step == 0 else any(abs(change.index - at) <= 3 for change in changes)
    return hits / trials


def main(argv: Sequence[str] | None = None) -> int:
    """Print both tables; return 1 when a promise does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv)
    generator = random.Random(arguments.seed)  # noqa: S311  noise, no secret
    is_kept = _print_verdicts(generator, arguments.trials)
    is_kept &= _print_changes(generator, max(arguments.trials // 2, 1))
    print("\nThe promises hold." if is_kept else "\nA PROMISE DOES NOT HOLD.")
    return 0 if is_kept else 1


def _result(output_tps: float) -> Result:
    return Result(
        client=ClientProvenance(tool="simulation"),
        server=ServerProvenance(model_id="m", server_instance_id="one"),
        host=HostProvenance(gpu_model="g", gpu_count_used=1),
        workload=WorkloadFacts(dataset="random-ids"),
        totals=Totals(requests_completed=1),
        rates=Rates(output_throughput_tps=output_tps),
    )


def _print_verdicts(generator: random.Random, trials: int) -> bool:
    print(f"compare: {NOISE:.0%} noise between runs, {trials} trials a line\n")
    print("repeats a side  true change  regressed  improved  equivalent  inconclusive")
    is_kept = True
    for repeats in (3, 5, 10, 16):
        for change in (0.0, -0.03, -0.05, -0.10, 0.05):
            found = verdicts(generator, repeats, change, trials)
            shares = [found[v] / trials for v in list(Verdict)[:4]]
            improved, regressed, equivalent, unsure = shares
            cells = "".join(f"{share:>11.1%}" for share in (regressed, improved, equivalent, unsure))
            print(f"{repeats:>14}  {change:>+11.0%}{cells}")
            if change == 0.0:
                is_kept &= regressed + improved <= MAX_FALSE_ALARMS
            if repeats == 5 and change == -0.05:
                is_kept &= regressed >= MIN_FOUND
    return is_kept


def _print_changes(generator: random.Random, trials: int) -> bool:
    print(f"\nhistory: {NOISE:.0%} noise, {trials} series a line\n")
    print("runs  true change      told")
    is_kept = True
    for length, step, at in (
        (30, 0.0, 0),
        (8, 0.0, 0),
        (300, 0.0, 0),
        (30, -0.05, 15),
        (30, -0.05, 25),
        (30, -0.1, 15),
    ):
        share = found_share(generator, length=length, step=step, at=at, trials=trials)
        what = "none" if step == 0 else f"{step:+.0%} at {at}"
        print(f"{length:>4}  {what:<12}  {share:>7.1%}")
        if step == 0 and length == 30:
            is_kept &= share <= MAX_FALSE_ALARMS
    return is_kept


if __name__ == "__main__":
    sys.exit(main())
