"""`vigil operations`: what was asked for, how far it has come, and why it failed."""

from collections.abc import Mapping
from typing import Any

from service.cli.asking import Api, run
from service.cli.output import ExitCode, print_json, problem_line, say
from service.cli.tables import STATE_STYLES, Column, age, print_facts, print_page

Document = Mapping[str, Any]


def show_all(url: str, wanted: Mapping[str, str | None], *, limit: int, as_json: bool) -> int:
    """Print the newest operations that are wanted."""

    async def work(api: Api) -> int:
        page = await api.collect("/operations", limit=limit, filters=wanted)
        print_page(COLUMNS, page, empty="there are no such operations", as_json=as_json)
        return ExitCode.OK

    return run(url, work)


def show(url: str, operation: str, *, as_json: bool) -> int:
    """Print one operation."""

    async def work(api: Api) -> int:
        found = await api.get(f"/operations/{operation}")
        if as_json:
            print_json(found)
        else:
            _print(found)
        return ExitCode.OK

    return run(url, work)


def cancel(url: str, operation: str, *, as_json: bool) -> int:
    """Cancel what is under way; the answer is the operation that does it."""

    async def work(api: Api) -> int:
        follow = await api.change("POST", f"/operations/{operation}/cancel")
        if as_json:
            print_json(follow)
        else:
            say(f"operation {follow['id']}: {follow['kind']} of {follow['server']}, {follow['step']}")
        return ExitCode.OK

    return run(url, work)


def _print(operation: Document) -> None:
    problem = operation["problem"]
    print_facts(
        [
            ("operation", operation["id"]),
            ("kind", operation["kind"]),
            ("server", operation["server"]),
            ("launch", operation["launch_id"]),
            ("state", operation["state"]),
            ("step", operation["step"]),
            ("asked by", operation["actor"]),
            ("begun", operation["created_at"]),
            ("ended", operation["ended_at"]),
            ("problem", problem and problem_line(problem)),
        ]
    )


COLUMNS = (
    Column("id", lambda operation: operation["id"]),
    Column("kind", lambda operation: operation["kind"], rank=1),
    Column("server", lambda operation: operation["server"]),
    Column("state", lambda operation: operation["state"], styles=STATE_STYLES),
    Column("step", lambda operation: operation["step"], rank=2),
    Column("begun", lambda operation: age(operation["created_at"]), rank=3),
    Column("asked by", lambda operation: operation["actor"], rank=4),
    Column("problem", lambda operation: (operation["problem"] or {}).get("code"), rank=1),
)
