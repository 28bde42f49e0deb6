"""How groups of commands behave: a wrong use ends with code 3, and a noun alone lists what there is."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from service.cli.output import ExitCode

_CLICKS_USAGE_CODE = 2


class OperatorGroup(TyperGroup):
    """The whole command line. A wrong option or argument ends with 3: 2 is for a service that does not answer."""

    def make_context(self, *arguments: Any, **extra: Any) -> typer.Context:
        """Parse what stands before the first command."""
        with _usage_is_three():
            return super().make_context(*arguments, **extra)  # type: ignore[return-value]

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest, and run the command."""
        with _usage_is_three():
            return super().invoke(ctx)


class NounGroup(TyperGroup):
    """The commands of one noun. `vigil servers --json` is `vigil servers list --json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `list` where no command is named."""
        first = args[0] if args else ""
        if not first or (first.startswith("-") and first not in {"--help", "-h"}):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def noun(help_text: str) -> typer.Typer:
    """Return an empty group for the commands of one noun."""
    return typer.Typer(cls=NounGroup, help=help_text)


@contextmanager
def _usage_is_three() -> Generator[None]:
    try:
        yield
    except typer.TyperException as error:
        if error.exit_code == _CLICKS_USAGE_CODE:
            error.exit_code = ExitCode.USAGE
        raise
