"""Watches launches for as long as its channel lives, and says as lines of JSON whatever changes, within a tick.

What it costs: a tick reads one stat file per launch and asks the kernel for one port's listeners. Each second the
members are read, every two the node's new processes looked into, each minute all its processes, for those that were
judged too early. How often a server's metrics are read is part of the request.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import time
import traceback
from contextlib import suppress
from typing import Any, BinaryIO, Dict, List, Optional

from . import gpu, proc
from .answering import Refused, write_all
from .inventory import disk, holder_facts
from .members import Census
from .metrics_page import Wish
from .places import SHM
from .watched import Watched

SECOND_S = 1.0
CENSUS_S = 2.0
STRANGERS_S = 60.0
SHARED_MEMORY_S = 30.0
SPACE_S = 10.0
GPU_S = 15.0
GPU_PATIENCE_S = 60.0
HURRIED_S = 0.01
PROTOCOL = 1


def observe(request: Dict[str, Any], channel: BinaryIO) -> None:
    """Run until the channel's input ends or its output cannot be written, then end the process without delay.

    A thread that waits for input would keep the interpreter from ending in good order.
    """
    commands: "queue.Queue[Optional[bytes]]" = queue.Queue()
    threading.Thread(target=_listen, args=(channel, commands), daemon=True).start()
    metrics = request.get("metrics")
    observer = Observer(float(request["tick_s"]), Wish(metrics) if metrics else None)
    try:
        while observer.turn(commands):
            pass
    except _NobodyReads:
        os._exit(0)
    except BaseException:
        write_all(2, traceback.format_exc().encode("utf-8", "replace"))
        os._exit(1)
    os._exit(0)


class _NobodyReads(Exception):
    """The channel's far end is gone."""


class Observer:
    """The watched launches and the clocks of what is not looked at in every tick."""

    def __init__(self, tick_s: float, metrics: Optional[Wish] = None) -> None:
        self._tick_s = tick_s
        self._metrics = metrics
        self._watched: Dict[str, Watched] = {}
        self._census = Census()
        self._due: Dict[str, float] = {}
        self._gpu_call: Optional[gpu.Call] = None
        self._is_greeted = False

    def turn(self, commands: "queue.Queue[Optional[bytes]]") -> bool:
        """Look once, say what changed, wait for the next tick or a command; False when the input has ended."""
        began_s = time.monotonic()
        _say(self._look(began_s))
        is_hurried = any(watched.is_hurried for watched in self._watched.values())
        pause_s = HURRIED_S if is_hurried else (self._tick_s if self._watched else SECOND_S)
        try:
            command = commands.get(timeout=max(began_s + pause_s - time.monotonic(), HURRIED_S))
        except queue.Empty:
            return True
        if command is None:
            return False
        wanted = json.loads(command)
        self._tick_s = float(wanted.get("tick_s", self._tick_s))
        self._watch(wanted["watch"])
        return True

    def _watch(self, wanted: List[Dict[str, Any]]) -> None:
        kept: Dict[str, Watched] = {}
        for row in wanted:
            known = self._watched.get(row["launch"])
            if known:
                known.move_to(row["port"], row["host"])
                kept[row["launch"]] = known
                continue
            try:
                kept[row["launch"]] = Watched(row["launch"], row["port"], row["host"], row["log_offset"], self._metrics)
            except Refused:
                continue
        if set(kept) - set(self._watched):
            self._census.forget_strangers()
            self._due.pop("second", None)
            self._due.pop("census", None)
        self._watched = kept

    def _look(self, now_s: float) -> List[Dict[str, Any]]:
        said: List[Dict[str, Any]] = []
        if not self._is_greeted:
            self._is_greeted = True
            said.append(
                {"k": "hello", "boot_id": proc.boot_id(), "at": time.time(), "pid": os.getpid(), "protocol": PROTOCOL}
            )
        is_second = self._is_due("second", SECOND_S, now_s)
        is_puzzled = any(watched.is_puzzled for watched in self._watched.values())
        if is_puzzled or (self._watched and self._is_due("census", CENSUS_S, now_s)):
            self._take_census(now_s)
        for watched in self._watched.values():
            said += watched.look(now_s, is_second=is_second)
        said += self._look_at_gpus(now_s)
        if is_second:
            said.append(self._beat(now_s))
        return said

    def _take_census(self, now_s: float) -> None:
        if self._is_due("strangers", STRANGERS_S, now_s):
            self._census.forget_strangers()
        known = [pid for watched in self._watched.values() for pid in watched.members]
        launches = {watched.launch_id: watched.identity for watched in self._watched.values()}
        for launch_id, newcomers in self._census.newcomers(launches, known).items():
            self._watched[launch_id].add_members(newcomers)
        if self._is_due("shared memory", SHARED_MEMORY_S, now_s):
            for watched in self._watched.values():
                watched.record_shared_memory()

    def _look_at_gpus(self, now_s: float) -> List[Dict[str, Any]]:
        """Start a query when one is due, and report it when it has ended: it may take seconds, or forever."""
        if self._gpu_call is None:
            if self._watched and self._is_due("gpu", GPU_S, now_s):
                with suppress(Refused):
                    self._gpu_call = gpu.start("compute-apps", gpu.APPS_FIELDS)
            return []
        outcome = self._gpu_call.poll(GPU_PATIENCE_S)
        if outcome is None:
            return []
        self._gpu_call = None
        rows = gpu.holders(outcome)
        for watched in self._watched.values():
            own = [row["memory_mib"] for row in rows if row["pid"] in watched.members]
            watched.gpu_memory_mib = sum(memory or 0 for memory in own) if own else None
        holders = [
            {"uuid": row["uuid"], "pid": row["pid"], "memory_mib": row["memory_mib"], "command": row["name"]}
            for row in rows
        ]
        known = holder_facts(row["pid"] for row in rows)
        for holder in holders:
            facts = known[holder["pid"]]
            holder.update(user=facts["user"], launch=facts["launch"], command=facts["command"] or holder["command"])
        error = None if outcome["exit"] == 0 else outcome["text"].strip()[:300] or "status %s" % outcome["exit"]
        return [{"k": "gpus", "at": time.time(), "holders": holders, "error": error}]

    def _beat(self, now_s: float) -> Dict[str, Any]:
        beat: Dict[str, Any] = {"k": "beat", "at": time.time()}
        if self._is_due("space", SPACE_S, now_s):
            home, shm = disk(os.path.expanduser("~")), disk(SHM)
            beat["disk_free_mib"] = home["free_mib"] if home else None
            beat["shm_free_mib"] = shm["free_mib"] if shm else None
        return beat

    def _is_due(self, what: str, every_s: float, now_s: float) -> bool:
        """Tell whether a periodic look is due, and if so when the next one will be. A tick's half early is on time."""
        if now_s + self._tick_s / 2 < self._due.get(what, 0.0):
            return False
        self._due[what] = now_s + every_s
        return True


def _listen(channel: BinaryIO, commands: "queue.Queue[Optional[bytes]]") -> None:
    for line in iter(channel.readline, b""):
        commands.put(line)
    commands.put(None)


def _say(lines: List[Dict[str, Any]]) -> None:
    if lines:
        try:
            write_all(1, b"".join(json.dumps(line).encode("ascii") + b"\n" for line in lines))
        except OSError as error:
            raise _NobodyReads from error
