"""`prepare_server_args` as the real engine offers it: arguments can be judged without starting anything."""

from __future__ import annotations

import builtins
from typing import Any, Sequence

from ..arguments import parse_arguments  # noqa: TID252 - the package has another name where it runs
from ..console import Console  # noqa: TID252
from ..resolution import resolve  # noqa: TID252
from ..tracebacks import EngineError  # noqa: TID252
from ..versions import this_version  # noqa: TID252


class ServerArgs:
    """Arguments that were parsed; before 0.5.23 the constructor resolves them, from then on `resolve_once` does."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self._version = this_version()
        if self._version.is_newest:
            self.resolve_once = self._resolve
        else:
            self._resolve()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._values, name)

    def _resolve(self) -> None:
        """Resolve the arguments. Raises what a start would raise."""
        try:
            resolve(self._values, self._version, Console(level=self._values.log_level))
        except EngineError as error:
            raise _as_raised(error) from None


def prepare_server_args(argv: Sequence[str]) -> ServerArgs:
    """Parse a command line; argparse's errors exit with 2."""
    try:
        return ServerArgs(parse_arguments(argv, this_version()))
    except EngineError as error:
        raise _as_raised(error) from None


def _as_raised(error: EngineError) -> BaseException:
    """Return the exception that a text such as `ValueError: …` stands for."""
    name, _, message = error.exception.partition(": ")
    kind = getattr(builtins, name.rpartition(".")[2], RuntimeError)
    return kind(message) if message else kind()
