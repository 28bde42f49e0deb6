"""How nvidia-smi is asked: one call at a time on a machine, never a second while one is stuck, output to a memory file.

With a wedged driver nvidia-smi goes into an uninterruptible wait and no signal ends it (facts: GPU node 1.6). Each call
holds a lock through a descriptor that it inherits: the kernel frees it when the call ends, whoever else has died.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from typing import IO, Any, Dict, List, Optional, Sequence

from . import proc
from .answering import Refused
from .places import make_private_directory, read_file, root

QUERY_FIELDS = (
    "index",
    "uuid",
    "pci.bus_id",
    "memory.total",
    "memory.used",
    "memory.free",
    "utilization.gpu",
    "temperature.gpu",
    "power.draw",
    "power.limit",
    "pstate",
    "compute_mode",
    "mig.mode.current",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "driver_version",
    "name",
)
"""Fields that every driver from 470 to 610 has (facts: GPU node 1.2); the name last, it is free text."""
EXTRA_FIELDS = (
    "uuid",
    "gpu_recovery_action",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "fabric.state",
    "fabric.status",
)
"""Fields of newer drivers, which refuse the whole query for one that they do not know."""
APPS_FIELDS = ("gpu_uuid", "pid", "used_gpu_memory", "process_name")
PLACES = "/usr/bin:/usr/local/bin:/usr/local/nvidia/bin:/usr/lib/wsl/lib:/run/nvidia/driver/usr/bin:/opt/bin"
"""Where nvidia-smi may be when it is not on the path of a login without a terminal."""
KILL_PATIENCE_S = 1.0
NOT_FOUND = 127
_LIMITED = 'ulimit -n 1024 2>/dev/null; exec "$@"'
"""With a limit of a billion open files it takes 24 s instead of 2 (facts: GPU node 1.6)."""
ELSEWHERE = "[Not Found]"
"""The name that a row has when its pid, which is the host's, does not exist in this container."""
_UNKNOWN_FIELD = "is not a valid field to query"


class Call:
    """One running nvidia-smi."""

    def __init__(
        self, lock: IO[str], process: "subprocess.Popen[bytes]", output: IO[bytes], fields: Sequence[str]
    ) -> None:
        self._lock = lock
        self._process = process
        self._output = output
        self._fields = list(fields)
        self.began_at = time.monotonic()

    def poll(self, deadline_s: float) -> Optional[Dict[str, Any]]:
        """Return the outcome once there is one; past the deadline the call is killed, or left when it cannot be."""
        exit_code = self._process.poll()
        age_s = time.monotonic() - self.began_at
        if exit_code is not None and exit_code >= 0:
            return self._outcome(exit_code, self._text())
        if exit_code is not None:
            return self._outcome(None, "no answer within %d s" % age_s)
        if age_s < deadline_s:
            return None
        self._process.kill()
        if age_s < deadline_s + KILL_PATIENCE_S:
            return None
        return self._outcome(None, "no answer within %d s, and it cannot be killed" % deadline_s, is_stuck=True)

    def _outcome(self, exit_code: Optional[int], text: str, *, is_stuck: bool = False) -> Dict[str, Any]:
        self._lock.close()
        self._output.close()
        return {"exit": exit_code, "text": text, "fields": self._fields, "is_stuck": is_stuck}

    def _text(self) -> str:
        self._output.seek(0)
        return self._output.read(1 << 20).decode("utf-8", "replace")


def start(subject: str, fields: Sequence[str]) -> Optional[Call]:
    """Start `nvidia-smi --query-SUBJECT=FIELDS`; None when there is none here or another call has not ended.

    Refused when the lock cannot be made: without it, calls could pile up behind a stuck one.
    """
    program = program_path()
    lock = _lock() if program else None
    if program is None or lock is None:
        return None
    output = os.fdopen(os.memfd_create("nvidia-smi"), "w+b")
    query = "--query-%s=%s" % (subject, ",".join(fields))
    argv = ["/bin/sh", "-c", _LIMITED, "sh", program, query, "--format=csv,noheader,nounits"]
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, LC_ALL="C"),
            pass_fds=(lock.fileno(),),
        )
    except OSError:
        lock.close()
        output.close()
        return None
    _note(lock, process.pid)
    return Call(lock, process, output, fields)


def ask(subject: str, fields: Sequence[str], deadline_s: float) -> Dict[str, Any]:
    """Return the exit code and text of one query, waiting for a turn within the deadline.

    Exit 127 means that there is no nvidia-smi. `is_stuck` means that one does not end, this one or an earlier one.
    """
    if program_path() is None:
        return {"exit": NOT_FOUND, "text": "", "fields": list(fields), "is_stuck": False}
    ends_at = time.monotonic() + deadline_s
    while True:
        call = start(subject, fields)
        if call:
            break
        if time.monotonic() > ends_at:
            return {"exit": None, "text": _stuck_since(), "fields": list(fields), "is_stuck": True}
        time.sleep(0.05)
    while True:
        outcome = call.poll(max(ends_at - call.began_at, 0.1))
        if outcome:
            return outcome
        time.sleep(0.01)


def ask_what_is_known(subject: str, fields: Sequence[str], deadline_s: float) -> Dict[str, Any]:
    """Ask like `ask`, leaving out, one after the other, the fields that this driver does not know."""
    wanted = list(fields)
    while True:
        outcome = ask(subject, wanted, deadline_s)
        unknown = [name for name in wanted[1:] if '"%s" %s' % (name, _UNKNOWN_FIELD) in outcome["text"]]
        if outcome["exit"] == 0 or not unknown:
            return outcome
        wanted.remove(unknown[0])


def holders(outcome: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return the rows of the compute-apps query whose process is of our pid namespace: uuid, pid, memory_mib, name."""
    rows = []
    for line in outcome["text"].splitlines() if outcome["exit"] == 0 else ():
        cells = line.strip().split(", ", len(APPS_FIELDS) - 1)
        if len(cells) == len(APPS_FIELDS) and cells[1].isdecimal() and cells[3] != ELSEWHERE:
            rows.append({"uuid": cells[0], "pid": int(cells[1]), "memory_mib": mib(cells[2]), "name": cells[3]})
    return rows


def mib(cell: str) -> Optional[int]:
    """Return a memory cell's number, None when it holds none."""
    number = cell.split(" ", maxsplit=1)[0]
    return int(number) if number.isdecimal() else None


def program_path() -> Optional[str]:
    """Return where nvidia-smi is, None when there is none."""
    return shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path=PLACES)


def _lock() -> Optional[IO[str]]:
    make_private_directory(root())
    try:
        lock = open(_lock_path(), "a+", encoding="ascii", opener=_private)  # noqa: SIM115  # the call closes it
    except OSError as error:
        raise Refused("directory_unusable", "%s: %s" % (_lock_path(), error.strerror)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def _lock_path() -> str:
    """Return the lock's file: one per machine, since a home may be shared by several."""
    return os.path.join(root(), "nvidia-smi-%s.lock" % socket.gethostname())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _note(lock: IO[str], pid: int) -> None:
    with suppress(OSError):  # a full disk: the lock itself needs no room
        lock.truncate(0)
        lock.write("%d %d" % (pid, int(time.time())))
        lock.flush()


def _stuck_since() -> str:
    words = (read_file(_lock_path()) or b"").decode("ascii", "replace").split()
    pid = words[0] if words else "?"
    stat = proc.read_stat(int(pid)) if pid.isdecimal() else None
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(words[1]))) if len(words) > 1 else "an unknown time"
    return "an earlier call, pid %s, state %s, has not ended since %s" % (pid, stat.state if stat else "?", since)
