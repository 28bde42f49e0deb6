"""One run of Schemathesis against a furnished service, and what came of it."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.contract.vigil import Vigil
from tests.fuzz.world import TOKEN, environment_of

CONFIG = Path(__file__).with_name("schemathesis.toml")
REQUEST_DEADLINE_S = 30


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found, in words, and how often each operation gave each status."""

    is_clean: bool
    report: str
    answers: Mapping[str, Counter[int]]

    def share_of_success(self, operation: str) -> float:
        """Return which share of an operation's answers was 2xx."""
        counts = self.answers[operation]
        return sum(count for status, count in counts.items() if 200 <= status < 300) / counts.total()

    def table(self) -> str:
        """Return a line for each operation: requests, share of 2xx, and all statuses."""
        return "\n".join(
            f"{operation:75} {counts.total():5} {self.share_of_success(operation):6.1%}  "
            + " ".join(f"{status}:{count}" for status, count in sorted(counts.items()))
            for operation, counts in sorted(self.answers.items())
        )


def run(vigil: Vigil, root: Path, *, seed: int, examples: int, deadline_s: float) -> Outcome:
    """Let Schemathesis make up requests for every operation but the endless stream."""
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            *("--config-file", str(CONFIG), "run", f"{vigil.url}/openapi.json"),
            *("--header", f"Authorization: Bearer {TOKEN}", "--exclude-path", "/api/v1/events"),
            *("--seed", str(seed), "--max-examples", str(examples), "--phases", "examples,coverage,fuzzing"),
            *("--request-timeout", str(REQUEST_DEADLINE_S), "--generation-database", "none"),
            *("--continue-on-failure", "--warnings", "off", "--no-color", "--workers", "1"),
        ],
        cwd=root,  # where it keeps what it remembers of a run
        env=environment_of(root),
        capture_output=True,
        timeout=deadline_s,
        check=False,
        text=True,
    )
    assert (root / "answers.jsonl").exists(), done.stdout + done.stderr
    answers: dict[str, Counter[int]] = defaultdict(Counter)
    for line in (root / "answers.jsonl").read_text().splitlines():
        operation, method, status = json.loads(line)
        if operation.startswith(f"{method} "):
            answers[operation][status] += 1
    return Outcome(done.returncode == 0, done.stdout + done.stderr, answers)
