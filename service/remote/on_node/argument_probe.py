"""Runs inside the engine's own Python: parses and resolves a launch's arguments with the engine's code, starts nothing.

The GPUs are hidden from this process. What torch would ask the driver is answered from the facts of the request, and
whoever asks for more than facts gets `NotTouched`; whoever goes to the network gets `Withheld`. Both are reasons of the
looking, so an error that comes of them is told as "not judged". Sent to the engine as text; standard library only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import linecache
import logging
import os
import re
import signal
import socket
import sys
import time
from contextlib import suppress
from types import ModuleType, TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .probe_gpus import NotTouched, stand_in
from .probe_parser import options, parse_errors, raise_parse_error

PACKAGE = "sglang"
PROBE_FILES = "<vigil_probe"
SERVER_ARGS = "sglang.srt.server_args"
PLUGINS = "sglang.srt.plugins"
CHAIN_LIMIT = 20
WARNINGS_LIMIT = 40
TEXT_LIMIT = 2000
PAINT = re.compile(r"\x1b\[[0-9;]*m")
DEVICE_PACKAGES = ("torch", "triton", "pynvml", "flashinfer", "sgl_kernel", "deep_gemm", "cupy", "numba", "cuda")
"""Packages whose errors, with the GPUs hidden, say nothing of the arguments."""
DEVICE_TEXT = re.compile(
    r"No accelerator|NVIDIA driver|CUDA error:|CUDA driver|No CUDA GPUs|not compiled with CUDA|active drivers|libcuda"
)
OFFLINE_ERRORS = ("LocalEntryNotFoundError", "OfflineModeIsEnabled")
LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104 - names, nothing is bound


class Withheld(ConnectionError):
    """The network was wanted."""


def main(request: Dict[str, Any], say: Callable[[Dict[str, Any]], None]) -> None:
    """Judge `argv` with the engine of this Python; each part of the answer is said as soon as it is known.

    `gpus` are the facts of the GPUs that the launch would see; `is_offline` says that only we forbade downloads, and
    `has_gpus` that this machine has GPUs, whether or not the launch gets any.
    """
    signal.alarm(request["limit_s"])
    sys.argv = ["launch_server.py", *request["argv"]]
    sys.addaudithook(_withhold_network)
    notes = _Notes()
    version = _version()
    say({"version": version})
    if version is None:
        return
    began = time.monotonic()
    try:
        told = stand_in(request["gpus"])
        server_args = importlib.import_module(SERVER_ARGS)
        prepare, server_class = server_args.prepare_server_args, server_args.ServerArgs
        _load_plugins()
        parser = argparse.ArgumentParser(prog="sglang serve")
        server_class.add_cli_args(parser)
    except Exception as error:
        reason = _reason_of_the_looking(error, request)
        say({"import_error": _described(error), "unjudged": reason, "is_interface": _is_interface(error)})
        return
    say({"imports_s": time.monotonic() - began, "stand_in": told, "options": options(parser)})
    notes.is_open = True
    argparse.ArgumentParser.error = raise_parse_error  # type: ignore[method-assign, assignment]  # it must not exit
    began = time.monotonic()
    errors = list(parse_errors(parser, request["argv"]))
    say({"parse_s": time.monotonic() - began, "parse_errors": errors, "warnings": notes.texts()})
    if errors:
        return
    began = time.monotonic()
    answer: Dict[str, Any] = {"is_resolved": True, "error": None, "unjudged": None}
    try:
        _resolve(prepare(request["argv"]))
    except (Exception, SystemExit) as error:
        answer["error"] = _described(error)
        answer["unjudged"] = _reason_of_the_looking(error, request)
    say(dict(answer, resolve_s=time.monotonic() - began, warnings=notes.texts()))


def _version() -> Optional[str]:
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version(PACKAGE))
    except metadata.PackageNotFoundError:
        return None


def _withhold_network(event: str, details: Tuple[Any, ...]) -> None:
    """Stop what would leave this machine; a datagram socket that is connected sends nothing."""
    if event == "socket.connect":
        sock, address = details
        is_far = isinstance(address, tuple) and address[0] not in LOOPBACK
        if is_far and getattr(sock, "type", None) != socket.SOCK_DGRAM:
            raise Withheld("a preflight does not go to %s" % (address[0],))
    elif event == "socket.getaddrinfo" and details[0]:
        host = details[0].decode("ascii", "replace") if isinstance(details[0], bytes) else str(details[0])
        is_number = host.replace(".", "").isdecimal() or ":" in host
        if not is_number and host not in (*LOOPBACK, socket.gethostname()):
            raise Withheld("a preflight does not look for %s" % host)


def _load_plugins() -> None:
    """Load what a start loads first, where this release has plug-ins."""
    try:
        plugins: Optional[ModuleType] = importlib.import_module(PLUGINS)
    except ModuleNotFoundError:
        plugins = None
    load = getattr(plugins, "load_plugins", None)
    if load is not None:
        load()


def _resolve(server_args: Any) -> None:
    """Do what a start does with parsed arguments before it spawns: newer releases resolve here, older ones check."""
    resolve = getattr(server_args, "resolve_once", None)
    check = getattr(server_args, "check_server_args", None)
    if resolve is not None:
        resolve()
    elif check is not None:
        check()


def _reason_of_the_looking(error: BaseException, request: Dict[str, Any]) -> Optional[str]:
    """Return why an error says nothing of the arguments, None when a start would end with it as well."""
    chain = list(_chain(error))
    for one in chain:
        if isinstance(one, NotTouched):
            return "the engine wanted more of a GPU than can be told without touching it: %s" % one
        if isinstance(one, Withheld):
            return "the engine wanted to go to the network, which a preflight does not: %s" % one
        if request["is_offline"] and type(one).__name__ in OFFLINE_ERRORS:
            return "a model that is named by its hub id is not on this node, and a preflight downloads nothing"
    if request["has_gpus"] or request["gpus"]:
        innermost = _frames(error)[-1:]
        package = _short(innermost[0][0]).split(os.sep)[0] if innermost else ""
        if package in DEVICE_PACKAGES or DEVICE_TEXT.search(str(error)):
            return "the GPUs are hidden while arguments are judged, and the engine ended with %s: %s" % (
                type(error).__name__,
                str(error)[:300],
            )
    return None


def _chain(error: Optional[BaseException]) -> Iterator[BaseException]:
    seen = 0
    while error is not None and seen < CHAIN_LIMIT:
        yield error
        error = error.__cause__ or error.__context__
        seen += 1


def _is_interface(error: BaseException) -> bool:
    """Tell whether the engine was imported and only has other names inside than those that are known."""
    return isinstance(error, (AttributeError, ModuleNotFoundError)) and (
        getattr(error, "name", None) in (SERVER_ARGS, "prepare_server_args", "ServerArgs", "add_cli_args")
    )


def _described(error: BaseException) -> Dict[str, Any]:
    """Return the exception with the engine's innermost line; another package's where the engine has none in it."""
    kind = type(error)
    answer: Dict[str, Any] = {
        "kind": kind.__name__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__name__),
        "message": str(error)[:TEXT_LIMIT],
        "file": None,
        "line": None,
        "function": None,
        "source": None,
    }
    frames = _frames(error)
    own = [frame for frame in frames if _short(frame[0]).startswith(PACKAGE + os.sep)]
    for file, line, function in (own or frames)[-1:]:
        source = linecache.getline(file, line).strip()[:300] or None
        answer.update(file=_short(file), line=line, function=function, source=source)
    return answer


def _frames(error: BaseException) -> List[Tuple[str, int, str]]:
    """Return file, line and function of each frame behind this probe, outermost first."""
    found = []
    trace: Optional[TracebackType] = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(PROBE_FILES):
            found.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return found


def _short(path: str) -> str:
    """Return a file's path below site-packages, or below the folder that the engine lies in."""
    for mark in ("/site-packages/", "/dist-packages/"):
        if mark in path:
            return path.rpartition(mark)[2]
    at = path.rfind("/%s/" % PACKAGE)
    return path if at < 0 else path[at + 1 :]


class _Notes:
    """Keeps the warnings that are logged from a moment on, each once, whatever the engine makes of its handlers."""

    def __init__(self) -> None:
        self.is_open = False
        self._texts: Dict[str, None] = {}
        self._make = logging.getLogRecordFactory()
        logging.setLogRecordFactory(self._note)

    def texts(self) -> List[str]:
        """Return what was kept so far."""
        return list(self._texts)

    def _note(self, *call: Any, **named: Any) -> logging.LogRecord:
        record = self._make(*call, **named)
        if self.is_open and record.levelno >= logging.WARNING and len(self._texts) < WARNINGS_LIMIT:
            with suppress(Exception):  # a record whose text cannot be made is the engine's own slip
                self._texts[PAINT.sub("", record.getMessage())[:TEXT_LIMIT]] = None
        return record


def answer_to(descriptor: int) -> Callable[[Dict[str, Any]], None]:
    """Return what writes a part of the answer as one line of JSON."""

    def say(part: Dict[str, Any]) -> None:
        data = json.dumps(part).encode("ascii") + b"\n"
        while data:
            data = data[os.write(descriptor, data) :]

    return say
