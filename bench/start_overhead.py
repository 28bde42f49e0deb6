"""What Vigil adds to a start: launch-to-ready through Vigil over the bare command, on the real engine, in pairs.

Each pair runs the bare command, until /health first answers 200, and a launch through Vigil, until `ready` is recorded;
in turn, so that both see the same machine. Needs `make test-engine` to have installed the engine.
"""

import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import time
from datetime import datetime
from pathlib import Path

import httpx2

from tests.contract.vigil import Vigil
from tests.engine.conftest import EngineSite
from tests.engine.engines import CPU_ENVIRONMENT, DEFAULT_VERSION, Engine, installed
from tests.sshd import Sshd

BARE_PORT = 31190
"""Below the ports that outgoing connections are given: the engine binds it only after half a minute."""


def main() -> None:
    """Run the pairs and print both medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    pairs = parser.parse_args().pairs
    engine = installed(DEFAULT_VERSION)
    bare_s: list[float] = []
    vigil_s: list[float] = []
    with tempfile.TemporaryDirectory(prefix="vigil-bench-") as directory, Sshd(Path(directory) / "sshd") as sshd:
        site = EngineSite(engine, sshd)
        with Vigil(Path(directory) / "vigil") as vigil:
            vigil.post("/nodes", site.node(), expect=201)
            vigil.until("contact", lambda: vigil.get(f"/nodes/{site.name}")["contact"]["state"] == "ok")
            vigil.post("/profiles", {"name": "p", "recipe": site.recipe()}, expect=201)
            vigil.post("/servers", {"name": "one", "profile": "p", "node": site.name}, expect=201)
            for number in range(pairs):
                bare_s.append(_bare(engine))
                vigil_s.append(_through_vigil(vigil))
                print(f"pair {number + 1}: bare {bare_s[-1]:.1f} s, through Vigil {vigil_s[-1]:.1f} s", flush=True)
    bare, through = statistics.median(bare_s), statistics.median(vigil_s)
    print(f"medians of {pairs}: bare {bare:.2f} s, through Vigil {through:.2f} s, ratio {through / bare:.3f}")


def _bare(engine: Engine) -> float:
    port = BARE_PORT
    began = time.monotonic()
    with subprocess.Popen(
        engine.command(port=port),
        env={**os.environ, **CPU_ENVIRONMENT},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        while not _is_healthy(port):
            time.sleep(0.05)
        took_s = time.monotonic() - began
        os.killpg(process.pid, signal.SIGKILL)
    return took_s


def _through_vigil(vigil: Vigil) -> float:
    asked = datetime.fromisoformat(vigil.post("/servers/one/launch", expect=202)["created_at"])
    server = vigil.wait("one", timeout_s=300)
    vigil.post("/servers/one/stop", expect=202)
    vigil.wait("one", until="stopped")
    return (datetime.fromisoformat(server["state_since_at"]) - asked).total_seconds()


def _is_healthy(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/health", timeout=30, trust_env=False).status_code == 200
    except httpx2.HTTPError:
        return False


if __name__ == "__main__":
    main()
