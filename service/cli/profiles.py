"""`vigil profiles`: recipes, printed as the YAML that they are written in."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import yaml

from service.cli.asking import Api, Refused, run
from service.cli.differences import changes_of
from service.cli.files import FileWrong, Parsed, read_file
from service.cli.output import ExitCode, note, print_json, say
from service.cli.tables import Column, age, print_page, print_table

Document = Mapping[str, Any]


def show_all(url: str, *, as_json: bool) -> int:
    """Print every profile."""

    async def work(api: Api) -> int:
        page = await api.collect("/profiles")
        print_page(COLUMNS, page, empty="there are no profiles; `vigil profiles create` writes one", as_json=as_json)
        return ExitCode.OK

    return run(url, work)


def show(url: str, profile: str, *, version: int | None, as_json: bool) -> int:
    """Print one recipe."""

    async def work(api: Api) -> int:
        found = await api.get(f"/profiles/{profile}" + (f"/versions/{version}" if version else ""))
        if as_json:
            print_json(found)
        else:
            say(f"# {found.get('profile') or found['name']}, version {found['version']}")
            say(yaml.safe_dump(found["recipe"], sort_keys=False, allow_unicode=True).rstrip())
        return ExitCode.OK

    return run(url, work)


def write(url: str, name: str, path: str, *, is_new: bool, as_json: bool) -> int:
    """Write the first or the next version from a file; an error names the line of the field that it is about."""
    try:
        parsed = read_file(path)
    except FileWrong as error:
        note(str(error))
        return ExitCode.USAGE

    async def work(api: Api) -> int:
        try:
            if is_new:
                made = await api.change("POST", "/profiles", {"name": name, "recipe": parsed.value})
            else:
                made = await api.change("PUT", f"/profiles/{name}", {"recipe": parsed.value})
        except Refused as refusal:
            if not refusal.problem.get("errors"):
                raise
            note("\n".join(_places(parsed, refusal.problem["errors"])))
            return ExitCode.USAGE
        if as_json:
            print_json(made)
        else:
            say(f"{made['name']} is at version {made['version']}")
        return ExitCode.OK

    return run(url, work)


def show_versions(url: str, profile: str, *, as_json: bool) -> int:
    """Print the versions of a profile, and what each changed in the one before."""

    async def work(api: Api) -> int:
        page = await api.collect(f"/profiles/{profile}/versions")
        if as_json:
            print_json(page)
        else:
            print_table(VERSION_COLUMNS, _with_changes(page["items"]), empty="")
        return ExitCode.OK

    return run(url, work)


def remove(url: str, profile: str) -> int:
    """Remove a profile."""

    async def work(api: Api) -> int:
        await api.change("DELETE", f"/profiles/{profile}")
        say(f"{profile} is removed")
        return ExitCode.OK

    return run(url, work)


def _places(parsed: Parsed, errors: Sequence[Document]) -> list[str]:
    """Return the service's errors with the lines of the file; its places begin with `body.recipe`."""
    return [
        parsed.message([int(part) if part.isdigit() else part for part in error["place"].split(".")], error["message"])
        for error in errors
    ]


def _with_changes(versions: Sequence[Document]) -> list[dict[str, Any]]:
    texts = [
        "; ".join(str(change) for change in changes_of(old["recipe"], new["recipe"])) for new, old in pairwise(versions)
    ]
    return [{**version, "changes": text} for version, text in zip(versions, [*texts, "the first"], strict=True)]


COLUMNS = (
    Column("name", lambda profile: profile["name"]),
    Column("version", lambda profile: profile["version"]),
    Column("age", lambda profile: age(profile["version_created_at"]), rank=2),
    Column("gpus", lambda profile: profile["recipe"]["gpu_count"], rank=1),
    Column("model", lambda profile: profile["recipe"]["model_path"]),
    Column("python", lambda profile: profile["recipe"]["python"], rank=3),
)
VERSION_COLUMNS = (
    Column("version", lambda version: version["version"]),
    Column("age", lambda version: age(version["created_at"]), rank=1),
    Column("changes", lambda version: version["changes"]),
)
