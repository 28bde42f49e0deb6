"""A longer run, for a person who watches: `python -m tests.fuzz [--examples 200] [--seed 1]`."""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.fuzz.running import run
from tests.fuzz.world import furnished


def main() -> int:
    """Run, print what was found and what was answered; 0 if nothing was found."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz")
    options.add_argument("--examples", type=int, default=200, help="requests of the generator for each operation")
    options.add_argument("--seed", type=int, default=random.randrange(2**31), help="the same seed, the same requests")  # noqa: S311
    options.add_argument("--deadline-s", type=float, default=7200)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="vigil-fuzz-") as directory, furnished(Path(directory)) as vigil:
        outcome = run(vigil, Path(directory), seed=given.seed, examples=given.examples, deadline_s=given.deadline_s)
        failures = [line for line in vigil.log.read_text().splitlines() if " ERROR " in line]
    print(outcome.report, outcome.table(), *failures, f"seed {given.seed}", sep="\n")  # noqa: T201
    return 0 if outcome.is_clean and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
