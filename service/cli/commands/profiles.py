"""`vigil profiles …`."""

from typing import Annotated

import typer

from service.cli.commands.groups import noun
from service.cli.options import DEFAULT_URL, JsonOption, ProfileArgument, UrlOption

app = noun("Recipes for servers, in versions.")
FileOption = Annotated[
    str, typer.Option("--file", "-f", help="The recipe in YAML or JSON; - is standard input.", metavar="FILE")
]


@app.command("list")
def list_profiles(*, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """List the profiles with their newest version."""
    from service.cli import profiles

    raise typer.Exit(profiles.show_all(url, as_json=as_json))


@app.command()
def show(
    profile: ProfileArgument,
    *,
    version: Annotated[int | None, typer.Option(min=1, help="The newest by default.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Print a recipe as YAML, which `vigil profiles update` takes back."""
    from service.cli import profiles

    raise typer.Exit(profiles.show(url, profile, version=version, as_json=as_json))


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="How the profile is to be called.")],
    file: FileOption,
    *,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Write the first version of a recipe."""
    from service.cli import profiles

    raise typer.Exit(profiles.write(url, name, file, is_new=True, as_json=as_json))


@app.command()
def update(
    profile: ProfileArgument, file: FileOption, *, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL
) -> None:
    """Write the next version; servers stay at theirs. The same recipe makes no version."""
    from service.cli import profiles

    raise typer.Exit(profiles.write(url, profile, file, is_new=False, as_json=as_json))


@app.command()
def versions(profile: ProfileArgument, *, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """List the versions of a profile, newest first, and what each changed."""
    from service.cli import profiles

    raise typer.Exit(profiles.show_versions(url, profile, as_json=as_json))


@app.command()
def remove(profile: ProfileArgument, *, url: UrlOption = DEFAULT_URL) -> None:
    """Remove a profile. Refused while servers use it."""
    from service.cli import profiles

    raise typer.Exit(profiles.remove(url, profile))
