"""The parent's side of serving: asks the first scheduler, judges health, keeps the counters that /metrics tells."""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from typing import Any, Callable, Dict, Iterator

from .channel import Channel, Message
from .console import Console
from .resolution import FALSE_WORDS, Plan
from .script import Script

STARTING = "Starting"
UP = "Up"
UNHEALTHY = "UnHealthy"


class Counters:
    """What has been counted since the start; latencies as sums, for their mean."""

    def __init__(self) -> None:
        self.requests = 0
        self.aborted = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.verify_calls = 0
        self.latency_s = 0.0
        self.first_token_s = 0.0
        self.http: Dict[Any, int] = {}


class Frontend:
    """Talks to the scheduler; used by the threads of the HTTP server."""

    def __init__(self, plan: Plan, script: Script, channel: Channel, console: Console) -> None:
        self.plan = plan
        self.script = script
        self.console = console
        self.status = STARTING
        self.is_exiting = False
        self.counters = Counters()
        self.stats: Dict[str, Any] = {}
        self.timings: Dict[str, float] = {}
        self.tokens = 0
        self._channel = channel
        self._numbers = itertools.count(1)
        self._waiting: Dict[int, "queue.Queue[Message]"] = {}
        self._lock = threading.Lock()
        self._heard_at = 0.0

    @property
    def open_requests(self) -> int:
        """How many requests are not finished, health questions left out."""
        return len(self._waiting)

    def listen(self) -> None:
        """Take what the scheduler says, for as long as it lives; runs in a thread."""
        while not self._channel.is_closed:
            for message in self._channel.receive(None):
                self._heard_at = time.monotonic()
                self.stats = message.get("stats", self.stats)
                waiting = self._waiting.get(message.get("id", 0))
                if waiting is not None:
                    waiting.put(message)

    def go_up(self) -> None:
        """Let health be good from now on: the warm-up is over."""
        self.status = UP
        self._channel.send({"op": "up"})

    def is_healthy(self, path: str) -> bool:
        """Answer /health as the engine does: a request of one token, and any message from the scheduler in time."""
        if self.is_exiting:
            self.console.info("Health check request received during shutdown. Returning 503.")
            return False
        if self.status == STARTING:
            return False
        generates = os.environ.get("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "true").lower() not in FALSE_WORDS
        if path == "/health" and not generates:
            return True
        limit = float(os.environ.get("SGLANG_HEALTH_CHECK_TIMEOUT", self.script.health_timeout_s))
        asked_at, asked = time.monotonic(), time.strftime("%H:%M:%S")
        self._channel.send({"op": "health", "id": 0})
        while time.monotonic() - asked_at < limit:
            time.sleep(self.script.health_latency_s)
            if self._heard_at > asked_at:
                self.status = UP
                return True
        heard = time.strftime("%H:%M:%S", time.localtime(time.time() - (time.monotonic() - self._heard_at)))
        self.console.error(
            f"Health check failed. Server couldn't get a response from detokenizer for last {limit:g} seconds. "
            f"tic start time: {asked}. last_heartbeat time: {heard}"
        )
        self.status = UNHEALTHY
        return False

    def ask(self, operation: str, **details: Any) -> Message:
        """Ask the scheduler and wait for its answer, for ever if it is stuck."""
        number, answers = self._open()
        try:
            self._channel.send({"op": operation, "id": number, **details})
            message: Message = answers.get()
            return message
        finally:
            self._close(number)

    def generate(self, prompt_tokens: int, max_new_tokens: int) -> Iterator[Message]:
        """Yield the scheduler's messages about one request, the last with `done`; abandoning it aborts it."""
        number, answers = self._open()
        begun_at, first_at, message = time.monotonic(), 0.0, {"done": False}
        try:
            details = {"prompt_tokens": prompt_tokens, "max_new_tokens": max_new_tokens}
            self._channel.send({"op": "generate", "id": number, **details})
            produced = 0
            while not message["done"]:
                message = answers.get()
                first_at = first_at or time.monotonic()
                produced += message["tokens"]
                yield message
            with self._lock:
                self._count(prompt_tokens, produced, time.monotonic() - begun_at, first_at - begun_at)
                self.counters.verify_calls += message.get("verify", 0)
        finally:
            self._close(number)
            if not message["done"]:
                self.counters.aborted += 1
                self._channel.send({"op": "abort", "id": number})

    def abort_all(self) -> None:
        """Abort every request."""
        self._channel.send({"op": "abort", "id": None})

    def note_answer(self, method: str, path: str, status: int) -> None:
        """Count one HTTP answer."""
        with self._lock:
            key = (path, method, status)
            self.counters.http[key] = self.counters.http.get(key, 0) + 1

    def wait_for_drain(self, say: Callable[[int], None]) -> None:
        """Wait until no request is left, and say how many are, again and again; there is no deadline."""
        while True:
            say(self.open_requests)
            if not self.open_requests:
                return
            time.sleep(self.script.poll_s)

    def _open(self) -> Any:
        number: int = next(self._numbers)
        answers: "queue.Queue[Message]" = queue.Queue()
        self._waiting[number] = answers
        return number, answers

    def _close(self, number: int) -> None:
        self._waiting.pop(number, None)

    def _count(self, prompt_tokens: int, produced: int, latency_s: float, first_token_s: float) -> None:
        self.counters.requests += 1
        self.counters.prompt_tokens += prompt_tokens
        self.counters.generation_tokens += produced
        self.counters.latency_s += latency_s
        self.counters.first_token_s += first_token_s
