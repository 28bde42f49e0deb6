"""What Vigil adds to a start: launch-to-ready through Vigil over the bare command, on the real engine, in pairs.

Each pair runs the bare command over ssh, as an operator would, until /health first answers 200, and a launch through
Vigil, from the request until `ready` is recorded, its preflight included. They take turns at being first, so that both
see the same machine. Both get the environment of an SSH login: with another one the engine compiles its modules anew.
Asking for /health must cost next to nothing: it would slow the bare start alone. Needs `make test-engine` to have
installed the engine.
"""

import argparse
import os
import shlex
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx2

from tests.contract.vigil import Vigil
from tests.engine.conftest import EngineSite
from tests.engine.engines import CPU_ENVIRONMENT, DEFAULT_VERSION, Engine, installed
from tests.sshd import Sshd

BARE_PORT = 31190
"""Below the ports that outgoing connections are given: the engine binds it only after half a minute."""
ASK_EVERY_S = 0.1
"""How exact the bare start is timed. Through Vigil /health is asked less often, which counts against it."""


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
            vigil.until_contact(site.name)
            vigil.post("/profiles", {"name": "p", "recipe": site.recipe()}, expect=201)
            vigil.post("/servers", {"name": "one", "profile": "p", "node": site.name}, expect=201)
            for number in range(pairs):
                ways: list[Callable[[], None]] = [
                    lambda: bare_s.append(_bare(engine, sshd)),
                    lambda: vigil_s.append(_through_vigil(vigil)),
                ]
                for way in ways if number % 2 == 0 else reversed(ways):
                    way()
                print(f"pair {number + 1}: bare {bare_s[-1]:.1f} s, through Vigil {vigil_s[-1]:.1f} s", flush=True)
    bare, through = statistics.median(bare_s), statistics.median(vigil_s)
    print(f"medians of {pairs}: bare {bare:.2f} s, through Vigil {through:.2f} s, ratio {through / bare:.3f}")


def _bare(engine: Engine, sshd: Sshd) -> float:
    variables = [f"{name}={value}" for name, value in CPU_ENVIRONMENT.items()]
    command = shlex.join(["env", *variables, *engine.command(port=BARE_PORT)])
    began = time.monotonic()
    with subprocess.Popen(
        [*_ssh(sshd), f"echo $$; exec {command} >bare.log 2>&1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as session:
        assert session.stdout is not None
        pid = int(session.stdout.readline())
        with httpx2.Client(base_url=f"http://127.0.0.1:{BARE_PORT}", timeout=30, trust_env=False) as client:
            while not _is_healthy(client):
                time.sleep(ASK_EVERY_S)
        took_s = time.monotonic() - began
        os.killpg(pid, signal.SIGKILL)
    return took_s


def _ssh(sshd: Sshd) -> list[str]:
    options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"]
    flags = [part for option in options for part in ("-o", option)]
    return ["ssh", *flags, "-i", str(sshd.key_path), "-p", str(sshd.port), f"{sshd.user}@127.0.0.1"]


def _through_vigil(vigil: Vigil) -> float:
    asked = datetime.now(UTC)
    vigil.post("/servers/one/launch", expect=202)
    server = vigil.wait("one", timeout_s=300)
    vigil.post("/servers/one/stop", expect=202)
    vigil.wait("one", until="stopped")
    return (datetime.fromisoformat(server["state_since_at"]) - asked).total_seconds()


def _is_healthy(client: httpx2.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx2.HTTPError:
        return False


if __name__ == "__main__":
    main()
