"""`vigil nodes …`."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli.commands.groups import noun
from service.cli.options import DEFAULT_URL, JsonOption, NodeArgument, UrlOption

app = noun("GPU hosts: take them in, trust their keys, look at them, drain them, let them go.")


@app.command("list")
def list_nodes(
    *,
    contact: Annotated[str | None, typer.Option(help="Only nodes with this contact: ok, lost or unknown.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List the nodes: contact, GPUs and how many are free, engines."""
    from service.cli import nodes

    raise typer.Exit(nodes.show_all(url, contact=contact, as_json=as_json))


@app.command()
def show(node: NodeArgument, *, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Show a node: GPUs with their holders, disks, engines, and SGLang that Vigil did not launch."""
    from service.cli import nodes

    raise typer.Exit(nodes.show(url, node, as_json=as_json))


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="How the node is to be called.")],
    login: Annotated[str, typer.Argument(help="Its SSH server.", metavar="USER@ADDRESS[:PORT]")],
    *,
    key_file: Annotated[
        Path | None,
        typer.Option(help="A private key on the machine of the service, mode 600; the service's agent by default."),
    ] = None,
    jump: Annotated[
        str | None, typer.Option(help="An SSH server on the way, with the same key.", metavar="USER@ADDRESS[:PORT]")
    ] = None,
    engine: Annotated[
        list[str] | None, typer.Option(help="A Python on the node that has SGLang; may be given several times.")
    ] = None,
    trust: Annotated[
        str | None, typer.Option(help="Pin the host key that has this fingerprint.", metavar="SHA256:…")
    ] = None,
    trust_on_first_use: Annotated[
        bool, typer.Option("--trust-on-first-use", help="Pin whatever host key is offered now.")
    ] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Take a node in. Vigil logs in once its host key is trusted."""
    from service.cli import nodes

    try:
        body = nodes.body_of(name, login, key_file=key_file, jump=jump, engines=engine or [])
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    body["trust_on_first_use"] = trust_on_first_use
    raise typer.Exit(nodes.add(url, body, fingerprint=trust, as_json=as_json))


@app.command()
def trust(
    node: NodeArgument,
    fingerprint: Annotated[str, typer.Argument(help="Compared with the node's own.", metavar="SHA256:…")],
    *,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Pin the host key that a node offers, after its fingerprint was compared."""
    from service.cli import nodes

    raise typer.Exit(nodes.trust(url, node, fingerprint, as_json=as_json))


@app.command()
def refresh(node: NodeArgument, *, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Look at a node again now, and try to reach one that is out of contact."""
    from service.cli import nodes

    raise typer.Exit(nodes.act(url, node, "refresh", as_json=as_json))


@app.command()
def drain(node: NodeArgument, *, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Take no new launches on a node; what runs goes on."""
    from service.cli import nodes

    raise typer.Exit(nodes.act(url, node, "drain", as_json=as_json))


@app.command()
def undrain(node: NodeArgument, *, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Take launches on a node again."""
    from service.cli import nodes

    raise typer.Exit(nodes.act(url, node, "undrain", as_json=as_json))


@app.command()
def remove(node: NodeArgument, *, url: UrlOption = DEFAULT_URL) -> None:
    """Let a node go. Refused while servers are placed on it; its history stays."""
    from service.cli import nodes

    raise typer.Exit(nodes.remove(url, node))
