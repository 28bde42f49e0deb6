"""What differs between a server of a fleet file and the server that is there, as steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.cli.differences import Change
from service.cli.fleet.schema import ServerEntry, Wanted
from service.cli.fleet.steps import Action, Kind, Step
from service.nodes.placement import misfit

Document = Mapping[str, Any]
AT_REST = frozenset({"stopped", "failed"})


@dataclass(frozen=True, slots=True)
class Placed:
    """What a server of the file may refer to, as it will be: nodes, and the newest version of each profile."""

    nodes: frozenset[str]
    versions: Mapping[str, int]
    gpus: Mapping[str, Sequence[Document]] = field(default_factory=dict)
    """Of each node that was looked at."""
    gpu_counts: Mapping[str, int] = field(default_factory=dict)
    """What the newest version of each profile wants."""
    regrown: Mapping[str, tuple[object, object]] = field(default_factory=dict)
    """Profiles whose next version wants another number of GPUs: before and after."""


def server_steps(
    name: str, entry: ServerEntry, server: Document | None, placed: Placed, *, restarts: bool
) -> Iterator[Step]:
    """Yield the one step, if any, that makes a server as the file says.

    A placement cannot be changed, so another one means to remove the server and place it again. What runs is stopped
    only when the file wants it stopped, or with `restarts`.
    """
    refusal = _refusal(name, entry, placed) or _misfit(name, entry, server, placed)
    if refusal is not None:
        yield refusal
    elif server is None:
        yield _creation(name, entry)
    else:
        yield from _mended(name, entry, server, placed, restarts=restarts)


def _refusal(name: str, entry: ServerEntry, placed: Placed) -> Step | None:
    """Return why a server can never be as the file says."""
    newest = placed.versions.get(entry.profile)
    if entry.node not in placed.nodes:
        return _refused(name, "node", f"neither the file nor the service has a node {entry.node!r}")
    if newest is None:
        return _refused(name, "profile", f"neither the file nor the service has a profile {entry.profile!r}")
    if entry.version is not None and entry.version > newest:
        return _refused(name, "version", f"profile {entry.profile} has {newest} versions")
    return None


def _misfit(name: str, entry: ServerEntry, server: Document | None, placed: Placed) -> Step | None:
    """Return why the node can never give the GPUs; of a server that is placed so already nothing is asked."""
    present = placed.gpus.get(entry.node)
    is_placed = server is not None and not [*_moves(entry, server), *_regrowth(entry, server, placed)]
    if present is None or is_placed:
        return None
    why = misfit(entry.node, present, pinned=entry.gpus, count=_gpu_count(entry, server, placed))
    return _refused(name, "gpu_count" if entry.gpus is None else "gpus", why) if why is not None else None


def _gpu_count(entry: ServerEntry, server: Document | None, placed: Placed) -> int:
    """Return how many GPUs a server will have whose GPUs are not named; 0 where an older version says it."""
    if entry.gpu_count is not None:
        return entry.gpu_count
    stays = server is not None and server["node"] == entry.node and not any(_regrowth(entry, server, placed))
    if server is not None and stays:
        return int(server["gpu_count"])
    is_newest = entry.version in {None, placed.versions[entry.profile]}
    return placed.gpu_counts.get(entry.profile, 0) if is_newest else 0


def _refused(name: str, what: str, words: str) -> Step:
    return Step(Kind.SERVER, name, Action.REFUSED, words, place=("servers", name, what))


def _creation(name: str, entry: ServerEntry) -> Step:
    launches = entry.state is Wanted.READY
    words = f"{entry.profile} placed on {entry.node}" + (" and launched" if launches else "")
    return _step(name, entry, Action.CREATE, words, body=_body(name, entry, None), launches=launches)


def _mended(name: str, entry: ServerEntry, server: Document, placed: Placed, *, restarts: bool) -> Iterator[Step]:
    version = entry.version or placed.versions[entry.profile]
    moves = (*_moves(entry, server), *_regrowth(entry, server, placed))
    is_other_version = server["profile"] == entry.profile and server["profile_version"] != version
    newer = (Change("version", server["profile_version"], version),) if is_other_version else ()
    changes = (*moves, *newer)
    runs = server["state"] not in AT_REST
    wants_ready = entry.state is Wanted.READY
    if entry.state is Wanted.STOPPED:
        if changes:
            yield _replacement(name, entry, server, changes, launches=False)
        elif server["state"] != "stopped":
            yield _step(name, entry, Action.STOP, "stopped", runs=True)
    elif runs and changes and not restarts:
        words = "it runs, and differs from the file; --restart " + (
            "stops it and places it again" if moves else f"restarts it by version {version}"
        )
        yield _step(name, entry, Action.HELD, words, changes=changes)
    elif moves or (newer and not runs and not wants_ready):
        yield _replacement(name, entry, server, changes, launches=runs or wants_ready)
    elif newer and runs:
        words = f"restarted by version {version}"
        yield _step(name, entry, Action.RESTART, words, changes=changes, body={"version": version}, launches=True)
    elif wants_ready and not _is_on_its_way(server):
        yield _launch(name, entry, server, newer)


def _is_on_its_way(server: Document) -> bool:
    """Tell whether a server is ready, or somebody or a policy makes it so."""
    under_way = server["operation"] is not None and server["operation"]["kind"] in {"launch", "restart"}
    return under_way or (server["state"] not in AT_REST and server["desired"] == "running")


def _launch(name: str, entry: ServerEntry, server: Document, newer: tuple[Change, ...]) -> Step:
    """Return the launch of a server at rest, or about to be; of a failed one what is left is swept first."""
    body = {"version": newer[0].after} if newer else {}
    words = "launched" + (f" by version {newer[0].after}" if newer else "")
    if server["state"] == "failed":
        words = f"{words} again: it has failed, {server['reason']}"
        return _step(name, entry, Action.RESTART, words, changes=newer, body=body, launches=True)
    runs = server["state"] != "stopped"
    return _step(name, entry, Action.LAUNCH, words, changes=newer, body=body, runs=runs, launches=True)


def _replacement(
    name: str, entry: ServerEntry, server: Document, changes: tuple[Change, ...], *, launches: bool
) -> Step:
    runs = server["state"] != "stopped"
    parts = ["stopped, " if runs else "", "removed and placed again", ", launched" if launches else ""]
    body = _body(name, entry, server, changes)
    return _step(name, entry, Action.REPLACE, "".join(parts), changes=changes, body=body, runs=runs, launches=launches)


def _step(name: str, entry: ServerEntry, action: Action, words: str, **rest: Any) -> Step:
    override = tuple(str(code) for code in entry.override)
    return Step(Kind.SERVER, name, action, words, override=override, place=("servers", name), **rest)


def _moves(entry: ServerEntry, server: Document) -> Iterator[Change]:
    """Yield what of the placement differs; what the file leaves open does not."""
    for what, wanted in (("profile", entry.profile), ("node", entry.node), ("port", entry.port)):
        if wanted is not None and wanted != server[what]:
            yield Change(what, server[what], wanted)
    pinned = server["pinned_gpus"]
    if entry.gpus is not None and entry.gpus != pinned:
        yield Change("gpus", pinned, entry.gpus)
    if entry.gpu_count is not None and (pinned is not None or entry.gpu_count != server["gpu_count"]):
        yield Change("gpu_count", server["gpu_count"] if pinned is None else pinned, entry.gpu_count)


def _regrowth(entry: ServerEntry, server: Document, placed: Placed) -> Iterator[Change]:
    """Yield the number of GPUs where a server has its profile's, and the next version wants another."""
    before, after = placed.regrown.get(entry.profile, (None, None))
    is_open = entry.gpus is None and entry.gpu_count is None and entry.version is None
    had = server["gpu_count"] if server["pinned_gpus"] is None else None
    if is_open and had is not None and had == before and server["profile"] == entry.profile:
        yield Change("gpu_count", before, after)


def _body(name: str, entry: ServerEntry, server: Document | None, changes: tuple[Change, ...] = ()) -> dict[str, Any]:
    """Return the body of POST /servers; what the file leaves open stays, as long as the server stays on its node."""
    wish = {"name": name, **entry.model_dump(mode="json", exclude_none=True, exclude={"state", "override"})}
    if server is None or server["node"] != entry.node:
        return wish
    wish.setdefault("port", server["port"])
    if entry.gpus is None and entry.gpu_count is None and all(change.field != "gpu_count" for change in changes):
        pinned = server["pinned_gpus"]
        wish |= {"gpus": pinned} if pinned is not None else {"gpu_count": server["gpu_count"]}
    return wish
