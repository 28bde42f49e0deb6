"""How a scheduler serves: continuous batching in steps, batch lines in the log, counters for the parent."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional

from .channel import Message
from .checks import natural_acceptance
from .rank import Rank
from .script import Event
from .stages import Stages


class Request:
    """One request in the batch."""

    def __init__(self, message: Message) -> None:
        self.id: Optional[int] = message.get("id")
        """None: the engine's own traffic, which nobody waits for."""
        self.prompt_tokens = int(message["prompt_tokens"])
        self.wanted = int(message["max_new_tokens"])
        self.done = 0
        self.credit = 0.0
        self.verify_steps = 0


class Serving:
    """The loop of the first rank."""

    def __init__(self, rank: Rank, stages: Stages) -> None:
        self._rank = rank
        self._plan = rank.plan
        self._script = rank.script
        self._tokens = max(stages.budget.tokens, 1)
        self._natural = natural_acceptance(rank.plan)
        self._limit = rank.plan.arguments.max_running_requests or 256
        self._graph_word = "cuda graph" if stages.has_memory else "cpu graph"
        self._running: List[Request] = []
        self._queue: List[Request] = []
        self._ready_at: Optional[float] = None
        self._events: List[Event] = []
        self._traffic = 0.0
        self._traffic_at = 0.0
        self._stats: Dict[str, Any] = {"decode_tokens": 0, "prefill_tokens": 0, "retracted": 0}
        self._next_step_at = 0.0
        self._window_steps = 0
        self._window_tokens = 0
        self._window_verified = 0
        self._total_tokens = 0
        self._total_verified = 0
        self._window_began_at = time.monotonic()

    def run(self) -> None:
        """Serve until the parent goes or says so."""
        while True:
            for message in self._rank.channel.receive(self._pause()):
                self._rank.wait_for_peers()
                self._take(message)
            if self._rank.channel.is_closed:
                os._exit(0)
            self._happen()
            self._rank.wait_for_peers()
            self._make_traffic()
            if (self._running or self._queue) and time.monotonic() >= self._next_step_at:
                self._next_step_at = time.monotonic() + 1.0 / self._script.steps_per_s
                self._step()

    def _pause(self) -> Optional[float]:
        """Return how long to wait for messages: one step while there is work, else until the next event, if any."""
        if self._running or self._queue:
            return max(self._next_step_at - time.monotonic(), 0.0)
        if self._ready_at is None:
            return None
        waits = [self._ready_at + event.after_s - time.monotonic() for event in self._events]
        if self._script.traffic_per_s > 0:
            waits.append(1.0 / self._script.traffic_per_s)
        return max(min(waits), 0.0) if waits else None

    def _take(self, message: Message) -> None:
        action = message["op"]
        if action == "health":
            self._say_prefill(Request({"prompt_tokens": 1, "max_new_tokens": 1}))
            self._send({"id": message["id"], "done": True, "tokens": 1})
        elif action == "generate":
            self._queue.append(Request(message))
        elif action == "state":
            self._send({"id": message["id"], "done": True, "state": self._state()})
        elif action == "flush":
            self._send({"id": message["id"], "done": True, "flushed": self._flush()})
        elif action == "abort":
            self._abort(message)
        elif action == "up":
            self._ready_at = time.monotonic()
            self._traffic_at = self._ready_at
            self._events = [event for event in self._script.events if event.phase == "serving"]
        elif action == "shutdown":
            os._exit(0)

    def _happen(self) -> None:
        if self._ready_at is None:
            return
        now = time.monotonic() - self._ready_at
        due = [event for event in self._events if event.after_s <= now]
        self._events = [event for event in self._events if event.after_s > now]
        for event in due:
            self._rank.happen(event)

    def _make_traffic(self) -> None:
        if self._ready_at is None or self._script.traffic_per_s <= 0:
            return
        now = time.monotonic()
        self._traffic += (now - self._traffic_at) * self._script.traffic_per_s
        self._traffic_at = now
        while self._traffic >= 1 and len(self._queue) < self._limit:
            self._traffic -= 1
            self._queue.append(Request({"prompt_tokens": 64, "max_new_tokens": self._script.traffic_tokens}))

    def _step(self) -> None:
        """Admit what fits, then let every running request produce: one token, or as many as are accepted."""
        while self._queue and len(self._running) < self._limit:
            request = self._queue.pop(0)
            self._say_prefill(request)
            self._running.append(request)
            request.done = 1
            self._send_progress(request, 1)
        length = self._accept_length()
        produced = [(request, self._produce(request, length)) for request in self._running]
        self._running = [request for request in self._running if request.done < request.wanted]
        for request, tokens in produced:
            if tokens:
                self._send_progress(request, tokens)
        self._window_steps += 1
        if self._window_steps >= self._plan.arguments.decode_log_interval:
            self._say_decode()

    def _produce(self, request: Request, length: float) -> int:
        """Let one request produce in a step, and return how many tokens that is."""
        request.credit += length
        produced = min(int(request.credit), request.wanted - request.done)
        request.credit -= int(request.credit)
        request.done += produced
        self._window_tokens += produced
        self._stats["decode_tokens"] += produced
        if self._plan.algorithm:
            request.verify_steps += 1
            self._window_verified += 1
        return produced

    def _send_progress(self, request: Request, produced: int) -> None:
        if request.id is not None:
            is_over = request.done >= request.wanted
            self._send({"id": request.id, "tokens": produced, "verify": request.verify_steps, "done": is_over})

    def _accept_length(self) -> float:
        if self._plan.algorithm is None:
            return 1.0
        since = time.monotonic() - self._ready_at if self._ready_at is not None else 0.0
        return self._script.acceptance(since, self._natural)

    def _accept_rate(self, length: float) -> float:
        """Return the accept rate in the version's definition; up to 0.5.10 the bonus token counts as accepted."""
        drafted = int(self._plan.arguments.speculative_num_draft_tokens or 1)
        if self._plan.version.has_new_texts:
            return (length - 1) / max(drafted - 1, 1)
        return length / drafted

    def _say_prefill(self, request: Request) -> None:
        self._stats["prefill_tokens"] += request.prompt_tokens
        pending = "#pending-token: 0, " if self._plan.version.has_new_texts else ""
        self._rank.console.info(
            f"Prefill batch, #new-seq: 1, #new-token: {request.prompt_tokens}, #cached-token: 0, "
            f"token usage: {self._usage():.2f}, #running-req: {len(self._running)}, #queue-req: {len(self._queue)}, "
            f"{pending}{self._graph_word}: False, "
            f"input throughput (token/s): {self._script.prefill_tokens_per_s:.2f}"
        )

    def _say_decode(self) -> None:
        now = time.monotonic()
        throughput = self._window_tokens / max(now - self._window_began_at, 1e-6)
        spoken = ""
        if self._plan.algorithm and self._window_verified:
            length = self._window_tokens / self._window_verified
            rate = self._accept_rate(length)
            spoken = f"accept len: {length:.2f}, accept rate: {rate:.2f}, "
            self._stats.update(accept_length=length, accept_rate=rate)
            self._total_tokens += self._window_tokens
            self._total_verified += self._window_verified
        has_graphs = self._graph_word == "cuda graph"
        self._rank.console.info(
            f"Decode batch, #running-req: {len(self._running)}, #token: {self._used()}, "
            f"token usage: {self._usage():.2f}, {spoken}{self._graph_word}: {has_graphs}, "
            f"gen throughput (token/s): {throughput:.2f}, #queue-req: {len(self._queue)}"
        )
        self._stats["throughput"] = throughput
        self._window_steps = self._window_tokens = self._window_verified = 0
        self._window_began_at = now
        self._send({"stats": self._snapshot()})

    def _flush(self) -> bool:
        """Drop the cache, and the mean acceptance, unless there is work; the gauges of /metrics keep their values."""
        if self._running or self._queue:
            self._rank.console.warning(
                "Cache not flushed because there are pending requests. "
                f"#queue-req: {len(self._queue)}, #running-req: {len(self._running)}"
            )
            return False
        self._total_tokens = self._total_verified = 0
        self._rank.console.info("Cache flushed successfully!")
        return True

    def _abort(self, message: Message) -> None:
        gone = [r for r in (*self._running, *self._queue) if message["id"] in (None, r.id)]
        self._running = [r for r in self._running if r not in gone]
        self._queue = [r for r in self._queue if r not in gone]
        for request in gone:
            if request.id is not None:
                self._send({"id": request.id, "tokens": 0, "done": True, "is_aborted": True})

    def _state(self) -> Dict[str, Any]:
        state: Dict[str, Any] = {
            "last_gen_throughput": self._stats.get("throughput", 0.0),
            "memory_usage": {"token_capacity": self._tokens},
            "effective_max_running_requests_per_dp": self._limit,
        }
        if self._total_verified:
            state["avg_spec_accept_length"] = self._total_tokens / self._total_verified
        return state

    def _snapshot(self) -> Dict[str, Any]:
        waiting = {"running": len(self._running), "queued": len(self._queue)}
        return {**self._stats, **waiting, "used": self._used(), "usage": self._usage()}

    def _used(self) -> int:
        return sum(request.prompt_tokens + request.done for request in self._running)

    def _usage(self) -> float:
        return min(self._used() / self._tokens, 1.0)

    def _send(self, message: Message) -> None:
        self._rank.channel.send({**message, "stats": self._snapshot()})


def wait_for_end(rank: Rank) -> None:
    """Do nothing, as the ranks do that talk to nobody, until the parent says so or goes."""
    while True:
        for message in rank.channel.receive(None):
            if message.get("op") == "shutdown":
                os._exit(0)
        if rank.channel.is_closed:
            os._exit(0)
