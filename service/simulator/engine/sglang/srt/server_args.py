"""`prepare_server_args` as the real engine offers it: arguments can be judged without starting anything."""

from __future__ import annotations

import argparse
import builtins
import linecache
from typing import Any, NoReturn, Sequence

from ..arguments import add_arguments, parse_arguments  # noqa: TID252 - the package has another name where it runs
from ..console import Console  # noqa: TID252
from ..resolution import resolve  # noqa: TID252
from ..tracebacks import EngineError, Frame  # noqa: TID252
from ..versions import site_packages, this_version  # noqa: TID252


class ServerArgs:
    """Arguments that were parsed; before 0.5.23 the constructor resolves them, from then on `resolve_once` does."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self._version = this_version()
        if self._version.is_newest:
            self.resolve_once = self._resolve
        else:
            self._resolve()

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Give a parser this version's flags."""
        add_arguments(parser, this_version())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._values, name)

    def _resolve(self) -> None:
        """Resolve the arguments. Raises what a start would raise."""
        try:
            resolve(self._values, self._version, Console(level=self._values.log_level))
        except EngineError as error:
            _raise(error)


def prepare_server_args(argv: Sequence[str]) -> ServerArgs:
    """Parse a command line; argparse's errors exit with 2."""
    try:
        arguments = parse_arguments(argv, this_version())
    except EngineError as error:
        _raise(error)
    return ServerArgs(arguments)


def _raise(error: EngineError) -> NoReturn:
    """Raise the exception that the engine would raise, from the line in which it would."""
    raised = _as_raised(error)
    frame = error.frames[-1] if error.frames else Frame("sglang/srt/server_args.py", 1, "resolve", "")
    path = "%s/%s" % (site_packages(), frame.file)
    linecache.cache[path] = (0, None, ["\n"] * (frame.line - 1) + [frame.code + "\n"], path)
    code = compile("\n" * (frame.line - 1) + "raise raised", path, "exec").replace(co_name=frame.function)
    exec(code, {"raised": raised})  # noqa: S102 - it is one statement, so that its place is in the traceback
    raise raised


def _as_raised(error: EngineError) -> BaseException:
    """Return the exception that a text such as `ValueError: …` stands for; a library's own by its name alone."""
    name, _, message = error.exception.partition(": ")
    module, _, short = name.rpartition(".")
    kind = getattr(builtins, short, None) or type(short, (RuntimeError,), {"__module__": module})
    raised: BaseException = kind(message) if message else kind()
    return raised
