"""Node's programs for the tests, as `web/package-lock.json` pins them: shared with the page's build."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNFIT = 3
INSTALL_DEADLINE_S = 300
RUN_DEADLINE_S = 120
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}


class NodeUnfit(Exception):
    """npm is missing, or Node is too old for what is pinned; the text says which."""


@dataclass(frozen=True, slots=True)
class NodePrograms:
    """Programs of `web/node_modules`, run from the root of the repository."""

    folder: Path

    def run(self, program: str, *arguments: str | Path, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a program of the packages, or `node` itself, to its end."""
        path = program if program == "node" else str(self.folder / ".bin" / program)
        return subprocess.run(
            [path, *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, **QUIET, **environment},
            capture_output=True,
            text=True,
            timeout=RUN_DEADLINE_S,
            check=False,
        )


def install() -> NodePrograms:
    """Install what is pinned, if it is not there yet; NodeUnfit where it cannot be."""
    done = subprocess.run(
        [ROOT / "tools" / "node_modules.sh"], capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False
    )
    if done.returncode == UNFIT:
        raise NodeUnfit(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    return NodePrograms(ROOT / "web" / "node_modules")
