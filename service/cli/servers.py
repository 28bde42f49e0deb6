"""`vigil servers`: what runs where and how it does, and the placing and removing of servers."""

from collections.abc import Mapping
from typing import Any

from service.cli.asking import Api, Refused, run
from service.cli.output import ExitCode, print_json, say
from service.cli.preflight import tell_refusal
from service.cli.tables import STATE_STYLES, Column, age, print_facts, print_page
from service.cli.waiting import describe

Document = Mapping[str, Any]


def show_all(url: str, wanted: Mapping[str, str | None], *, as_json: bool) -> int:
    """Print every server that is wanted."""

    async def work(api: Api) -> int:
        page = await api.collect("/servers", filters=wanted)
        print_page(COLUMNS, page, empty="there are no such servers; `vigil servers create` places one", as_json=as_json)
        return ExitCode.OK

    return run(url, work)


def show(url: str, server: str, *, as_json: bool) -> int:
    """Print one server."""

    async def work(api: Api) -> int:
        found = await api.get(f"/servers/{server}")
        if as_json:
            print_json(found)
        else:
            _print(found)
        return ExitCode.OK

    return run(url, work)


def create(url: str, wish: dict[str, Any], *, as_json: bool) -> int:
    """Place a server, and launch it where that is wished for."""

    async def work(api: Api) -> int:
        try:
            made = await api.change("POST", "/servers", wish)
        except Refused as refusal:
            again = ["vigil servers create", wish["name"], wish["profile"], wish["node"], "--launch"]
            return tell_refusal(refusal, " ".join(again), overridden=wish.get("override", ()))
        if as_json:
            print_json(made)
        else:
            server = made["server"]
            began = f"; operation {made['operation']['id']} launches it" if made["operation"] else ""
            say(f"{server['name']} is placed on {server['node']}:{server['port']}{began}")
        return ExitCode.OK

    return run(url, work)


def adopt(url: str, wish: dict[str, Any], *, as_json: bool) -> int:
    """Take over an engine that runs."""

    async def work(api: Api) -> int:
        made = await api.change("POST", "/servers/adopt", wish)
        if as_json:
            print_json(made)
        else:
            say(f"{made['name']} is {made['state']} on {made['node']}:{made['port']}")
        return ExitCode.OK

    return run(url, work)


def remove(url: str, server: str) -> int:
    """Remove a server."""

    async def work(api: Api) -> int:
        await api.change("DELETE", f"/servers/{server}")
        say(f"{server} is removed")
        return ExitCode.OK

    return run(url, work)


def _print(server: Document) -> None:
    launch = server["launch"] or {}
    diagnosis = launch.get("diagnosis") or {}
    operation = server["operation"]
    print_facts(
        [
            ("server", server["name"]),
            ("state", server["state"]),
            ("since", f"{age(server['state_since_at'])} ago"),
            ("reason", server["reason"]),
            ("", server["message"]),
            ("now", describe(server) if server["state"] == "starting" else None),
            ("under way", operation and f"{operation['kind']} ({operation['id']}), {operation['step']}"),
            ("address", f"{server['node']}:{server['port']}"),
            ("contact", server["contact"]["state"]),
            ("seen", server["observed_at"] and f"{age(server['observed_at'])} ago"),
            ("profile", f"{server['profile']}, version {server['profile_version']}"),
            ("gpus", _gpus(server)),
            ("launch", launch and f"{launch['id']}, the {launch['number']}. of this server"),
            ("pid", launch.get("pid")),
            ("exit code", launch.get("exit_code")),
            ("verdict", server["verdict"] and server["verdict"]["verdict"]),
            ("", server["verdict"] and server["verdict"]["message"]),
            ("cause", diagnosis and f"{diagnosis['code']} ({diagnosis['confidence']} confidence)"),
            ("", diagnosis and diagnosis["summary"]),
            *(("", f"log line {line['line']}: {line['text']}") for line in diagnosis.get("evidence", ())),
            ("remedy", diagnosis and diagnosis["remedy"]),
            *((("finding"), f"{finding['code']}: {finding['summary']}") for finding in server["findings"]),
        ]
    )


def _gpus(server: Document) -> str:
    given = (server["launch"] or {}).get("gpus") or []
    if given:
        return ", ".join(f"{gpu['index']} ({gpu['name']})" for gpu in given)
    pinned = server["pinned_gpus"]
    return ", ".join(str(gpu) for gpu in pinned) if pinned else f"{server['gpu_count']} of the node's free ones"


def _doing(server: Document) -> str:
    """Return what a server does or suffers, in few words."""
    launch = server["launch"] or {}
    match server["state"]:
        case "starting":
            progress = launch.get("progress")
            part = f" {progress['done']}/{progress['total']}" if progress else ""
            verdict = (server["verdict"] or {}).get("verdict", "")
            return f"{(launch.get('phase') or '').replace('_', ' ')}{part} {verdict.replace('_', ' ')}".strip()
        case "failed":
            return (launch.get("diagnosis") or {}).get("code") or server["reason"] or ""
        case _:
            return ", ".join(finding["code"] for finding in server["findings"])


def _eta(server: Document) -> str:
    left = server["eta"]
    if left and left["is_overdue"]:
        return "longer than ever"
    return f"{left['remaining_p50_s']:.0f}-{left['remaining_p90_s']:.0f}s" if left else ""


COLUMNS = (
    Column("name", lambda server: server["name"]),
    Column("state", lambda server: server["state"], styles=STATE_STYLES),
    Column("since", lambda server: age(server["state_since_at"]), rank=2),
    Column("doing", _doing, rank=1),
    Column("ready in", _eta, rank=5),
    Column("node", lambda server: f"{server['node']}:{server['port']}", rank=3),
    Column("contact", lambda server: server["contact"]["state"], rank=4, styles=STATE_STYLES),
    Column("profile", lambda server: f"{server['profile']}@{server['profile_version']}", rank=3),
)
