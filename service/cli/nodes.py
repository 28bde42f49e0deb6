"""`vigil nodes`: the hosts, as tables, and what is done with them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.cli.asking import Api, run
from service.cli.output import ExitCode, note, print_json, say
from service.cli.tables import NONE, STATE_STYLES, Column, age, print_facts, print_page, print_table

Document = Mapping[str, Any]
_LOGIN = re.compile(r"(?P<user>[^@\s]+)@(?P<address>\[[^\]\s]+\]|[^:\s\[\]]+)(?::(?P<port>\d+))?")


def show_all(url: str, *, contact: str | None, as_json: bool) -> int:
    """Print every node."""

    async def work(api: Api) -> int:
        page = await api.collect("/nodes", filters={"contact": contact})
        print_page(COLUMNS, page, empty="there are no nodes; `vigil nodes add` takes one in", as_json=as_json)
        return ExitCode.OK

    return run(url, work)


def show(url: str, node: str, *, as_json: bool) -> int:
    """Print one node with all that was found on it."""

    async def work(api: Api) -> int:
        _print(await api.get(f"/nodes/{node}"), as_json=as_json)
        return ExitCode.OK

    return run(url, work)


def body_of(name: str, login: str, *, key_file: Path | None, jump: str | None, engines: list[str]) -> dict[str, Any]:
    """Return the body of POST /nodes; ValueError where a login is not USER@ADDRESS[:PORT]."""
    credential = {"kind": "agent"} if key_file is None else {"kind": "key_file", "path": str(key_file)}
    body = {"name": name, **_login(login), "credential": credential, "engines": engines}
    if jump is not None:
        body["jump"] = {**_login(jump), "credential": credential}
    return body


def add(url: str, body: dict[str, Any], *, fingerprint: str | None, as_json: bool) -> int:
    """Take a node in, and pin its key where its fingerprint is given."""

    async def work(api: Api) -> int:
        made = await api.change("POST", "/nodes", body)
        if fingerprint is not None:
            made = await api.change("POST", f"/nodes/{made['name']}/trust", {"fingerprint": fingerprint})
        _told(made, "added", as_json=as_json)
        return ExitCode.OK

    return run(url, work)


def trust(url: str, node: str, fingerprint: str, *, as_json: bool) -> int:
    """Pin the key that a node offers."""

    async def work(api: Api) -> int:
        found = await api.change("POST", f"/nodes/{node}/trust", {"fingerprint": fingerprint})
        _told(found, "trusted", as_json=as_json)
        return ExitCode.OK

    return run(url, work)


def act(url: str, node: str, action: str, *, as_json: bool) -> int:
    """Refresh, drain or undrain a node."""

    async def work(api: Api) -> int:
        found = await api.change("POST", f"/nodes/{node}/{action}")
        if as_json:
            print_json(found)
        elif action == "refresh":
            _print(found, as_json=False)
        else:
            say(f"{found['name']} is {'draining' if found['is_draining'] else 'taking launches'}")
        return ExitCode.OK

    return run(url, work)


def remove(url: str, node: str) -> int:
    """Let a node go."""

    async def work(api: Api) -> int:
        await api.change("DELETE", f"/nodes/{node}")
        say(f"{node} is removed")
        return ExitCode.OK

    return run(url, work)


def _told(node: Document, done: str, *, as_json: bool) -> None:
    """Say what was done, and what is left to do before Vigil logs in."""
    if as_json:
        print_json(node)
    else:
        say(f"{node['name']} is {done}")
    offered = node["offered_host_key"]
    if offered is not None:
        note(
            "its host key waits: compare the fingerprint with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` there,"
            f" then: vigil nodes trust {node['name']} {offered['fingerprint']}"
        )


def _login(text: str) -> dict[str, Any]:
    found = _LOGIN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not USER@ADDRESS or USER@ADDRESS:PORT")
    login = {"user": found["user"], "address": found["address"].strip("[]")}
    return {**login, "port": int(found["port"])} if found["port"] else login


def _print(node: Document, *, as_json: bool) -> None:
    if as_json:
        print_json(node)
        return
    inventory = node["inventory"]
    print_facts(
        [
            ("node", node["name"]),
            ("login", f"{node['user']}@{node['address']}:{node['port']}"),
            ("jump host", node["jump"] and f"{node['jump']['user']}@{node['jump']['address']}:{node['jump']['port']}"),
            ("contact", node["contact"]["state"]),
            ("", node["contact"]["detail"]),
            ("host key", node["host_key"] and node["host_key"]["fingerprint"]),
            ("offered key", node["offered_host_key"] and node["offered_host_key"]["fingerprint"]),
            ("draining", "yes" if node["is_draining"] else None),
            *(_machine(inventory) if inventory else []),
        ]
    )
    if not inventory:
        return
    if inventory["gpus"]:
        say("")
        print_table(GPU_COLUMNS, inventory["gpus"], empty="")
    if inventory["engines"]:
        say("")
        print_table(ENGINE_COLUMNS, inventory["engines"], empty="")
    if inventory["found_engines"]:
        say("\nSGLang that Vigil did not launch; `vigil servers adopt NAME NODE PID` takes it over:")
        print_table(FOUND_COLUMNS, inventory["found_engines"], empty="")


def _machine(inventory: Document) -> list[tuple[str, object]]:
    memory = f"{_gib(inventory['memory_available_mib'])} of {_gib(inventory['memory_total_mib'])} GiB available"
    shm = f"{_gib(inventory['shm_free_mib'])} of {_gib(inventory['shm_total_mib'])} GiB free"
    disks = [
        f"{disk['path']}: {_gib(disk['free_mib'])} of {_gib(disk['total_mib'])} GiB free" for disk in inventory["disks"]
    ]
    return [
        ("seen", f"{age(inventory['at'])} ago"),
        ("kernel", inventory["kernel"]),
        ("driver", inventory["driver_version"]),
        ("GPU trouble", inventory["gpu_error"]),
        ("CPUs", inventory["cpu_count"]),
        ("memory", memory),
        ("shm", shm),
        *((("disks" if place == 0 else ""), disk) for place, disk in enumerate(disks)),
    ]


def _gib(mib: int) -> int:
    return round(mib / 1024)


def _gpus(node: Document) -> str:
    gpus = (node["inventory"] or {}).get("gpus", [])
    names = {gpu["name"] for gpu in gpus}
    return f"{len(gpus)} x {' / '.join(sorted(names))}" if gpus else NONE


def _free(node: Document) -> str:
    gpus = (node["inventory"] or {}).get("gpus", [])
    return str(sum(1 for gpu in gpus if not gpu["claimed_by"] and not gpu["holders"])) if gpus else NONE


def _engines(node: Document) -> str:
    engines = (node["inventory"] or {}).get("engines", [])
    return ", ".join(sorted({engine["sglang_version"] for engine in engines if engine["sglang_version"]}))


def _notes(node: Document) -> str:
    offered = node["offered_host_key"]
    parts = ["draining" if node["is_draining"] else "", "host key to be trusted" if offered else ""]
    return ", ".join(filter(None, [*parts, node["contact"]["code"] or ""]))


def _holders(gpu: Document) -> str:
    return ", ".join(f"{holder['command']} ({holder['pid']})" for holder in gpu["holders"])


def _used(gpu: Document) -> str:
    used, total = gpu["memory_used_mib"], gpu["memory_total_mib"]
    return f"{used} / {total}" if used is not None and total is not None else NONE


COLUMNS = (
    Column("name", lambda node: node["name"]),
    Column("contact", lambda node: node["contact"]["state"], styles=STATE_STYLES),
    Column("since", lambda node: age(node["contact"]["since_at"]), rank=3),
    Column("free", _free, rank=1),
    Column("gpus", _gpus, rank=2),
    Column("engines", _engines, rank=5),
    Column("address", lambda node: node["address"], rank=4),
    Column("notes", _notes, rank=1),
)
GPU_COLUMNS = (
    Column("gpu", lambda gpu: gpu["index"]),
    Column("name", lambda gpu: gpu["name"], rank=2),
    Column("used / total MiB", _used, rank=1),
    Column("claimed by", lambda gpu: gpu["claimed_by"]),
    Column("holders", _holders, rank=3),
    Column("errors", lambda gpu: "; ".join([*gpu["errors"], *gpu["warnings"]]), rank=1),
    Column("uuid", lambda gpu: gpu["uuid"], rank=4),
)
ENGINE_COLUMNS = (
    Column("engine", lambda engine: engine["sglang_version"]),
    Column("python", lambda engine: engine["python"]),
    Column("error", lambda engine: engine["error"], rank=1),
)
FOUND_COLUMNS = (
    Column("pid", lambda found: found["pid"]),
    Column("user", lambda found: found["user"], rank=2),
    Column("port", lambda found: found["port"], rank=1),
    Column("model", lambda found: found["model_path"]),
)
