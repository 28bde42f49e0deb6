"""One scheduler process: it goes through the stages of a start, follows the script's events, then serves or waits."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Dict, List, Optional

from .channel import Channel
from .checks import check_draft, check_target
from .console import Bar, Console, write
from .failures import Situation, failure, raised
from .gpus import MIB_PER_GB, GpuMemory
from .processes import is_any_stopped, kill
from .resolution import Plan
from .script import Event, Script
from .stages import Stage, Stages
from .tracebacks import EngineError

SLICE_S = 0.2
READ_BYTES = 1 << 16
PEERS_PAUSE_S = 0.05
LAST_WAIT_S = 60.0
"""How long a failed rank waits to be killed by its parent before it ends by itself."""
OVERFLOWS = {
    "loading_weights": "cuda_oom_weights",
    "loading_draft_weights": "cuda_oom_weights",
    "allocating_kv_cache": "kv_cache_no_memory",
}
"""The failure of a phase whose memory does not fit beside what others hold; else it is one of graph capture."""


class Rank:
    """The state of one scheduler process. `number` counts over all ranks; 0 talks to the parent."""

    def __init__(self, plan: Plan, script: Script, number: int, channel: Channel) -> None:
        self.plan = plan
        self.script = script
        self.number = number
        self.channel = channel
        label = plan.label(number)
        self.title = "_".join(["sglang::scheduler", *label.split()])
        self.console = Console(label, plan.arguments.log_level)
        self.memory: Optional[GpuMemory] = None
        self.timings: Dict[str, float] = {}
        self._peers: Optional[List[int]] = None
        self._position = plan.arguments.base_gpu_id + number * plan.arguments.gpu_id_step

    def start(self) -> Stages:
        """Wait for the parent's word, pass all stages and tell the parent; never returns after a failure."""
        while self._peers is None:
            for message in self.channel.receive(None):
                self._peers = [pid for pid in message["peers"] if pid != os.getpid()]
            if self.channel.is_closed:
                os._exit(1)
        try:
            stages = self._pass_stages()
        except EngineError as error:
            self._fail(raised(error.exception, *error.frames).text)
        self.channel.send({"ready": True, "tokens": stages.budget.tokens, "timings": self.timings})
        return stages

    def happen(self, event: Event) -> None:
        """Do what an event says, if it is meant for this rank; `slow` is done by the pace of the steps."""
        meant = event.rank if event.rank is not None or event.do != "crash" else 0
        if event.do == "say" and (meant or 0) == self.number:
            for line in event.lines:
                self.console.info(line)
        elif event.do == "crash" and meant == self.number:
            self.crash(event.failure)
        elif event.do == "exit" and (meant or 0) == self.number:
            os._exit(event.code)
        elif event.do == "freeze" and meant in (None, self.number):
            while True:
                spend(SLICE_S, event.busy)

    def crash(self, name: str) -> None:
        """Fail in one of the known ways, never to return."""
        total = self.memory.gpu.memory_mib / MIB_PER_GB if self.memory else 0.0
        held = self.memory.used_mib / MIB_PER_GB if self.memory else 0.0
        situation = Situation(
            version=self.plan.version,
            rank=self.number,
            gpu=self._position,
            total_gb=total,
            held_gb=held,
            mem_fraction=self.plan.arguments.mem_fraction_static,
            architecture=self.plan.model.architecture,
        )
        outcome = failure(name, situation)
        if outcome.signal:
            write(outcome.text)
            signal.signal(outcome.signal, signal.SIG_DFL) if outcome.signal != signal.SIGKILL else None
            kill(os.getpid(), outcome.signal)
        self._fail(outcome.text)

    def wait_for_peers(self) -> None:
        """Wait while another rank is stopped, as a collective operation would."""
        while self._peers and is_any_stopped(self._peers):
            time.sleep(PEERS_PAUSE_S)

    def _fail(self, text: str) -> Any:
        self.console.error(text)
        kill(os.getppid(), signal.SIGQUIT)
        time.sleep(LAST_WAIT_S)
        os._exit(1)

    def _pass_stages(self) -> Stages:
        if self.plan.gpus:
            if self._position >= len(self.plan.gpus):
                self.crash("gpu_count_mismatch")
            self.memory = GpuMemory(self.plan.gpus[self._position], self.title)
        stages = Stages(self.plan, self.script, self.memory, self.console, is_first=self.number == 0)
        for stage in stages.in_order():
            self._check_before(stage, stages)
            begun_at = time.monotonic()
            self._pass(stage)
            spent = time.monotonic() - begun_at
            self.timings[stage.phase] = self.timings.get(stage.phase, 0.0) + spent
        if self.number == 0:
            stages.say_capacity()
        return stages

    def _check_before(self, stage: Stage, stages: Stages) -> None:
        if stage.phase == "loading_weights":
            check_target(self.plan)
        elif stage.phase == "allocating_kv_cache":
            if self.plan.draft is None:
                check_draft(self.plan, self.console)
            if self.memory and stages.budget.pool <= 0:
                self.crash("kv_cache_no_memory")
        elif stage.phase == "loading_draft_weights":
            check_draft(self.plan, self.console)

    def _pass(self, stage: Stage) -> None:
        stage.begin()
        begun_at = time.monotonic()
        base = self.memory.used_mib if self.memory else 0
        bar = Bar(stage.bar(0), stage.steps, has_blocks=stage.has_blocks) if stage.bar else None
        for done in range(stage.steps + 1):
            position = stage.offset + done
            if done or not stage.offset:
                for event in self.script.at(stage.phase, position):
                    self.happen(event)
            if done == stage.steps:
                break
            self._work(stage, done, stage.seconds / stage.steps * self.script.pace(stage.phase, position))
            self._hold(stage, base + stage.gain_mib * (done + 1) / stage.steps, is_final=done + 1 == stage.steps)
            if bar and stage.bar:
                bar.advance(done + 1, stage.bar(done + 1))
        stage.end(time.monotonic() - begun_at)

    def _work(self, stage: Stage, done: int, seconds: float) -> None:
        """Spend the time of one step; while weights load, read from their files."""
        is_loading = stage.phase in ("loading_weights", "loading_draft_weights")
        files = self.plan.draft if stage.phase == "loading_draft_weights" else self.plan.model
        shards = files.shards if files and is_loading else []
        remaining = seconds
        while remaining > 0:
            part = min(remaining, SLICE_S)
            if shards:
                _read_some(shards[done % len(shards)])
            else:
                self.wait_for_peers()
            spend(part, self.script.busy)
            remaining -= part

    def _hold(self, stage: Stage, mib: float, *, is_final: bool) -> None:
        if self.memory is None:
            return
        if (mib - self.memory.used_mib) / MIB_PER_GB > self.memory.available_gb():
            self.crash(OVERFLOWS.get(stage.phase, "cuda_oom_graph_capture"))
        self.memory.hold(mib, is_final=is_final)


def spend(seconds: float, busy: float) -> None:
    """Let time pass, a share of it on the CPU."""
    until = time.monotonic() + seconds * busy
    while time.monotonic() < until:
        pass
    time.sleep(seconds * (1 - busy))


def _read_some(path: str) -> None:
    """Read the head of a file, so that the process's counters of bytes read grow."""
    with open(path, "rb") as file:
        file.read(READ_BYTES)
