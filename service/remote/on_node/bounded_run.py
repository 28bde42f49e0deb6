"""One program run within a time: in a group of its own, which is gone afterwards, with the end of what it printed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .answering import Refused

KILL_PATIENCE_S = 2.0
GONE_PATIENCE_S = 0.3
ANSWER_LIMIT = 4 << 20
OUTPUT_LIMIT = 1 << 20


class Ended(NamedTuple):
    """How a program ended; `parts` is what it answered on the pipe that it was given."""

    parts: Dict[str, Any]
    output: str
    exit_code: Optional[int]
    """None when it took too long and was killed."""


def run(
    argv: List[str], *, variables: Dict[bytes, bytes], work: str, patience_s: float, answer: Optional[Tuple[int, int]]
) -> Ended:
    """Run a program and whatever it starts; all of its group is killed when it ends or takes too long.

    `answer` is a pipe, both ends, whose writing end the program inherits; its lines of JSON are merged into one. Both
    ends are closed. Refused when the program cannot be executed.
    """
    ends_at = time.monotonic() + patience_s
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=work,
            env=variables,
            pass_fds=answer[1:] if answer else (),
            start_new_session=True,
        )
    except OSError as error:
        if answer:
            os.close(answer[0])
        raise Refused("engine_not_executable", "%s: %s" % (argv[0], error.strerror)) from error
    finally:
        if answer:
            os.close(answer[1])
    collected = _Collected(process, answer[0] if answer else None)
    try:
        has_ended = collected.until(ends_at) and _has_ended(process.pid, ends_at)
    finally:
        _kill(process)
        collected.close()
    return Ended(collected.parts(), collected.text(), process.returncode if has_ended else None)


def _has_ended(pid: int, ends_at: float) -> bool:
    """Wait for the end of a child without collecting it, so that the number of its group stays taken."""
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.005)
    return True


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the group of a child, which may have ended itself; collect it, and give the others a moment to be gone."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # in an uninterruptible wait; nothing ends it
        process.wait(KILL_PATIENCE_S)
    ends_at = time.monotonic() + GONE_PATIENCE_S
    with suppress(OSError):
        while time.monotonic() < ends_at:
            os.killpg(process.pid, 0)
            time.sleep(0.005)


class _Collected:
    """The end of what a program prints, and its answer."""

    def __init__(self, process: "subprocess.Popen[bytes]", answer: Optional[int]) -> None:
        self._output = process.stdout
        self._answer = answer
        self._tail = b""
        self._lines = b""

    def until(self, ends_at: float) -> bool:
        """Read until the answer is closed, or else the output; False when the time is over before.

        A child that lives on may hold the output open: with an answer its end is not waited for.
        """
        output = self._output.fileno() if self._output else -1
        last = output if self._answer is None else self._answer
        opened = {output, last}
        while last in opened:
            left_s = ends_at - time.monotonic()
            ready = select.select(list(opened), [], [], left_s)[0] if left_s > 0 else []
            if not ready:
                return False
            for descriptor in ready:
                data = os.read(descriptor, 1 << 16)
                if not data:
                    opened.discard(descriptor)
                elif descriptor == self._answer:
                    self._lines = (self._lines + data)[:ANSWER_LIMIT]
                else:
                    self._tail = (self._tail + data)[-OUTPUT_LIMIT:]
        return True

    def parts(self) -> Dict[str, Any]:
        """Return the answer's lines as one; a line that was cut off in the middle is left out."""
        merged: Dict[str, Any] = {}
        for line in self._lines.split(b"\n"):
            with suppress(ValueError):
                merged.update(json.loads(line))
        return merged

    def text(self) -> str:
        """Return what was printed, or the end of it."""
        return self._tail.decode("utf-8", "replace")

    def close(self) -> None:
        """Let go of the streams."""
        if self._output:
            self._output.close()
        if self._answer is not None:
            os.close(self._answer)
