"""One command on a simulated node: a real process in its own session, its three streams carried by callbacks.

As under OpenSSH: the channel ends when the process has ended and nobody holds its output any more; when the channel
is lost the process lives on, its input ends, and writing to its output fails.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

READ_SIZE = 64 * 1024
INPUT_LIMIT = 256 * 1024
"""How many bytes of input may wait for the process before the sender is asked to pause."""


class Far(Protocol):
    """Who is at the other end of a command's streams."""

    def output(self, stream: int, data: bytes) -> None:
        """Take bytes of stream 1 (output) or 2 (error)."""

    def input_full(self, *, is_full: bool) -> None:
        """Pause or resume sending input."""

    def ended(self, returncode: int) -> None:
        """Learn that the process ended and its streams are closed; negative means a signal."""


class Command:
    """A running `/bin/sh -c COMMAND`. All methods are called on the event loop's thread."""

    def __init__(self, command: str, *, home: Path, environment: Mapping[str, str], far: Far) -> None:
        self._far: Far | None = far
        self._loop = asyncio.get_running_loop()
        self._pending_input = bytearray()
        self._is_input_over = False
        self._is_full = False
        self._are_outputs_paused = False
        child_ends, own_ends = _pipes()
        self._input: int | None = own_ends[0]
        self._outputs = {own_ends[1]: 1, own_ends[2]: 2}
        try:
            self._process = subprocess.Popen(  # noqa: S603 - running what the client asks for is what sshd does
                ["/bin/sh", "-c", command],
                stdin=child_ends[0],
                stdout=child_ends[1],
                stderr=child_ends[2],
                cwd=home,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError:
            for descriptor in own_ends:
                os.close(descriptor)
            raise
        finally:
            for descriptor in child_ends:
                os.close(descriptor)
        self._exit_watch: int | None = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._exit_watch, self._process_ended)
        self._watch_outputs()

    @property
    def is_over(self) -> bool:
        """Whether the process has ended and been collected."""
        return self._exit_watch is None

    def feed(self, data: bytes) -> None:
        """Give bytes to the process's input."""
        if self._input is None or self._is_input_over:
            return
        self._pending_input += data
        self._write_input()

    def end_input(self) -> None:
        """Close the process's input once all bytes have been taken."""
        self._is_input_over = True
        if not self._pending_input:
            self._close_input()

    def pause_output(self) -> None:
        """Read no more output, so that the process blocks when its pipes are full."""
        self._are_outputs_paused = True
        for descriptor in self._outputs:
            self._loop.remove_reader(descriptor)

    def resume_output(self) -> None:
        """Read output again."""
        self._are_outputs_paused = False
        self._watch_outputs()

    def signal(self, number: int) -> None:
        """Send a signal to the shell alone, as sshd does."""
        if self._process.returncode is None:
            os.kill(self._process.pid, number)

    def detach(self) -> None:
        """Let go of the streams: the far end is gone and the process goes on without it."""
        self._far = None
        self._pending_input.clear()
        self._close_input()
        for descriptor in tuple(self._outputs):
            self._close_output(descriptor)

    def bury(self) -> None:
        """Stop watching altogether and collect the process, which the fleet has killed."""
        self.detach()
        self._process_ended()

    def _watch_outputs(self) -> None:
        for descriptor in self._outputs:
            self._loop.add_reader(descriptor, self._read, descriptor)

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, READ_SIZE)
        except BlockingIOError:
            return
        if not data:
            self._close_output(descriptor)
            self._settle()
        elif self._far is not None:
            self._far.output(self._outputs[descriptor], data)

    def _write_input(self) -> None:
        if self._input is None:
            return
        try:
            written = os.write(self._input, self._pending_input)
        except BlockingIOError:
            written = 0
        except BrokenPipeError:
            self._pending_input.clear()
            self._close_input()
            return
        del self._pending_input[:written]
        if self._pending_input:
            self._loop.add_writer(self._input, self._write_input)
        else:
            self._loop.remove_writer(self._input)
            if self._is_input_over:
                self._close_input()
        self._say_whether_full()

    def _say_whether_full(self) -> None:
        is_full = len(self._pending_input) > INPUT_LIMIT
        if is_full == self._is_full or self._far is None:
            return
        self._is_full = is_full  # set first: to resume may feed more input before it returns
        self._far.input_full(is_full=is_full)

    def _close_input(self) -> None:
        if self._input is not None:
            self._loop.remove_writer(self._input)
            os.close(self._input)
            self._input = None

    def _close_output(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        del self._outputs[descriptor]

    def _process_ended(self) -> None:
        if self._exit_watch is None:
            return
        self._loop.remove_reader(self._exit_watch)
        os.close(self._exit_watch)
        self._exit_watch = None
        self._process.wait()
        self._settle()

    def _settle(self) -> None:
        if self._exit_watch is None and not self._outputs and self._far is not None:
            self._close_input()
            far, self._far = self._far, None
            far.ended(self._process.returncode)


def _pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return the child's three ends and our three ends; ours do not block."""
    child_in, own_in = os.pipe()
    own_out, child_out = os.pipe()
    own_err, child_err = os.pipe()
    for descriptor in (own_in, own_out, own_err):
        os.set_blocking(descriptor, False)
    return (child_in, child_out, child_err), (own_in, own_out, own_err)
