"""What differs between a fleet file and the fleet, as steps: pure, and in the order in which they are done."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from service.cli.differences import changes_of
from service.cli.fleet.schema import FleetFile, NodeEntry
from service.cli.fleet.server_plan import Placed, server_steps
from service.cli.fleet.steps import Action, Kind, Plan, Step

Documents = Mapping[str, Mapping[str, Any]]
CHANGEABLE = ("address", "port", "user", "credential", "engines")
"""What of a node PATCH /nodes/{node} takes."""
FIXED = ("jump", "first_port", "last_port")
_SERVER_ORDER = (Action.REMOVE, Action.STOP, Action.REPLACE, Action.CREATE)
"""What gives GPUs and ports back comes before what takes them."""


@dataclass(frozen=True, slots=True)
class Present:
    """What the service has, by name, in the shapes of its API."""

    nodes: Documents = field(default_factory=dict)
    profiles: Documents = field(default_factory=dict)
    benchmarks: Documents = field(default_factory=dict)
    servers: Documents = field(default_factory=dict)


def plan(file: FleetFile, present: Present, *, restarts: bool, prunes: bool) -> Plan:
    """Return the steps that make the fleet as the file says.

    What the file does not name is left alone, unless `prunes`; servers that run are left alone where a difference
    cannot be mended without stopping them, unless `restarts`.
    """
    nodes = [list(_node_steps(name, entry, present.nodes.get(name))) for name, entry in (file.nodes or {}).items()]
    profiles = [
        list(_profile_steps(name, entry.model_dump(mode="json"), present.profiles.get(name)))
        for name, entry in (file.profiles or {}).items()
    ]
    benchmarks = [
        list(_benchmark_steps(name, entry.model_dump(mode="json"), present.benchmarks.get(name)))
        for name, entry in (file.benchmarks or {}).items()
    ]
    placed = Placed(
        nodes=frozenset({*present.nodes, *(file.nodes or {})}),
        versions=_versions(present, chain.from_iterable(profiles)),
        gpus={name: node["inventory"]["gpus"] for name, node in present.nodes.items() if node["inventory"]},
        gpu_counts={name: profile["recipe"]["gpu_count"] for name, profile in present.profiles.items()}
        | {name: entry.gpu_count for name, entry in (file.profiles or {}).items()},
        regrown=dict(_regrown(chain.from_iterable(profiles))),
    )
    servers = [
        list(server_steps(name, entry, present.servers.get(name), placed, restarts=restarts))
        for name, entry in (file.servers or {}).items()
    ]
    pruned = list(_pruned(file, present)) if prunes else []
    return Plan(
        steps=(
            *chain(*nodes, *profiles, *benchmarks),
            *sorted(chain(*servers, (step for step in pruned if step.kind is Kind.SERVER)), key=_server_rank),
            *(step for step in pruned if step.kind is not Kind.SERVER),
        ),
        same=sum(not steps for steps in (*nodes, *profiles, *benchmarks, *servers)),
    )


def _node_steps(name: str, entry: NodeEntry, node: Mapping[str, Any] | None) -> Iterator[Step]:
    place = ("nodes", name)
    wanted = {given: value for given, value in entry.model_dump(mode="json").items() if given in entry.model_fields_set}
    if node is None:
        words = f"taken in, {entry.user}@{entry.address}:{entry.port}"
        body = {"name": name, **_creation(wanted)}
        yield Step(Kind.NODE, name, Action.CREATE, words, body=body, keys=_keys(entry), place=place)
        if entry.is_draining:
            yield Step(Kind.NODE, name, Action.DRAIN, "takes no new launches", place=place)
        return
    for fixed in FIXED:
        if fixed in wanted and (changes := changes_of({fixed: node[fixed]}, {fixed: _bare(wanted[fixed])})):
            words = f"{fixed} cannot be changed: remove the node and take it in again"
            yield Step(Kind.NODE, name, Action.REFUSED, words, changes=changes, place=(*place, fixed))
    given = {what: wanted[what] for what in CHANGEABLE if what in wanted}
    if changes := changes_of({what: node[what] for what in given}, given):
        body = {what: value for what, value in given.items() if value != node[what]}
        yield Step(Kind.NODE, name, Action.CHANGE, "reached or looked at otherwise", changes, body=body, place=place)
    yield from _key_steps(name, entry, node)
    if "is_draining" in wanted and entry.is_draining != node["is_draining"]:
        action = Action.DRAIN if entry.is_draining else Action.UNDRAIN
        words = "takes no new launches" if entry.is_draining else "takes launches again"
        yield Step(Kind.NODE, name, action, words, place=place)


def _key_steps(name: str, entry: NodeEntry, node: Mapping[str, Any]) -> Iterator[Step]:
    """Trust a key that waits if the file names it; a pinned key that is another one is nothing to be mended here."""
    place = ("nodes", name, "host_key")
    pinned, offered = ((node[key] or {}).get("fingerprint") for key in ("host_key", "offered_host_key"))
    if offered in (keys := _keys(entry)):
        yield Step(Kind.NODE, name, Action.TRUST, f"its host key {offered} is trusted", keys=keys, place=place)
    elif entry.host_key and (offered or pinned) and entry.host_key != pinned:
        key = f"the key on offer is {offered}" if offered else f"the pinned key is {pinned}"
        yield Step(Kind.NODE, name, Action.REFUSED, f"{key}; find out why, then correct the file", place=place)


def _keys(entry: NodeEntry) -> tuple[str, ...]:
    return tuple(key for key in (entry.jump and entry.jump.host_key, entry.host_key) if key)


def _profile_steps(name: str, recipe: dict[str, Any], there: Mapping[str, Any] | None) -> Iterator[Step]:
    place = ("profiles", name)
    if there is None:
        yield Step(Kind.PROFILE, name, Action.CREATE, "version 1", body={"name": name, "recipe": recipe}, place=place)
    elif changes := changes_of(there["recipe"], recipe):
        words = f"version {there['version'] + 1}"
        yield Step(Kind.PROFILE, name, Action.CHANGE, words, changes, body={"recipe": recipe}, place=place)


def _benchmark_steps(name: str, workload: dict[str, Any], there: Mapping[str, Any] | None) -> Iterator[Step]:
    place = ("benchmarks", name)
    if there is None:
        body = {"name": name, "workload": workload}
        yield Step(Kind.BENCHMARK, name, Action.CREATE, "defined", body=body, place=place)
    elif changes := changes_of(there["workload"], workload):
        words = "a workload is never changed, so that runs of one name did the same: give this one another name"
        yield Step(Kind.BENCHMARK, name, Action.REFUSED, words, changes, place=place)


def _versions(present: Present, steps: Iterator[Step]) -> dict[str, int]:
    """Return the newest version of each profile as it will be once these steps are done."""
    newest = {name: int(profile["version"]) for name, profile in present.profiles.items()}
    for step in steps:
        newest[step.name] = newest.get(step.name, 0) + 1
    return newest


def _regrown(steps: Iterator[Step]) -> Iterator[tuple[str, tuple[object, object]]]:
    for step in steps:
        for change in step.changes:
            if change.field == "gpu_count":
                yield step.name, (change.before, change.after)


def _pruned(file: FleetFile, present: Present) -> Iterator[Step]:
    """Yield the removal of what a kind that the file has does not name: servers first, what they use after them."""
    for name, server in present.servers.items() if file.servers is not None else ():
        if name not in (file.servers or {}):
            runs = server["state"] != "stopped"
            words = "not in the file: stopped and removed" if runs else "not in the file: removed"
            yield Step(Kind.SERVER, name, Action.REMOVE, words, runs=runs)
    kinds = (
        (Kind.BENCHMARK, file.benchmarks, present.benchmarks),
        (Kind.PROFILE, file.profiles, present.profiles),
        (Kind.NODE, file.nodes, present.nodes),
    )
    for kind, named, there in kinds:
        for name in there if named is not None else ():
            if name not in (named or {}):
                yield Step(kind, name, Action.REMOVE, "not in the file: removed")


def _server_rank(step: Step) -> int:
    return _SERVER_ORDER.index(step.action) if step.action in _SERVER_ORDER else len(_SERVER_ORDER)


def _creation(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the body of POST /nodes: what the file alone knows is left out, the keys go with the step."""
    body = {name: value for name, value in wanted.items() if name not in {"host_key", "is_draining"}}
    return body | ({"jump": _bare(body["jump"])} if "jump" in body else {})


def _bare(value: Any) -> Any:
    """Return a jump host without its key, which the API shows as the node's offer only; other values as they are."""
    return {name: item for name, item in value.items() if name != "host_key"} if isinstance(value, dict) else value
