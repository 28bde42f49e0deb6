"""`vigil servers …`, and the commands that launch, stop and restart one."""

from typing import Annotated

import typer

from service.cli.commands.groups import noun
from service.cli.completion import nodes, profiles
from service.cli.options import (
    DEFAULT_URL,
    DEFAULT_WAIT_S,
    GpusOption,
    JsonOption,
    NodeOption,
    OverrideOption,
    ProfileOption,
    ServerArgument,
    TimeoutOption,
    UrlOption,
    WaitOption,
    chosen_gpus,
)

app = noun("Profiles placed on nodes: list them, look at one, place and remove them.")


@app.command("list")
def list_servers(
    *,
    state: Annotated[str | None, typer.Option(help="Only servers in this state, such as ready or failed.")] = None,
    node: NodeOption = None,
    profile: ProfileOption = None,
    contact: Annotated[str | None, typer.Option(help="Only servers whose node has this contact.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List the servers: state, what they do, where."""
    from service.cli import servers

    wanted = {"state": state, "node": node, "profile": profile, "contact": contact}
    raise typer.Exit(servers.show_all(url, wanted, as_json=as_json))


@app.command()
def show(server: ServerArgument, *, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Show a server: its state with the reason, its launch, and what is wrong with it."""
    from service.cli import servers

    raise typer.Exit(servers.show(url, server, as_json=as_json))


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="How the server is to be called.")],
    profile: Annotated[str, typer.Argument(help="The name of the profile.", autocompletion=profiles)],
    node: Annotated[str, typer.Argument(help="The name of the node.", autocompletion=nodes)],
    *,
    version: Annotated[int | None, typer.Option(min=1, help="Of the profile; the newest by default.")] = None,
    gpus: GpusOption = None,
    gpu_count: Annotated[int | None, typer.Option(min=0, help="So many free GPUs, chosen at each launch.")] = None,
    port: Annotated[int | None, typer.Option(help="The node's first free port by default.")] = None,
    launch: Annotated[bool, typer.Option("--launch", help="Launch it at once.")] = False,
    override: OverrideOption = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Place a profile on a node; with --launch both happen or neither."""
    from service.cli import servers

    wish = {
        "name": name,
        "profile": profile,
        "node": node,
        "version": version,
        "gpus": chosen_gpus(gpus),
        "gpu_count": gpu_count,
        "port": port,
        "launch": launch,
        "override": override or None,
    }
    given = {field: value for field, value in wish.items() if value is not None}
    raise typer.Exit(servers.create(url, given, as_json=as_json))


@app.command()
def adopt(
    name: Annotated[str, typer.Argument(help="How the server, and its new profile, are to be called.")],
    node: Annotated[str, typer.Argument(help="The node it runs on.", autocompletion=nodes)],
    pid: Annotated[int, typer.Argument(help="Its main process; `vigil nodes show` lists what was found.")],
    *,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Take over an engine that runs on a node and that Vigil did not launch; it goes on undisturbed."""
    from service.cli import servers

    raise typer.Exit(servers.adopt(url, {"name": name, "node": node, "pid": pid}, as_json=as_json))


@app.command()
def remove(server: ServerArgument, *, url: UrlOption = DEFAULT_URL) -> None:
    """Remove a server that is stopped, or failed with nothing left; its history stays."""
    from service.cli import servers

    raise typer.Exit(servers.remove(url, server))


def launch(
    server: ServerArgument,
    *,
    version: Annotated[int | None, typer.Option(min=1, help="The profile's version from now on.")] = None,
    override: OverrideOption = None,
    wait: WaitOption = False,
    timeout_s: TimeoutOption = DEFAULT_WAIT_S,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Launch a stopped or failed server. A check that fails refuses it, and says how to override it."""
    from service.cli import starting

    wish = starting.Wish(server, version=version, override=tuple(override or ()))
    raise typer.Exit(starting.begin(url, "launch", wish, wait_s=timeout_s if wait else None, as_json=as_json))


def restart(
    server: ServerArgument,
    *,
    version: Annotated[int | None, typer.Option(min=1, help="The profile's version from now on.")] = None,
    override: OverrideOption = None,
    wait: WaitOption = False,
    timeout_s: TimeoutOption = DEFAULT_WAIT_S,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Stop a server with proof and launch it again. A check that fails leaves it untouched."""
    from service.cli import starting

    wish = starting.Wish(server, version=version, override=tuple(override or ()))
    raise typer.Exit(starting.begin(url, "restart", wish, wait_s=timeout_s if wait else None, as_json=as_json))


def stop(
    server: ServerArgument,
    *,
    wait: WaitOption = False,
    timeout_s: TimeoutOption = DEFAULT_WAIT_S,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Stop a server and prove it gone; of a failed one, sweep what is left and prove again."""
    from service.cli import starting

    wish = starting.Wish(server)
    raise typer.Exit(starting.begin(url, "stop", wish, wait_s=timeout_s if wait else None, as_json=as_json))
