"""A running Vigil of a test's own: a process that can be killed, and a client that speaks to it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx2

START_DEADLINE_S = 30
SERVE = (sys.executable, "-m", "service", "serve")


class Vigil:
    """`vigil serve` on a free port of loopback, with its state in one directory."""

    def __init__(
        self, directory: Path, *, environment: Mapping[str, str] | None = None, command: Sequence[str] = SERVE
    ) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self.directory = directory
        self.port = free_port()
        self.log = directory / "service.log"
        self.http = httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60, trust_env=False)
        self._environment = dict(environment or {})
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    @property
    def url(self) -> str:
        """The address of the service."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the service and wait until it answers."""
        settings = {
            "VIGIL_STATE_DIR": str(self.directory),
            "VIGIL_PORT": str(self.port),
            "VIGIL_ACCESS": "open",
            "VIGIL_HEALTH_INTERVAL_S": "1",
            "VIGIL_RETRY_MAX_S": "2",
            **self._environment,
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env={**os.environ, **settings},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.until("the service answers", self._answers, deadline_s=START_DEADLINE_S)

    def kill(self) -> None:
        """End the service as a power cut would."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """End the service as an operator would."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(15)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-3000:]
        try:
            return self.http.get("/healthz").status_code == 200
        except httpx2.HTTPError:
            return False

    def get(self, path: str, **params: Any) -> Any:
        """Return the document of a GET that must succeed."""
        answer = self.http.get(f"/api/v1{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: object = None, *, expect: int, key: str | None = None) -> Any:
        """Return the document of a POST that must answer `expect`."""
        headers = {"Idempotency-Key": key} if key else {}
        answer = self.http.post(f"/api/v1{path}", json=body, headers=headers)
        assert answer.status_code == expect, f"{answer.status_code}: {answer.text}"
        return answer.json() if answer.content else None

    def put(self, path: str, body: object) -> Any:
        """Return the document of a PUT that must succeed."""
        answer = self.http.put(f"/api/v1{path}", json=body)
        assert answer.status_code == 200, f"{answer.status_code}: {answer.text}"
        return answer.json()

    def wait(self, server: str, *, until: str = "ready", timeout_s: float = 120, expect: int = 200) -> Any:
        """Wait by the API's own wait."""
        answer = self.http.get(
            f"/api/v1/servers/{server}/wait",
            params={"until": until, "timeout_s": timeout_s},
            timeout=timeout_s + 15,
        )
        assert answer.status_code == expect, f"{answer.status_code}: {answer.text}"
        return answer.json()

    def until(self, what: str, question: Callable[[], Any], *, deadline_s: float = 60) -> Any:
        """Ask until the answer is true and return it."""
        deadline = time.monotonic() + deadline_s
        while time.monotonic() < deadline:
            answer = question()
            if answer:
                return answer
            time.sleep(0.1)
        raise AssertionError(f"not within {deadline_s} s: {what}\n{self.log.read_text()[-3000:]}")

    def until_contact(self, node: str) -> None:
        """Wait until a node answers."""
        self.until("contact is made", lambda: self.get(f"/nodes/{node}")["contact"]["state"] == "ok")

    def until_state(self, server: str, state: str, *, deadline_s: float = 60) -> Any:
        """Look at a server until it is in a state, and return it."""

        def reached() -> Any:
            found = self.get(f"/servers/{server}")
            return found if found["state"] == state else None

        return self.until(f"{server} is {state}", reached, deadline_s=deadline_s)

    def until_at_rest(self, server: str) -> None:
        """Look at a server until it is stopped or failed."""

        def is_at_rest() -> bool:
            return self.get(f"/servers/{server}")["state"] in {"stopped", "failed"}

        self.until(f"{server} is at rest", is_at_rest, deadline_s=90)

    def transitions(self, server: str) -> list[tuple[str, str, str]]:
        """Return what a server went through, oldest first: before, after, reason."""
        rows = self.get("/transitions", server=server, subject="server", limit=200)["items"]
        return [(row["before"], row["after"], row["reason"]) for row in reversed(rows)]


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
