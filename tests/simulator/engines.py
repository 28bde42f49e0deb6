"""Runs the engine stand-in for a test: a real process on a node's home, its log in a file, asked over HTTP."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from service.simulator.homes import engine_python, remove_shared_memory, session_environment
from service.simulator.processes import kill_processes
from service.simulator.specs import NEWEST_ENGINE, NodeSpec

DEADLINE_S = 15.0
QUICK = "0.03"
"""The time scale of most tests: a start takes a third of a second."""


def eventually(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until a condition holds. Raises AssertionError when it does not in time."""
    until = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < until, f"not in {deadline_s} s: {what}"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Answer:
    """An HTTP answer."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.status = status
        self.body = body
        self.headers = {name.lower(): value for name, value in headers.items()}

    def json(self) -> Any:
        return json.loads(self.body)


class RunningEngine:
    """One engine process."""

    def __init__(self, process: subprocess.Popen[bytes], log_path: Path, port: int) -> None:
        self.process = process
        self.port = port
        self.log_path = log_path

    @property
    def log(self) -> str:
        """The whole log with line ends in place of carriage returns."""
        return self.log_path.read_text(encoding="utf-8").replace("\r", "\n")

    def wait_for(self, text: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until a text is in the log."""
        eventually(lambda: text in self.log or self.process.poll() is not None, f"{text!r} in the log", deadline_s)
        assert text in self.log, self.log[-1500:]

    def wait_until_ready(self) -> None:
        self.wait_for("The server is fired up and ready to roll!")

    def exit_code(self) -> int:
        """Wait for the end and return the code as a shell shows it."""
        code = self.process.wait(DEADLINE_S)
        return code if code >= 0 else 128 - code

    def ask(
        self, path: str, body: object = None, *, method: str | None = None, key: str = "", timeout_s: float = 5
    ) -> Answer:
        """Make one HTTP request; any status is an answer."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {key}"} if key else {}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as response:  # noqa: S310 - always http
                return Answer(response.status, response.read(), dict(response.headers))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read(), dict(error.headers))

    def children(self) -> dict[str, int]:
        """Return the pids of the living children by their titles."""
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] not in "ZX" and int(fields[1]) == self.process.pid:
                    found[(entry / "cmdline").read_bytes().rstrip(b"\0").decode()] = int(entry.name)
        return found

    def metric(self, name: str) -> float:
        """Return the first sample of a metric."""
        for line in self.ask("/metrics").body.decode().splitlines():
            if line.startswith((f"sglang:{name}{{", f"sglang:{name} ")):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"no metric {name}")


class EngineHome:
    """A node's home on which engines are started."""

    def __init__(self, spec: NodeSpec, path: Path, logs: Path) -> None:
        self.spec = spec
        self.path = path
        self._logs = logs
        self._count = 0

    def model(self, name: str) -> str:
        return str(self.path / "models" / name)

    def start(
        self,
        *words: str,
        model: str = "tiny-llama",
        version: str = NEWEST_ENGINE,
        script: str | Path = "default",
        scale: str = QUICK,
        env: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> RunningEngine:
        """Start an engine; the words are added to its command line."""
        chosen = port or free_port()
        path = model if model.startswith("/") else self.model(model)
        argv = [str(engine_python(self.path, version)), "-m", "sglang.launch_server", "--model-path", path]
        environment = {
            **session_environment(self.spec, self.path),
            "SPT_NOENV": "1",
            "VIGIL_SIM_SCRIPT": str(script),
            "VIGIL_SIM_TIME_SCALE": scale,
            **(env or {}),
        }
        self._count += 1
        log_path = self._logs / f"{self._count}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [*argv, "--port", str(chosen), *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running.append(process)
        return RunningEngine(process, log_path, chosen)

    @contextlib.contextmanager
    def cleaned(self) -> Iterator["EngineHome"]:
        """End every engine when the test is over."""
        self._running: list[subprocess.Popen[bytes]] = []
        try:
            yield self
        finally:
            kill_processes(self.path)
            for process in self._running:
                process.wait()
            remove_shared_memory(self.path)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def resume(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)
