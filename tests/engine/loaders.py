"""Asks the real draft classes of an installed engine, in its own Python, what they make of tensors and checkpoints."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.engine import loader_probe
from tests.engine.engines import installed

DEADLINE_S = 300


def probe(version: str, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of `loader_probe` to these cases, in their order."""
    engine = installed(version)
    done = subprocess.run(
        [engine.python, loader_probe.__file__, engine.model],
        input=json.dumps(cases).encode(),
        capture_output=True,
        check=False,
        cwd=Path(loader_probe.__file__).parent,
        timeout=DEADLINE_S,
    )
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith(loader_probe.MARK)]
    assert lines, done.stderr.decode()[-3000:]
    answers: list[dict[str, Any]] = json.loads(lines[-1].removeprefix(loader_probe.MARK))
    assert len(answers) == len(cases)
    return answers
