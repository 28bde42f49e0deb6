"""Runs beside a benchmark client and notes, until that ends, what its server's counters and GPUs say meanwhile."""

from __future__ import annotations

import json
import os
import time
from typing import Any, BinaryIO, Dict, List, Optional

from . import gpu
from .answering import Refused
from .bench_client import SAMPLES
from .main_process import MainProcess
from .metrics_page import PageWatch, Wish
from .places import append_private_file, launch_directory

TICK_S = 0.25
GPU_FIELDS = ("uuid", "utilization.gpu", "power.draw", "power.limit", "memory.used")
GPU_PATIENCE_S = 20.0
LINES_LIMIT = 20_000
LOG_STEP_BYTES = 1 << 18


def sample_beside(request: Dict[str, Any], _channel: BinaryIO) -> None:
    """Sample every `every_s` seconds for as long as the client runs.

    Each line of the file has `at`, the `stage` (how many of the request's marks the client's log has shown, in their
    order) and either `gpus`, the cells of GPU_FIELDS as the driver wrote them, or `metrics`, the wanted lines of the
    server's page. What cannot be asked is no line. A new stage is sampled at once.
    """
    directory = launch_directory(request["launch"])
    main = MainProcess(directory)
    sampler = Sampler(directory, request)
    while main.look(time.monotonic())["state"] in ("pending", "running") and sampler.turn(time.monotonic()):
        time.sleep(TICK_S)


class Sampler:
    """What is asked, when it was last asked, and how far the log has come."""

    def __init__(self, directory: str, request: Dict[str, Any]) -> None:
        self._path = os.path.join(directory, SAMPLES)
        self._every_s = float(request["every_s"])
        self._uuids = set(request["gpu_uuids"])
        self._stages = _Stages(os.path.join(directory, "log"), request["marks"])
        self._page = PageWatch(Wish(request["metrics"]), request["port"], request["host"])
        self._call: Optional[gpu.Call] = None
        self._due_s = 0.0
        self._lines = 0

    def turn(self, now_s: float) -> bool:
        """Take in what was answered and ask again when it is time; False when enough was written for ever."""
        if self._stages.look():
            self._due_s = now_s
        text = self._page.look(now_s)
        if text:
            self._write({"metrics": text})
        outcome = self._call.poll(GPU_PATIENCE_S) if self._call else None
        if outcome:
            self._call = None
            rows = _rows(outcome, self._uuids)
            if rows:
                self._write({"gpus": rows})
        if self._uuids and self._call is None and now_s >= self._due_s:
            self._due_s = now_s + self._every_s
            self._call = _asked()
        return self._lines < LINES_LIMIT

    def _write(self, said: Dict[str, Any]) -> None:
        line = json.dumps(dict(said, at=time.time(), stage=self._stages.reached)).encode("ascii")
        append_private_file(self._path, line + b"\n")
        self._lines += 1


class _Stages:
    """Looks through a log, as it grows, for some texts in their order."""

    def __init__(self, path: str, marks: List[str]) -> None:
        self.reached = 0
        self._path = path
        self._marks = [mark.encode("utf-8") for mark in marks]
        self._offset = 0
        self._held = b""

    def look(self) -> bool:
        """Read what is new and tell whether a mark came."""
        before = self.reached
        while self.reached < len(self._marks):
            try:
                with open(self._path, "rb") as log:
                    log.seek(self._offset)
                    data = log.read(LOG_STEP_BYTES)
            except OSError:
                break
            if not data:
                break
            self._offset += len(data)
            self._take(self._held + data)
        return self.reached > before

    def _take(self, window: bytes) -> None:
        while self.reached < len(self._marks):
            mark = self._marks[self.reached]
            place = window.find(mark)
            if place < 0:
                self._held = window[-(len(mark) - 1) :]
                return
            self.reached += 1
            window = window[place + len(mark) :]


def _asked() -> Optional[gpu.Call]:
    try:
        return gpu.start("gpu", GPU_FIELDS)
    except Refused:
        return None


def _rows(outcome: Dict[str, Any], uuids: "set[str]") -> List[List[str]]:
    """Return the cells of the wanted GPUs."""
    lines = outcome["text"].splitlines() if outcome["exit"] == 0 else ()
    rows = [line.strip().split(", ") for line in lines]
    return [row for row in rows if len(row) == len(GPU_FIELDS) and row[0] in uuids]
