"""The commands of `vigil`. Each imports what it needs when it runs, so that a short one starts fast."""

# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

import typer

from service.access.roles import Role
from service.cli.commands import applying, bench, following, nodes, profiles, servers
from service.cli.commands.groups import OperatorGroup
from service.cli.options import (
    DEFAULT_URL,
    GpusOption,
    JsonOption,
    NodeArgument,
    ServerArgument,
    UrlOption,
    checked_name,
    chosen_gpus,
    http_url,
    wait_time,
)

app = typer.Typer(
    name="vigil",
    cls=OperatorGroup,
    help="A control plane for SGLang inference servers on GPU nodes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
tokens = typer.Typer(no_args_is_help=True, help="Let people and programs in, and let them in no more.")
app.add_typer(tokens, name="token")
app.add_typer(nodes.app, name="nodes")
app.add_typer(profiles.app, name="profiles")
app.add_typer(servers.app, name="servers")
app.add_typer(following.operations, name="operations")
app.add_typer(bench.app, name="bench")
ServiceOption = Annotated[
    str | None,
    typer.Option(
        "--url", callback=http_url, help="Through the service there; by default in the database on this machine."
    ),
]


@app.callback()
def _(
    token_file: Annotated[
        Path | None,
        typer.Option(envvar="VIGIL_TOKEN_FILE", help="A file of mode 600 with the token; or set VIGIL_TOKEN."),
    ] = None,
) -> None:
    from service.cli.credentials import TokenUnusable, headers, use_token_file

    try:
        if token_file is not None:
            use_token_file(token_file)
        headers()
    except TokenUnusable as error:
        raise typer.BadParameter(str(error)) from error


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on; loopback by default.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The port to listen on; 8080 by default.")] = None,
) -> None:
    """Run the service. Settings come from VIGIL_… variables."""
    from service.cli.serving import serve_until_ended
    from service.db.holding import DatabaseInUse
    from service.operations.opening import UnsafeSettings
    from service.settings import Settings

    given = {name: value for name, value in {"host": host, "port": port}.items() if value is not None}
    try:
        serve_until_ended(Settings().model_copy(update=given))
    except (UnsafeSettings, DatabaseInUse) as error:
        typer.echo(f"not started: {error}", err=True)
        raise typer.Exit(2) from error


@app.command()
def demo(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on.")] = 8080,
    once: Annotated[
        bool, typer.Option("--once", help="Take the tour and end, with exit code 0 if all went well.")
    ] = False,
) -> None:
    """Run the service on an embedded fleet of simulated nodes, and launch a server there."""
    from service.cli import demo as demo_command

    raise typer.Exit(demo_command.run(port=port, once=once))


@app.command()
def openapi(
    output: Annotated[Path | None, typer.Argument(help="The file to write; standard output by default.")] = None,
) -> None:
    """Write the OpenAPI document."""
    from service.api.openapi import as_text
    from service.app import create_app
    from service.settings import Settings

    text = as_text(create_app(Settings()))
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{output} cannot be written: {error.strerror}") from error


@app.command()
def diagnose(
    files: Annotated[list[str], typer.Argument(help="Logs of SGLang; - is standard input.", metavar="FILE...")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a file.")] = False,
) -> None:
    """Read logs of SGLang, with no service or node: how far each start came, and why it failed."""
    from service.cli.diagnose import diagnose_files

    raise typer.Exit(diagnose_files(files, as_json=as_json))


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; mode 600, whole or not at all.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Copy the SQLite database that the settings name, as it is at one moment, while the service runs."""
    from service.cli import backup as command

    raise typer.Exit(command.write(file, replaces=force))


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `vigil backup` wrote.")],
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the database that is there; it is kept aside.")
    ] = False,
) -> None:
    """Make a backup the database that the settings name; the service must not run."""
    from service.cli import backup as command

    raise typer.Exit(command.put_back(file, replaces=force))


for command in (
    servers.launch,
    servers.stop,
    servers.restart,
    following.logs,
    following.events,
    applying.apply,
    bench.compare,
):
    app.command()(command)


@app.command()
def wait(
    server: ServerArgument,
    *,
    until: Annotated[str, typer.Option(help="ready or stopped.")] = "ready",
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0, callback=wait_time, help="Seconds to wait at most.")
    ] = 900,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Wait for a server with a live line; exit code 0: it is there, 1: it failed or never will, 2: time is up."""
    from service.cli import waiting

    raise typer.Exit(waiting.run(url=url, server=server, until=until, timeout_s=timeout_s, as_json=as_json))


@app.command()
def preflight(
    profile: Annotated[str | None, typer.Argument(help="The name of the profile.")] = None,
    node: Annotated[str | None, typer.Argument(help="The node it would run on.")] = None,
    *,
    server: Annotated[str | None, typer.Option(help="Instead: the next launch of this server.")] = None,
    gpus: GpusOption = None,
    port: Annotated[int | None, typer.Option(help="The port; by default the node's first free one.")] = None,
    shows_all: Annotated[bool, typer.Option("--all", help="Show what passed, too.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Check what a launch would run into, launching nothing; exit code 0: it may be launched, 1: a check fails."""
    from service.cli import preflight as command

    wish = {"server": server, "profile": profile, "node": node, "gpus": chosen_gpus(gpus), "port": port}
    given = {name: value for name, value in wish.items() if value is not None}
    raise typer.Exit(command.show(url=url, wish=given, as_json=as_json, shows_all=shows_all))


@app.command("draft-rename")
def draft_rename(  # what an operator may say
    node: NodeArgument,
    source: Annotated[str, typer.Argument(help="The draft's directory on the node, or a hub id in its cache.")],
    destination: Annotated[str, typer.Argument(help="The new directory on the node; it must not exist.")],
    *,
    profile: Annotated[str | None, typer.Option(help="Rename for the engine of this profile.")] = None,
    engine_version: Annotated[str | None, typer.Option(help="Rename for this version of SGLang.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be renamed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Write a draft anew under the names that an engine loads; code 0: done, 1: refused, 2: no answer, 3: wrong."""
    from service.cli import draft_rename as command

    wish = {"source": source, "destination": destination, "dry_run": dry_run}
    engine = {"profile": profile, "engine_version": engine_version}
    body = wish | {name: value for name, value in engine.items() if value is not None}
    raise typer.Exit(command.run(url=url, node=node, body=body, as_json=as_json))


@tokens.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Stands with everything that is done with the token.")],
    *,
    role: Annotated[Role, typer.Option(help="What it may do.")],
    expires_days: Annotated[float | None, typer.Option(min=0.01, max=36500, help="After so many days.")] = None,
    url: ServiceOption = None,
) -> None:
    """Make a token: it is printed this once. Code 0: done, 1: refused, 2: no answer."""
    from service.cli import tokens as command

    raise typer.Exit(command.create(name, role=role, days=expires_days, url=url))


@tokens.command("list")
def list_tokens(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as it is.")] = False,
    url: ServiceOption = None,
) -> None:
    """List the tokens that are not revoked: whose, which role, when last used."""
    from service.cli import tokens as command

    raise typer.Exit(command.show(as_json=as_json, url=url))


@tokens.command("revoke")
def revoke_token(
    name: Annotated[str, typer.Argument(help="The name or id of the token.", callback=checked_name)],
    *,
    url: ServiceOption = None,
) -> None:
    """Revoke a token for good; at once with --url, in the database within 5 seconds."""
    from service.cli import tokens as command

    raise typer.Exit(command.revoke(name, url=url))
