"""What became of a launch's main process: from its boot id, pid, start time and exit file."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Optional, Tuple

from . import proc
from .places import is_forbidden, read_file, read_pair

SETTLE_S = 2.0
"""How long the supervisor has to write what it saw; it takes milliseconds."""
START_S = 10.0
"""How long a supervisor has from taking the lock to its own pid file."""


class MainProcess:
    """Looks at one launch again and again; what cannot change is read once.

    `is_settling`: what the last look said is about to change, since the supervisor has still to write it.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.is_settling = False
        self._boot_id = b""
        self._identity: Optional[Tuple[int, int]] = None
        self._gone_at: Optional[float] = None

    @property
    def identity(self) -> Optional[Tuple[int, int]]:
        """Return pid and start time once the supervisor has written them."""
        if self._identity is None:
            self._identity = read_pair(self._path("pid"))
        return self._identity

    @property
    def supervisor(self) -> Optional[Tuple[int, int]]:
        """Return pid and start time of the supervisor."""
        return read_pair(self._path("supervisor"))

    @property
    def boot_id(self) -> Optional[str]:
        """Return the boot in which the launch was started."""
        if not self._boot_id:
            self._boot_id = (read_file(self._path("boot_id")) or b"").strip()
        return self._boot_id.decode("ascii", "replace") or None

    def look(self, now_s: float) -> Dict[str, Any]:
        """Return state, pid, start_ticks, exit_code and ended_at; `now_s` is a clock that only moves forward."""
        self.is_settling = False
        state, ended = self._state(now_s)
        if state != "running":
            ended = ended or self._ended()  # it may have been written between the two looks
            state = "exited" if ended else state
        pid, start_ticks = self.identity or (None, None)
        return {
            "state": state,
            "pid": pid,
            "start_ticks": start_ticks,
            "exit_code": ended[0] if ended else None,
            "ended_at": ended[1] if ended else None,
        }

    def settled(self) -> Dict[str, Any]:
        """Look, and look again while the supervisor has still to write, for SETTLE_S at most."""
        while True:
            seen = self.look(time.monotonic())
            if not self.is_settling:
                return seen
            time.sleep(0.02)

    def _state(self, now_s: float) -> Tuple[str, Optional[Tuple[int, int]]]:
        ended = self._ended()
        if ended:
            return "exited", ended
        if not os.path.isdir(self.directory):
            return ("running" if self._is_known_to_live() else "absent"), None
        if self.boot_id and self.boot_id != proc.boot_id():
            return "rebooted", None
        if self.identity is None:
            return self._before_pid(), None
        if proc.is_running(*self.identity):
            return "running", None
        return ("running" if self._is_settling(now_s) else "lost"), None

    def _is_known_to_live(self) -> bool:
        """Tell whether the process that was read of earlier lives: its directory may be on a disk that is away."""
        return self._identity is not None and proc.is_running(*self._identity)

    def _before_pid(self) -> str:
        lock = self._path("lock")
        if not os.path.isdir(lock):
            return "pending"
        if is_forbidden(self.directory):
            return "absent"
        if self.supervisor:
            return "pending" if proc.is_running(*self.supervisor) else "lost"
        return "pending" if time.time() - os.stat(lock).st_mtime < START_S else "lost"

    def _is_settling(self, now_s: float) -> bool:
        if self._gone_at is None:
            self._gone_at = now_s
        self.is_settling = bool(
            now_s - self._gone_at < SETTLE_S and self.supervisor and proc.is_running(*self.supervisor)
        )
        return self.is_settling

    def _ended(self) -> Optional[Tuple[int, int]]:
        return read_pair(self._path("exit"))

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)
