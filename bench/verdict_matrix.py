"""What is said of a start and when: the matrix of phases and mishaps, and how many of many random starts are misjudged.

    python bench/verdict_matrix.py [--count 1000] [--seed 0]

All in virtual time, by the steps of a watcher. Prints for each phase what is said after which time when the start is
slow, freezes, dies, is out of sight, or is watched by a new service; then over `count` slow but moving and `count`
frozen starts, half of them of profiles with fast earlier starts: false and missed verdicts, and for each phase how long
after the freeze it was found, as a share of the deadline too. Exits with 1 if any start was misjudged.
"""

import argparse
import sys
import time
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from service.servers.progress import History, expected_from
from service.sglang.phases import Phase
from tests.servers.progress_matrix import Detection, Mishap, Sweep, deadline_of, story, sweep

_SHORT = {"progressing": "ok", "suspected_hung": "hung"}


def print_matrix() -> None:
    """Print what is said of each phase in each mishap, with the seconds since the phase began."""
    expected = expected_from(History())
    print(
        "What is said, and how many seconds after the phase began (no earlier start; looks at 1/60 of the deadline)\n"
    )
    print(f"{'phase':22}{'deadline':>9}  " + "".join(f"{mishap:26}" for mishap in Mishap))
    for phase in Phase:
        cells = []
        for mishap in Mishap:
            said = story(phase, mishap, expected)
            cells.append(" ".join(f"{_SHORT.get(item.what, item.what)} {item.at_s:.0f}" for item in said[1:]) or "ok")
        print(f"{phase:22}{deadline_of(phase, expected):7.0f} s  " + "".join(f"{cell:26}" for cell in cells))


def print_sweep(result: Sweep, *, count: int, took_s: float) -> None:
    """Print how the random starts came out."""
    print(f"\n{count} slow but moving starts: {len(result.false)} called hung {list(result.false[:10]) or ''}")
    print(f"{count} frozen starts: {len(result.missed)} missed {list(result.missed[:10]) or ''}")
    print(f"{result.looks} looks at moving starts; {took_s:.0f} s in all\n")
    print("Found after the freeze, of those whose log fell silent (a look comes each 1 to 15 s):")
    _print_detections([found for found in result.detections if not found.is_talking])
    print("\nThe same where the frozen start went on talking in its log:")
    _print_detections([found for found in result.detections if found.is_talking])


def _print_detections(found: list[Detection]) -> None:
    print(f"{'phase':22}{'starts':>7}{'p50':>9}{'p95':>9}{'longest':>9}{'of deadline':>13}{'late by':>9}")
    for phase in Phase:
        mine = [each for each in found if each.phase is phase]
        if not mine:
            continue
        after_s = [each.after_s for each in mine]
        p95_s = quantiles(after_s, n=20)[-1] if len(after_s) > 1 else after_s[0]
        share = max(each.after_s / each.deadline_s for each in mine)
        late_s = max(each.late_s for each in mine)
        print(
            f"{phase:22}{len(mine):7}{median(after_s):7.0f} s{p95_s:7.0f} s{max(after_s):7.0f} s"
            f"{share:12.0%} {late_s:6.1f} s"
        )


def main() -> int:
    """Run and print; the exit code tells whether any start was misjudged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print_matrix()
    began_s = time.perf_counter()
    result = sweep(options.count, first_seed=options.seed)
    print_sweep(result, count=options.count, took_s=time.perf_counter() - began_s)
    return 1 if result.false or result.missed else 0


if __name__ == "__main__":
    sys.exit(main())
