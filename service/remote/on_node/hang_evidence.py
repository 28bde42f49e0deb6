"""What a launch that seems to hang is doing: stacks, kernel waits, GPUs and last words; nothing is stopped for it.

A stack is read with `py-spy dump --nonblocking`, which only reads the process's memory: it neither attaches to the
process nor signals it, so a launch that was merely slow goes on.
"""

from __future__ import annotations

import base64
import os
import re
import select
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Dict, List, Optional, Tuple

from . import gpu, proc
from .answering import Refused
from .log_file import read_log
from .main_process import MainProcess
from .masking import Masker, find_secrets
from .members import Identity, find_members
from .places import existing_launch, read_file
from .proc import Stat

PROCESS_LIMIT = 12
AT_ONCE = 4
STACK_PATIENCE_S = 8.0
STACK_LIMIT_BYTES = 32 * 1024
ATTEMPTS = 3
"""A process that moves while it is read may spoil a reading."""
KILL_PATIENCE_S = 1.0
GPU_PATIENCE_S = 20.0
APPS_PATIENCE_S = 10.0
LOG_LINES = 60
LOG_LIMIT_BYTES = 64 * 1024
THREADS_LIMIT = 8
COMPLAINT_LIMIT = 500
CUT = "\n... cut here\n"
_ROLES = tuple(
    re.compile(pattern)
    for pattern in (
        r"sglang::detokenizer",
        r"sglang::(scheduler|data_parallel_controller)",
        r"sglang::",
        r"multiprocessing[.]spawn import spawn_main",
    )
)
"""Whose stack is wanted after the main process's, most wanted first (facts: SGLang section 6). The detokenizer is one,
the schedulers may be more than the limit. A child has no title of its own before it has imported everything."""


