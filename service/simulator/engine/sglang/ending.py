"""The ways an engine ends: by killing its own tree after a failure, or with an exit code after a clean stop."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from .children import Children
from .console import Console, write
from .processes import kill_self
from .shared_memory import SharedMemory
from .tracebacks import LAUNCH_FRAMES, traceback_text
from .versions import Version


class Ending:
    """Ends this engine; none of the methods returns, and the first that is called wins over other threads."""

    def __init__(self, version: Version, console: Console, children: Children, shared_memory: SharedMemory) -> None:
        self._version = version
        self._console = console
        self._children = children
        self._shared_memory = shared_memory
        self._claim = threading.Lock()
        self._claimed_by = 0

    def by_kill(self) -> Any:
        """Kill the whole tree: exit code 137, the same as an out-of-memory kill."""
        self._be_first()
        self._say_kill(include_parent=True)
        self._children.kill_all()
        kill_self()

    def with_code(self, code: int) -> Any:
        """Kill the children and exit."""
        self._be_first()
        self._say_kill(include_parent=False)
        self._children.kill_all()
        self._shared_memory.end()
        os._exit(code)

    def after_failure(self, pause_s: float) -> Any:
        """End as the handler of SIGQUIT does while serving."""
        self._be_first()
        self._console.error("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        if self._version.has_new_texts:
            self._console.info("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
            time.sleep(pause_s)
            self._console.info("No live scheduler processes found; skipping py-spy and CUDA coredump.")
        self.by_kill()

    def after_death_while_loading(self, name: str, code: int) -> Any:
        """End as the wait for the schedulers does when one of them is gone."""
        number = name.rpartition("_")[2]
        exception = (
            f"RuntimeError: Rank {number} scheduler died during initialization (exit code: {code}). If exit code is "
            "-9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
        )
        write(traceback_text(LAUNCH_FRAMES, exception) + "\n")
        self.with_code(1)

    def _be_first(self) -> None:
        """Return to the first thread that comes, every time; any other waits here for the end."""
        me = threading.get_ident()
        if self._claimed_by != me:
            self._claim.acquire()
            self._claimed_by = me

    def _say_kill(self, *, include_parent: bool) -> None:
        if self._version.has_new_texts:
            pid = os.getpid()
            self._console.info(
                f"kill_process_tree called: parent_pid={pid}, include_parent={include_parent}, pid={pid}"
            )
