"""How a verb's result, refusal or failure gets back: one marked line of JSON on standard output."""

from __future__ import annotations

import json
import os
import signal
from typing import Any, BinaryIO, Callable, Dict, Optional

MARK = b"VIGIL1 "
"""What tells our line from whatever the login shell's start-up files print."""


class Refused(Exception):
    """The order cannot be carried out; `code` is one of the control plane's Refusal values."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def run(verb: Callable[..., Any], request: Dict[str, Any], limit_s: Optional[int], channel: BinaryIO) -> None:
    """Run a verb and write its answer. With a limit the process is ended by SIGALRM when it takes longer.

    Without one it is the observer, which speaks for itself and gets the channel for what is told to it later.
    """
    if limit_s is None:
        verb(request, channel)
        return
    signal.alarm(limit_s)
    answer: Dict[str, Any]
    try:
        answer = {"result": verb(request)}
    except Refused as refused:
        answer = {"refused": refused.code, "detail": refused.detail}
    except Exception as error:
        answer = {"failed": "%s: %s" % (type(error).__name__, error)}
    write_all(1, MARK + json.dumps(answer).encode("ascii") + b"\n")


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, however few the kernel takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
