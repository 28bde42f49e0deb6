"""One launch under watch: the log from where it was left, then what changed since the last look."""

from __future__ import annotations

import base64
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional

from . import proc
from .effort import Effort
from .listening import PortWatch
from .log_file import LogFile
from .main_process import MainProcess
from .members import Identity, record_members
from .metrics_page import PageWatch, Wish
from .places import launch_directory
from .proc import Stat
from .shared_memory import record_shared_memory

LOG_PART_BYTES = 256 * 1024
LOG_PARTS_PER_TICK = 4


class Watched:
    """The facts of one launch. An end is told only when every byte that was logged before it has been sent."""

    def __init__(self, launch_id: str, port: int, host: str, log_offset: int, metrics: Optional[Wish] = None) -> None:
        self.launch_id = launch_id
        self.directory = launch_directory(launch_id)
        self.main = MainProcess(self.directory)
        self.members: Dict[int, Stat] = {}
        self.gpu_memory_mib: Optional[int] = None
        self.is_behind = False
        self._port = PortWatch(port, host)
        self._metrics = metrics
        self._page = PageWatch(metrics, port, host) if metrics else None
        self._log = LogFile(self.directory)
        self._offset = log_offset
        self._effort = Effort()
        self._sent: Dict[str, Any] = {}
        self._is_running = False
        self._has_listened = False

    @property
    def is_hurried(self) -> bool:
        """Tell whether the next look should come at once: more of the log is there, or the end is about to be known."""
        return self.is_behind or self.main.is_settling

    @property
    def is_puzzled(self) -> bool:
        """Tell whether somebody unknown listens on the port: perhaps a process of ours that is not yet known as one."""
        return bool(self._sent.get("listener", {}).get("owner") == "other")

    @property
    def identity(self) -> Optional[Identity]:
        """Return the main process, as long as it is of this boot."""
        return self.main.identity if self.main.boot_id == proc.boot_id() else None

    def move_to(self, port: int, host: str) -> None:
        """Watch another port from now on, if it is another."""
        if (port, host) != (self._port.port, self._port.host):
            self._port = PortWatch(port, host)
            self._page = PageWatch(self._metrics, port, host) if self._metrics else None

    def add_members(self, newcomers: List[Stat]) -> None:
        """Take in processes that were found to belong to the launch."""
        self.members.update((stat.pid, stat) for stat in newcomers)
        with suppress(OSError):  # a full disk; the watch goes on
            record_members(self.directory, newcomers)

    def refresh_members(self) -> None:
        """Read every member anew and let go of those that ended."""
        fresh = {pid: proc.read_stat(pid) for pid in self.members}
        self.members = {
            pid: stat
            for pid, stat in fresh.items()
            if stat and stat.is_alive and stat.start_ticks == self.members[pid].start_ticks
        }

    def record_shared_memory(self) -> None:
        """Note what the members use of /dev/shm, for the time when they are gone."""
        with suppress(OSError):
            record_shared_memory(self.directory, list(self.members))

    def look(self, now_s: float, *, is_second: bool) -> List[Dict[str, Any]]:
        """Return lines for the log's growth and for what changed; effort is looked at when `is_second`."""
        if is_second:
            self.refresh_members()
        process = self.main.look(now_s)
        was_running, self._is_running = self._is_running, process["state"] == "running"
        if was_running and not self._is_running:
            self.refresh_members()
        self._take_main()
        said = self._log_lines()
        facts: Dict[str, Any] = {"listener": self._listener()}
        if facts["listener"]["owner"] == "ours" and not self._has_listened:
            self._has_listened = True  # by now it has all that it will share
            self.record_shared_memory()
        if not (self.main.is_settling or (self.is_behind and not self._is_running)):
            facts["process"] = dict(process, members=len(self.members))
        if is_second:
            facts["effort"] = self._effort.look(self.members.values(), self._log.size(), self.gpu_memory_mib)
        changed = {name: fact for name, fact in facts.items() if self._sent.get(name) != fact}
        self._sent.update(changed)
        if changed:
            said.append({"k": "fact", "launch": self.launch_id, "at": time.time(), **changed})
        if self._page and facts["listener"]["owner"] == "ours":
            text = self._page.look(now_s)
            if text is not None:
                said.append({"k": "metrics", "launch": self.launch_id, "at": time.time(), "text": text})
        return said

    def _log_lines(self) -> List[Dict[str, Any]]:
        """Return what the log has grown by, in parts; `is_behind` when there is more.

        A log that became shorter was cut and begins anew. When nobody is left to write, nothing is held back.
        """
        if self._log.is_cut(self._offset):
            self._offset = 0
        is_final = not self._is_running and not self.members and self.main.boot_id is not None
        parts: List[Dict[str, Any]] = []
        while len(parts) < LOG_PARTS_PER_TICK and self._log.size() > self._offset:
            data = self._log.read(self._offset, LOG_PART_BYTES, is_final=is_final)
            if not data:
                break
            text = base64.b64encode(data).decode("ascii")
            parts.append({"k": "log", "launch": self.launch_id, "offset": self._offset, "b64": text})
            self._offset += len(data)
        self.is_behind = len(parts) == LOG_PARTS_PER_TICK
        return parts

    def _take_main(self) -> None:
        """Make the main process a member as soon as it is known: the census comes only every few seconds."""
        if self._is_running and self.identity and self.identity[0] not in self.members:
            stat = proc.read_stat(self.identity[0])
            if stat and stat.start_ticks == self.identity[1] and stat.is_alive:
                self.add_members([stat])

    def _listener(self) -> Dict[str, Any]:
        listener = self._port.look(list(self.members))
        masker = self._log.masker
        if listener["command"] and masker:
            listener = dict(listener, command=masker.mask_text(listener["command"]))
        return listener
