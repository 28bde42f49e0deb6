"""Engines that an operator started from a shell: real processes in the shell's own session and process group."""

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from service.remote.messages import FoundEngine
from service.remote.node import NodeSession
from service.remote.on_node import engines, proc, sockets
from service.remote.on_node.members import is_descendant
from tests.remote.conftest import eventually
from tests.sshd import free_port

STAND_IN = """
import os, signal, socket, subprocess, sys, time
port = int(sys.argv[sys.argv.index("--port") + 1])
scheduler = subprocess.Popen([sys.executable, "-S", "-c", '''
import subprocess, time
subprocess.Popen(["sleep", "61"])
time.sleep(60)
'''])
far = subprocess.Popen(["setsid", "sleep", "62"])
if os.fork() == 0:
    time.sleep(60)
listener = socket.create_server(("127.0.0.1", port))
def end(*_):
    print("ending", flush=True)
    scheduler.kill()
    os._exit(0)
signal.signal(signal.SIGTERM, end)
print("ready, key", sys.argv[-1], "token", os.environ.get("HF_TOKEN"), flush=True)
time.sleep(60)
"""


@dataclass(frozen=True)
class Foreign:
    """A shell that started an engine, both in one process group and session."""

    shell: subprocess.Popen[bytes]
    port: int
    log_path: Path
    found: FoundEngine

    @property
    def everything(self) -> list[int]:
        return [self.shell.pid, *self.found.member_pids]


class Yard:
    """Starts engines as an operator would, from a shell, and ends whatever came of it."""

    def __init__(self, root: Path, node: NodeSession) -> None:
        self.root = root
        self.node = node
        self.shells: list[subprocess.Popen[bytes]] = []
        self.pids: set[int] = set()
        (root / "sglang").mkdir()
        (root / "sglang" / "launch_server.py").write_text(STAND_IN)

    async def start(
        self, *arguments: str, output: str = "> engine.log 2>&1", environment: dict[str, str] | None = None
    ) -> Foreign:
        """Start an engine in the background of a shell."""
        line = f"'{sys.executable}' -m sglang.launch_server \"$@\" {output} & wait; sleep 60"
        return await self.run(line, *arguments, environment=environment)

    async def run(self, line: str, *arguments: str, environment: dict[str, str] | None = None) -> Foreign:
        """Run a line of shell that starts an engine with `"$@"`."""
        port = free_port()
        words = ["--port", str(port), *arguments]
        shell = subprocess.Popen(
            ["/bin/sh", "-c", line, "sh", *words],
            cwd=self.root,
            env={"PATH": os.defpath, **(environment or {})},
            start_new_session=True,
        )
        self.shells.append(shell)
        await eventually(lambda: sockets.listeners(port))
        await eventually(lambda: _sleepers(shell.pid) >= {"sleep 61", "sleep 62"})
        found = next(engine for engine in await self.node.find_engines() if engine.port == port)
        self.pids |= set(found.member_pids)
        return Foreign(shell, port, self.root / "engine.log", found)

    def clean_up(self) -> None:
        """End the shells, what descends from them, and what was ever seen to."""
        for shell in self.shells:
            self.pids |= set(_descendants(shell.pid))
            shell.kill()
            shell.wait()
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Tell whether a process is there and not only unreaped."""
    stat = proc.read_stat(pid)
    return stat is not None and stat.is_alive


def _sleepers(shell_pid: int) -> set[str]:
    commands = {proc.command(pid) or "" for pid in _descendants(shell_pid)}
    return {command for command in commands if command.startswith("sleep 6")}


def _descendants(shell_pid: int) -> list[int]:
    stats = engines.living()
    shell = stats.get(shell_pid)
    roots = {(shell_pid, shell.start_ticks)} if shell else set()
    return [pid for pid, stat in stats.items() if pid != shell_pid and is_descendant(stat, roots, read=stats.get)]
