"""`vigil logs`, `vigil events` and `vigil operations …`: what happened and what happens."""

from typing import Annotated

import typer

from service.cli.commands.groups import noun
from service.cli.completion import servers
from service.cli.options import (
    DEFAULT_URL,
    JsonOption,
    LimitOption,
    NodeOption,
    ServerOption,
    UrlOption,
    checked_name,
)

operations = noun("What was asked for: how far it has come, and why it failed.")
OperationArgument = Annotated[str, typer.Argument(help="The id of the operation.", callback=checked_name)]


def logs(
    server: Annotated[
        str,
        typer.Argument(
            help="A server, whose newest launch counts, or a launch's id.",
            autocompletion=servers,
            callback=checked_name,
        ),
    ],
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the launch has ended.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=1, max=100_000, help="Begin with the last lines.")
    ] = None,
    contains: Annotated[str | None, typer.Option(help="Only lines with this text; not with --follow.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Print the log of a launch; followed, it survives restarts of the service without losing or repeating a line."""
    from service.cli import logs as command

    if follow and contains:
        raise typer.BadParameter("--contains cannot be followed; use grep --line-buffered")
    raise typer.Exit(command.show(url, command.Wish(server, tail=tail, contains=contains, follows=follow)))


def events(
    *,
    server: ServerOption = None,
    node: NodeOption = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only of this kind, such as server_moved; may be given several times.")
    ] = None,
    after: Annotated[
        int | None, typer.Option(min=0, help="Go on behind this event; 0 begins with the oldest. By default from now.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, in the shapes of the API.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Follow everything that happens, also through restarts of the service."""
    from service.cli import events as command

    raise typer.Exit(command.follow(url, {"server": server, "node": node, "kind": kind}, after=after, as_json=as_json))


@operations.command("list")
def list_operations(
    *,
    server: ServerOption = None,
    state: Annotated[str | None, typer.Option(help="Only operations in this state, such as running.")] = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List the operations, newest first."""
    from service.cli import operations as command

    raise typer.Exit(command.show_all(url, {"server": server, "state": state}, limit=limit, as_json=as_json))


@operations.command()
def show(operation: OperationArgument, *, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Show an operation: its state, and why it failed or what stands in its way."""
    from service.cli import operations as command

    raise typer.Exit(command.show(url, operation, as_json=as_json))


@operations.command()
def cancel(operation: OperationArgument, *, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Cancel what is under way: a launch is stopped with proof, a benchmark's client ended."""
    from service.cli import operations as command

    raise typer.Exit(command.cancel(url, operation, as_json=as_json))