def hang_evidence(request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer with stacks of the processes that matter, what nvidia-smi says and the last log lines, all masked."""
    directory = existing_launch(request["launch"])
    at = time.time()
    main = MainProcess(directory)
    is_this_boot = main.boot_id == proc.boot_id()
    members = find_members(request["launch"], main.identity) if is_this_boot else []
    masker = _masker(directory, members)
    program = _py_spy(request["python"])
    with ThreadPoolExecutor(AT_ONCE + 1) as pool:
        gpus = pool.submit(_gpus)
        stacks = list(pool.map(lambda stat: _process(stat, program, masker), wanted(members, main.identity)))
    text = gpus.result()
    log = {"launch": request["launch"], "offset": 0, "limit_bytes": LOG_LIMIT_BYTES, "contains": None}
    tail = read_log(dict(log, tail_lines=LOG_LINES))
    return {
        "at": at,
        "stacks": stacks,
        "nvidia_smi": None if text is None else masker.mask_text(text),
        "log_tail": base64.b64decode(tail["b64"]).decode("utf-8", "replace"),
    }


def wanted(members: List[Stat], main: Optional[Identity]) -> List[Stat]:
    """Return the processes worth a look, PROCESS_LIMIT at most: the main one, then by role, those that stand first."""
    ranked = []
    for stat in members:
        role = 0 if (stat.pid, stat.start_ticks) == main else _role(stat.pid)
        if role is not None:
            ranked.append(((role, stat.state not in "DTt", stat.pid), stat))
    return [stat for _, stat in sorted(ranked)[:PROCESS_LIMIT]]


def _role(pid: int) -> Optional[int]:
    command = proc.command(pid) or ""
    return next((rank for rank, role in enumerate(_ROLES, 1) if role.search(command)), None)


def _masker(directory: str, members: List[Stat]) -> Masker:
    """Return what hides the launch's secrets and those on its processes' command lines, which py-spy prints."""
    own = find_secrets(directory)
    if own is None:
        raise Refused("directory_unusable", "the launch's secrets cannot be read, so nothing of it can be shown")
    return Masker([*own, *(secret for stat in members for secret in proc.secrets_in(proc.words(stat.pid) or []))])


def _process(stat: Stat, program: Optional[str], masker: Masker) -> Dict[str, Any]:
    text, error = None, "py-spy is neither beside the engine's python nor on the path"
    if program is not None:
        text, error = _stack(program, stat.pid, masker)
    return {
        "pid": stat.pid,
        "command": masker.mask_text(proc.command(stat.pid) or ""),
        "state": stat.state,
        "wchan": _wchan("/proc/%d" % stat.pid),
        "kernel_stack": _kernel_stack(stat.pid),
        "text": text,
        "error": error or None,
    }


def _stack(program: str, pid: int, masker: Masker) -> Tuple[Optional[str], str]:
    """Return what py-spy wrote, or its complaint. Masked before it is cut: the cut may go through a secret."""
    ends_at = time.monotonic() + STACK_PATIENCE_S
    argv = [program, "dump", "--pid", str(pid), "--nonblocking"]
    complaint = ""
    for _ in range(ATTEMPTS):
        try:
            exit_code, data = _run(argv, ends_at, STACK_LIMIT_BYTES + masker.longest)
        except OSError as error:
            return None, "py-spy: %s" % error.strerror
        text = masker.mask(data)[:STACK_LIMIT_BYTES].decode("utf-8", "replace")
        if len(data) > STACK_LIMIT_BYTES:
            return text + CUT, ""
        if exit_code == 0:
            return text, ""
        if exit_code is None:
            return text or None, "py-spy: no answer within %d s" % STACK_PATIENCE_S
        complaint = "py-spy: %s" % (text.strip()[-COMPLAINT_LIMIT:] or "status %d" % exit_code)
    return None, complaint


def _run(argv: List[str], ends_at: float, limit: int) -> Tuple[Optional[int], bytes]:
    """Return exit code and output of a program; None for the code when it took too long or wrote more than `limit`."""
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/"
    )
    output = process.stdout
    if output is None:
        return None, b""
    data = b""
    is_whole = False
    try:
        while len(data) < limit and not is_whole:
            left_s = ends_at - time.monotonic()
            if left_s <= 0 or not select.select([output], [], [], left_s)[0]:
                break
            part = os.read(output.fileno(), limit - len(data))
            data += part
            is_whole = not part
        if not is_whole:
            process.kill()
        with suppress(subprocess.TimeoutExpired):  # in an uninterruptible wait; nothing ends it
            code = process.wait(KILL_PATIENCE_S)
            return (code if is_whole else None), data
    finally:
        output.close()
    return None, data


def _py_spy(python: str) -> Optional[str]:
    beside = os.path.join(os.path.dirname(python), "py-spy")
    if os.path.isabs(beside) and os.path.isfile(beside) and os.access(beside, os.X_OK):
        return beside
    return shutil.which("py-spy")


def _wchan(place: str) -> Optional[str]:
    """Return the kernel function that a process or thread waits in, None when it runs or may not be looked at."""
    text = (read_file(place + "/wchan") or b"").decode("ascii", "replace").strip()
    return text if text not in ("", "0") else None


def _kernel_stack(pid: int) -> Optional[str]:
    """Return where the main thread and those in an uninterruptible wait are in the kernel; mostly root's to know."""
    parts = []
    for tid in _threads(pid):
        place = "/proc/%d/task/%d" % (pid, tid)
        stat = proc.parse_stat(read_file(place + "/stat") or b"")
        text = (read_file(place + "/stack") or b"").decode("ascii", "replace").strip()
        if stat and text and (tid == pid or stat.state == "D"):
            parts.append("thread %d %s %s\n%s\n" % (tid, stat.state, _wchan(place) or "-", text))
    return "".join(parts[:THREADS_LIMIT]) or None


def _threads(pid: int) -> List[int]:
    try:
        return sorted(int(name) for name in os.listdir("/proc/%d/task" % pid))
    except OSError:
        return []


def _gpus() -> Optional[str]:
    """Return what nvidia-smi says of the GPUs and who holds them, as it says it; None when there is none."""
    parts = []
    for subject, fields, patience_s in (
        ("gpu", gpu.QUERY_FIELDS, GPU_PATIENCE_S),
        ("compute-apps", gpu.APPS_FIELDS, APPS_PATIENCE_S),
    ):
        try:
            outcome = gpu.ask(subject, fields, patience_s)
        except Refused as refused:
            return refused.detail
        if outcome["exit"] == gpu.NOT_FOUND:
            return None
        parts.append("%s\n%s\n" % (", ".join(fields), outcome["text"].strip()))
        if outcome["exit"] is None:
            break
    return "\n".join(parts)
