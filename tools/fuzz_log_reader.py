"""Feeds broken, spliced and hostile logs to the reader for a given time and checks what must always hold.

python tools/fuzz_log_reader.py [--seconds 600] [--seed N] [FOLDER...]    folders hold *.log or log.txt to start from

Checks: no exception; any chopping reads the same; a failed log is not ready; evidence is bounded; and reading takes no
more than a time in proportion to the size, so that no pattern backtracks badly. Prints the seed of a case that fails.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from service.sglang.failures import diagnose, findings  # noqa: E402 - a script, found from anywhere
from service.sglang.log_order import read_in_order  # noqa: E402
from service.sglang.startup_log import StartupLog  # noqa: E402

SIZE_LIMIT_BYTES = 400_000
SLOWEST_S_PER_MB = 4.0
SLACK_S = 1.0
EVIDENCE_LIMIT = 20_000
LOOKS = 0.05
"""How often a reading is asked for in the midst of a log."""
NASTY = (
    b"\r",
    b"\n",
    b"\r\n",
    b"\x00" * 40,
    b"\x1b[31m",
    b"\xff\xfe\xc3",
    b"Traceback (most recent call last):\n",
    b"During handling of the above exception, another exception occurred:\n",
    b'  File "',
    b"Error: ",
    b" " * 4000,
    b"(" * 3000,
    b"A." * 3000,
    b"|" * 3000,
    b"[" * 3000,
    b"-" * 3000,
    b"[2026-01-01 00:00:00 TP0" + b" TP1" * 900 + b"] ",
    b"  0%|" + b"\xe2\x96\x88" * 1500 + b"| 1/2",
    b'{"log":"' + b'{"message":"' * 300,
    b"Fatal Python error: ",
    b"Current thread 0x0 (most recent call first):\n",
    b"exit 137\n",
    b"NCCL WARN " + b"shared memory segment " * 200,
    b"KeyError: 'x'\n",
    b"AssertionError\n",
)


def mutated(log: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Return a log after a few random injuries."""
    data = bytearray(log)
    for _ in range(rng.randint(1, 6)):
        rng.choice(INJURIES)(data, others, rng)
    return bytes(data[:SIZE_LIMIT_BYTES])


def _place(data: bytearray, rng: random.Random) -> int:
    return rng.randint(0, len(data))


def _cut(data: bytearray, _others: Sequence[bytes], rng: random.Random) -> None:
    begin = _place(data, rng)
    del data[begin : begin + rng.choice((1, 30, 4000, 100_000))]


def _insert(data: bytearray, _others: Sequence[bytes], rng: random.Random) -> None:
    place = _place(data, rng)
    data[place:place] = rng.choice(NASTY)


def _splice(data: bytearray, others: Sequence[bytes], rng: random.Random) -> None:
    other = rng.choice(others)
    begin = rng.randint(0, len(other))
    place = _place(data, rng)
    data[place:place] = other[begin : begin + rng.choice((200, 5_000, 60_000))]


def _flip(data: bytearray, _others: Sequence[bytes], rng: random.Random) -> None:
    for _ in range(rng.randint(1, 60)):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)


def _shuffle(data: bytearray, _others: Sequence[bytes], rng: random.Random) -> None:
    lines = bytes(data).split(b"\n")
    if rng.randrange(2):
        lines.reverse()
    else:
        rng.shuffle(lines)
    data[:] = b"\n".join(lines)


def _unbreak(data: bytearray, _others: Sequence[bytes], rng: random.Random) -> None:
    data[:] = bytes(data).replace(b"\n", rng.choice((b"", b" ", b"\r")))


INJURIES: tuple[Callable[[bytearray, Sequence[bytes], random.Random], None], ...] = (
    _cut,
    _insert,
    _insert,
    _splice,
    _flip,
    _shuffle,
    _unbreak,
)


def check(data: bytes, rng: random.Random) -> float:
    """Raise AssertionError when something that must hold does not; returns how long the reading took, in s."""
    began = time.process_time()
    whole = StartupLog().feed(data)
    reading, diagnosis, found = whole.reading, diagnose(whole), findings(whole)
    took_s = time.process_time() - began
    limit_s = SLACK_S + SLOWEST_S_PER_MB * len(data) / 1e6
    assert took_s <= limit_s, f"{len(data)} bytes took {took_s:.2f} s"  # noqa: S101
    assert not (reading.is_ready and reading.has_failed), "ready and failed at once"  # noqa: S101
    assert diagnosis is None or len(repr(diagnosis)) < EVIDENCE_LIMIT, "too much evidence"  # noqa: S101
    chopped, place = StartupLog(), 0
    while place < len(data):
        size = rng.choice((1, 7, 300, 9_000, 70_000))
        chopped = chopped.feed(data[place : place + size])
        place += size
        if rng.random() < LOOKS:
            chopped.reading  # noqa: B018 - a look must not count
    assert chopped.reading == reading, "chopping changed the reading"  # noqa: S101
    assert (diagnose(chopped), findings(chopped)) == (diagnosis, found), "chopping changed the diagnosis"  # noqa: S101
    read_in_order(data)
    return took_s


def starting_logs(folders: Sequence[Path]) -> list[bytes]:
    """Return the logs to injure."""
    paths = [
        path for folder in folders for pattern in ("**/*.log", "**/log.txt") for path in sorted(folder.glob(pattern))
    ]
    return [path.read_bytes() for path in paths] or [b"Rank 0: Load weight begins.\n"]


def main() -> int:
    """Fuzz until the time is over or something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("folders", nargs="*", type=Path, default=[ROOT / "tests" / "sglang" / "logs"])
    options = parser.parse_args()
    logs = starting_logs(options.folders)
    until, seed, size, slowest_s = time.monotonic() + options.seconds, options.seed, 0, 0.0
    while time.monotonic() < until:
        rng = random.Random(seed)  # noqa: S311 - no secret
        data = mutated(rng.choice(logs), logs, rng)
        try:
            slowest_s = max(slowest_s, check(data, rng))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is found
            print(f"seed {seed}: {error!r}")
            return 1
        seed, size = seed + 1, size + len(data)
    print(f"{seed - options.seed} logs, {size / 1e6:.0f} MB, nothing found; the slowest took {slowest_s:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
