"""The child processes of an engine: forked, named by role, collected when they end."""

from __future__ import annotations

import os
import signal
from typing import Callable, Dict, List, NamedTuple, Optional

from .processes import die_with_parent, kill


class Death(NamedTuple):
    """A child that ended with an error; a negative code is a signal."""

    name: str
    pid: int
    code: int


class Children:
    """The children of this process."""

    def __init__(self, *, die_with_parent: bool) -> None:
        self._dies_with_parent = die_with_parent
        self._names: Dict[int, str] = {}

    def fork(self, name: str, body: Callable[[], None]) -> None:
        """Run `body` in a child that never returns, with the signal dispositions of a fresh process."""
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self._names[pid] = name
            return
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)
            if self._dies_with_parent:
                die_with_parent(parent)
            body()
        finally:
            os._exit(1)

    def pids(self, prefix: str) -> List[int]:
        """Return the pids of the children whose name begins so."""
        return [pid for pid, name in self._names.items() if name.startswith(prefix)]

    def collect_death(self) -> Optional[Death]:
        """Collect children that have ended and return the first that ended badly; good ends are forgotten."""
        while self._names:
            try:
                pid, outcome = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return None
            if not pid:
                return None
            code = -os.WTERMSIG(outcome) if os.WIFSIGNALED(outcome) else os.WEXITSTATUS(outcome)
            name = self._names.pop(pid, "")
            if code and name:
                return Death(name, pid, code)
        return None

    def kill_all(self) -> None:
        """Kill every child and collect it: in a container nobody else may."""
        pids = list(self._names)
        for pid in pids:
            kill(pid)
        for pid in pids:
            _collect(pid)


def _collect(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return
