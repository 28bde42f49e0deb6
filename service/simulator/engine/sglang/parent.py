"""The parent process: starts the ranks, binds the port, warms up, watches its children, ends as the version ends."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from typing import Any, Dict, List

from .channel import Channel, pair
from .children import Children
from .console import Console
from .ending import Ending
from .endpoints import Endpoints
from .frontend import UNHEALTHY, Frontend
from .http_server import REASONS, HttpServer, Request
from .processes import set_title
from .rank import Rank
from .resolution import Plan
from .script import Script
from .serving import Serving, wait_for_end
from .shared_memory import SharedMemory
from .steps import pass_phase
from .tracebacks import traceback_text
from .warm_up import READY, WarmUpFailed, request, warm_up

BIND_EXIT_NEWEST = 3
BIND_EXIT_OLDER = 1
EADDRINUSE = 98


class Parent:
    """The HTTP process of one engine."""

    def __init__(self, plan: Plan, script: Script, console: Console) -> None:
        self._plan = plan
        self._script = script
        self._console = console
        self._begun_at = time.monotonic()
        self._children = Children(die_with_parent=not script.has_orphans)
        self._channels: List[Channel] = []
        self._shared_memory = SharedMemory(plan.version)
        self._ending = Ending(plan.version, console, self._children, self._shared_memory)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._is_serving = False
        self._is_term_wanted = False
        self._is_quit_wanted = False

    def run(self, launch_command: str) -> None:
        """Run the engine; ends the process."""
        self._listen_to_signals()
        pass_phase("spawning", self._script, self._console)
        if self._script.has_shared_memory:
            self._shared_memory.create()
        self._spawn()
        ready = self._wait_for_ranks()
        frontend = Frontend(self._plan, self._script, self._channels[0], self._console)
        frontend.tokens = ready["tokens"]
        frontend.timings = self._timings(ready["timings"])
        threading.Thread(target=frontend.listen, daemon=True).start()
        self._serve(frontend, launch_command)

    def _listen_to_signals(self) -> None:
        """Wake the main loop by signals: a child's end, a child's SIGQUIT, later SIGTERM."""
        self._wake_writer.setblocking(False)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGQUIT, self._want_quit)

    def _want_quit(self, *_: object) -> None:
        self._is_quit_wanted = True

    def _want_term(self, *_: object) -> None:
        self._is_term_wanted = True

    def _spawn(self) -> None:
        pairs = [pair() for _ in self._plan.ranks()]
        self._channels = [own for own, _ in pairs]
        everything = [end for both in pairs for end in both]
        for number, (_, channel) in enumerate(pairs):
            foreign = [end for end in everything if end is not channel]
            self._children.fork(f"scheduler_{number}", lambda n=number, c=channel, f=foreign: self._run_rank(n, c, f))  # type: ignore[misc]
        idle = ["sglang::detokenizer"]
        if self._plan.arguments.dp_size > 1:
            idle.append("sglang::data_parallel_controller")
        for title in idle:
            self._children.fork(title.rpartition(":")[2], lambda t=title: _run_idle(t, everything))  # type: ignore[misc]
        for own, theirs in pairs:
            theirs.end.close()
            own.send({"peers": self._children.pids("scheduler")})

    def _run_rank(self, number: int, channel: Channel, foreign: List[Channel]) -> None:
        for end in foreign:
            end.end.close()
        rank = Rank(self._plan, self._script, number, channel)
        set_title(rank.title)
        stages = rank.start()
        if number == 0:
            Serving(rank, stages).run()
        wait_for_end(rank)

    def _wait_for_ranks(self) -> Dict[str, Any]:
        """Wait until every rank is ready and return what the first one says; a rank that dies ends the engine."""
        first: Dict[str, Any] = {}
        waiting = {channel.end: channel for channel in self._channels}
        while waiting:
            readable, _, _ = select.select([*waiting, self._wake_reader], [], [])
            if self._wake_reader in readable:
                self._wake_reader.recv(4096)
            self._react_while_loading()
            for end in readable:
                for message in waiting[end].receive(0) if end in waiting else ():
                    channel = waiting.pop(end)
                    first = message if channel is self._channels[0] else first
                if end in waiting and waiting[end].is_closed:
                    del waiting[end]
        return first

    def _react_while_loading(self) -> None:
        if self._is_quit_wanted:
            self._console.error("Received sigquit from a child process. It usually means the child failed.")
            self._ending.by_kill()
        death = self._children.collect_death()
        if death is not None:
            self._ending.after_death_while_loading(death.name, death.code)

    def _serve(self, frontend: Frontend, launch_command: str) -> None:
        a = self._plan.arguments
        if self._plan.version.is_newest:
            self._say_timings(frontend.timings)
        self._console.uvicorn("info", f"Started server process [{os.getpid()}]")
        self._console.uvicorn("info", "Waiting for application startup.")
        pass_phase("binding_http", self._script, self._console)
        server = HttpServer(Endpoints(frontend, launch_command).answer, self._note(frontend))
        self._console.uvicorn("info", "Application startup complete.")
        try:
            server.bind(a.host, a.port)
        except OSError as error:
            self._fail_to_bind(error)
        server.start()
        self._console.uvicorn("info", f"Uvicorn running on http://{a.host}:{a.port} (Press CTRL+C to quit)")
        signal.signal(signal.SIGTERM, self._want_term)
        self._is_serving = True
        threading.Thread(target=self._warm_up, args=(frontend,), daemon=True).start()
        self._watch(frontend, server)

    def _note(self, frontend: Frontend) -> Any:
        def note(peer: str, asked: Request, status: int) -> None:
            frontend.note_answer(asked.method, asked.path, status)
            target = asked.path + (f"?{asked.query}" if asked.query else "")
            self._console.uvicorn("info", f'{peer} - "{asked.method} {target} HTTP/1.1" {status} {REASONS[status]}')

        return note

    def _address(self) -> Any:
        host = self._plan.arguments.host
        return ("127.0.0.1" if host == "0.0.0.0" else host, self._plan.arguments.port)  # noqa: S104 - the wildcard

    def _warm_up(self, frontend: Frontend) -> None:
        a, key = self._plan.arguments, self._plan.arguments.api_key or ""
        if not a.skip_server_warmup:
            pause, spend = self._script.poll_s, lambda: pass_phase("warming_up", self._script, self._console)
            try:
                warm_up(self._address(), key, pause_s=pause, spend=spend)
            except WarmUpFailed as error:
                self._fail_to_warm_up(str(error))
        frontend.go_up()
        if self._plan.version.is_newest and not a.skip_server_warmup:
            request(self._address(), "POST", "/freeze_gc", key)
        self._console.info(READY)

    def _fail_to_warm_up(self, exception: str) -> None:
        self._console.error(f"Initialization failed. warmup error: {traceback_text((), exception)}\n")
        self._ending.by_kill()

    def _fail_to_bind(self, error: OSError) -> None:
        """Say that the port is taken, warm up whoever has it, and end (facts: SGLang §3.1)."""
        host, port, key = self._plan.arguments.host, self._plan.arguments.port, self._plan.arguments.api_key or ""
        reason = "address already in use" if error.errno == EADDRINUSE else str(error.strerror).lower()
        text = f"[Errno {error.errno}] error while attempting to bind on address ('{host}', {port}): {reason}"
        self._console.uvicorn("error", text)
        self._console.uvicorn("info", "Waiting for application shutdown.")
        try:
            warm_up(self._address(), key, pause_s=self._script.poll_s)
        except WarmUpFailed as failed:
            self._fail_to_warm_up(str(failed))
        self._console.info(READY)
        self._console.uvicorn("info", "Application shutdown complete.")
        self._ending.with_code(BIND_EXIT_NEWEST if self._plan.version.is_newest else BIND_EXIT_OLDER)

    def _watch(self, frontend: Frontend, server: HttpServer) -> None:
        """Wait for signals and for the end of children, for as long as the server serves."""
        while True:
            self._wake_reader.recv(4096)
            if self._is_term_wanted and not frontend.is_exiting:
                frontend.is_exiting = True
                self._console.info("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
                threading.Thread(target=self._drain, args=(frontend, server), daemon=True).start()
            if self._is_quit_wanted:
                self._ending.after_failure(self._script.crash_pause_s)
            death = self._children.collect_death()
            if death is not None and self._is_serving:
                self._console.error(
                    f"Subprocess {death.name} (pid={death.pid}) crashed with exit code {death.code}. "
                    "Triggering SIGQUIT for cleanup..."
                )
                self._ending.after_failure(self._script.crash_pause_s)

    def _drain(self, frontend: Frontend, server: HttpServer) -> None:
        """Wait for open requests without a deadline, then end: with 0 from 0.5.23 on, before by killing itself."""
        time.sleep(self._script.poll_s)
        if frontend.status == UNHEALTHY and not self._plan.version.is_newest:
            self._console.error("Signal SIGTERM received while health check failed. Force exiting.")
            self._ending.by_kill()
        frontend.wait_for_drain(self._say_remaining)
        self._is_serving = False
        for channel in self._channels:
            channel.send({"op": "shutdown"})
        if not self._plan.version.is_newest:
            self._shared_memory.end()
            self._ending.by_kill()
        for line in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete."):
            self._console.uvicorn("info", line)
        self._console.uvicorn("info", f"Finished server process [{os.getpid()}]")
        server.close()
        self._ending.with_code(0)

    def _say_remaining(self, count: int) -> None:
        self._console.info(
            f"Gracefully exiting... Remaining number of requests {count}. Remaining requests remaining_rids=[]."
        )

    def _say_timings(self, timings: Dict[str, float]) -> None:
        self._console.info(
            f"Engine startup timings (s): load_weight={timings['load_weight']:.2f}, "
            f"kv_cache_allocation={timings['kv_cache_allocation']:.2f}, "
            f"scheduler_e2e={timings['scheduler_e2e']:.2f}, cuda_graph={{decode={timings['graph']:.2f}}}, "
            f"tokenizer_e2e={timings['tokenizer_e2e']:.2f}"
        )

    def _timings(self, stages: Dict[str, float]) -> Dict[str, float]:
        return {
            "load_weight": stages.get("loading_weights", 0.0) + stages.get("loading_draft_weights", 0.0),
            "kv_cache_allocation": stages.get("allocating_kv_cache", 0.0),
            "scheduler_e2e": sum(stages.values()),
            "tokenizer_e2e": time.monotonic() - self._begun_at,
            "graph": stages.get("capturing_graphs", 0.0) + stages.get("capturing_draft_graphs", 0.0),
        }


def _run_idle(title: str, foreign: List[Channel]) -> None:
    """Be a process that only exists, as the detokenizer does here."""
    set_title(title)
    for end in foreign:
        end.end.close()
    while True:
        signal.pause()
