"""`vigil apply`."""

from typing import Annotated

import typer

from service.cli.options import DEFAULT_URL, DEFAULT_WAIT_S, JsonOption, TimeoutOption, UrlOption


def apply(
    file: Annotated[str, typer.Option("--file", "-f", help="The fleet in YAML or JSON; - is standard input.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what differs, and change nothing.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove what the file does not name, of the kinds that it has.")
    ] = False,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Stop servers that run, where they cannot be made as the file says otherwise."),
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for what is launched to be ready.")] = False,
    timeout_s: TimeoutOption = DEFAULT_WAIT_S,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Make the fleet as a file says. Code 0: it is so, 1: not all could be done, 3: the file is wrong."""
    from service.cli import apply as command

    options = command.Options(
        is_dry=dry_run,
        prunes=prune,
        restarts=restart,
        wait_s=timeout_s if wait and not dry_run else None,
        as_json=as_json,
    )
    raise typer.Exit(command.apply(url, file, options))
