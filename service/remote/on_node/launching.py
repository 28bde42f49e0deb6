"""How a launch is written to its directory and started, once; and which launches this machine has."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from typing import Any, Dict, List, Optional

from . import proc
from .answering import Refused
from .launchers import LAUNCHERS, best_launcher, start_supervisor
from .main_process import MainProcess
from .masking import SHORTEST_BYTES
from .members import find_all_members
from .places import (
    is_forbidden,
    launch_directory,
    launch_ids,
    launches_directory,
    make_private_directory,
    read_file,
    root,
    write_private_file,
)
from .variables import encoded, engine_variables

PID_PATIENCE_S = 5.0
ROOM_MIB = 16
EXIT_ROOM = b" " * 63 + b"\n"


def stage_and_start(order: Dict[str, Any]) -> Dict[str, Any]:
    """Write the launch's directory whole, start its supervisor, and say what runs.

    When the launch was started before, or ended before it began, nothing is written or started: the answer says how it
    stands, with no pid in the second case.
    """
    directory = launch_directory(order["launch"])
    if not os.path.isdir(os.path.join(directory, "lock")):
        if not os.path.isdir(directory):
            _check_engine(order["argv"], order["environment"])
            _stage(directory, order)
        supervisor = os.path.join(directory, "supervisor.sh")
        launcher = best_launcher()
        write_private_file(os.path.join(directory, "launcher"), launcher.encode("ascii"))
        used = start_supervisor(launcher, order["launch"], ["/bin/sh", supervisor, directory, sys.executable])
        if used != launcher:
            write_private_file(os.path.join(directory, "launcher"), used.encode("ascii"))
        return _started(directory, already=False)
    return _started(directory, already=True)


def list_launches(request: Dict[str, Any]) -> Dict[str, Any]:
    """Say how the launches of this machine stand, all or `only` some.

    A home shared by machines holds other machines' launches too; those are left out.
    """
    here = machine_id()
    only = request["only"]
    mains = {}
    for launch_id in launch_ids():
        if only is not None and launch_id not in only:
            continue
        directory = launch_directory(launch_id)
        if _facts(directory).get("machine_id", here) == here:
            mains[launch_id] = MainProcess(directory)
    this_boot = {name: main.identity for name, main in mains.items() if main.boot_id == proc.boot_id()}
    members = find_all_members(this_boot) if this_boot else {}
    return {"launches": [_found(name, main, len(members.get(name, ()))) for name, main in mains.items()]}


def remove_launch(request: Dict[str, Any]) -> Dict[str, Any]:
    """Delete the directory of a launch that has ended and left no process; say whether there was one."""
    directory = launch_directory(request["launch"])
    if not os.path.isdir(directory):
        return {"is_removed": False}
    main = MainProcess(directory)
    is_this_boot = main.boot_id == proc.boot_id()
    if main.settled()["state"] in ("pending", "running") or (
        is_this_boot and find_all_members({request["launch"]: main.identity})[request["launch"]]
    ):
        raise Refused("launch_alive", "launch %s has not ended" % request["launch"])
    doomed = "%s.removing-%d" % (directory, os.getpid())
    try:
        os.rename(directory, doomed)  # at once: half a directory must not be taken for a launch
        shutil.rmtree(doomed)
    except OSError as error:
        raise Refused("directory_unusable", "%s: %s" % (directory, error.strerror)) from error
    return {"is_removed": True}


def machine_id() -> str:
    """Return what tells this machine from others that share its home."""
    return (read_file("/etc/machine-id") or b"").decode("ascii", "replace").strip() or socket.gethostname()


def _found(launch_id: str, main: MainProcess, member_count: int) -> Dict[str, Any]:
    facts = _facts(main.directory)
    try:
        log_bytes = os.stat(os.path.join(main.directory, "log")).st_size
    except OSError:
        log_bytes = 0
    return {
        "launch": launch_id,
        "server": facts.get("server"),
        "port": facts.get("port"),
        "created_at": facts.get("created_at"),
        "launcher": _launcher(main.directory),
        "boot_id": main.boot_id,
        "process": dict(main.settled(), members=member_count),
        "log_bytes": log_bytes,
    }


def _facts(directory: str) -> Dict[str, Any]:
    try:
        facts = json.loads(read_file(os.path.join(directory, "launch.json")) or b"{}")
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _launcher(directory: str) -> Optional[str]:
    name = (read_file(os.path.join(directory, "launcher")) or b"").decode("ascii", "replace")
    return name if name in LAUNCHERS else None


def _started(directory: str, *, already: bool) -> Dict[str, Any]:
    main = MainProcess(directory)
    deadline = time.monotonic() + PID_PATIENCE_S
    while main.identity is None and not is_forbidden(directory) and time.monotonic() < deadline:
        time.sleep(0.01)
    pid, start_ticks = main.identity or (None, None)
    return {
        "launcher": _launcher(directory) or "setsid",
        "pid": pid,
        "start_ticks": start_ticks,
        "boot_id": main.boot_id or proc.boot_id(),
        "already_started": already,
    }


def _check_engine(argv: List[str], environment: Dict[str, str]) -> None:
    """Refuse an order whose program is not there or cannot be executed."""
    if not argv:
        raise Refused("order_invalid", "the command is empty")
    program = argv[0]
    if "/" not in program:
        if shutil.which(program, path=environment.get("PATH", os.environ.get("PATH"))) is None:
            raise Refused("engine_missing", "there is no %s on the path" % program)
    elif not os.path.exists(program):
        raise Refused("engine_missing", "there is no %s on this node" % program)
    elif not os.path.isfile(program) or not os.access(program, os.X_OK):
        raise Refused("engine_not_executable", "%s cannot be executed" % program)


def _stage(directory: str, order: Dict[str, Any]) -> None:
    """Write every file beside the final place and move the directory there: it is whole or absent."""
    files = _files(directory, order)
    make_private_directory(root())
    make_private_directory(launches_directory())
    _check_room()
    staging = "%s.staging-%d" % (directory, os.getpid())
    try:
        os.mkdir(staging, 0o700)
        os.mkdir(os.path.join(staging, "work"), 0o700)
        for name, data in files.items():
            write_private_file(os.path.join(staging, name), data)
        os.rename(staging, directory)
    except OSError as error:
        shutil.rmtree(staging, ignore_errors=True)
        if not os.path.isdir(directory):  # else another call of the same order came first
            raise Refused("directory_unusable", "%s: %s" % (directory, error.strerror)) from error


def _files(directory: str, order: Dict[str, Any]) -> Dict[str, bytes]:
    for secret in order["secrets"]:
        if len(secret.encode("utf-8", "surrogatepass")) < SHORTEST_BYTES:
            raise Refused("order_invalid", "a secret of less than %d bytes cannot be masked" % SHORTEST_BYTES)
    config_path = os.path.join(directory, "config.yaml")
    argv = [config_path if word == order["config_token"] else word for word in order["argv"]]
    facts = {
        "launch_id": order["launch"],
        "server": order["server"],
        "port": order["port"],
        "created_at": order["created_at"],
        "machine_id": machine_id(),
    }
    files = {
        "command": _beside(directory, order) + b"set -- " + _words(argv) + b"\n",
        "environment": _environment(order),
        "secrets": "".join(json.dumps(secret) + "\n" for secret in order["secrets"]).encode("ascii"),
        "launch.json": json.dumps(facts).encode("ascii"),
        "supervisor.sh": order["supervisor"].encode("utf-8"),
        "exit.room": EXIT_ROOM,
        "log": b"",
    }
    if order["config"] is not None:
        files["config.yaml"] = encoded(order["config"])
    if order.get("beside"):
        files["beside"] = encoded(order["beside"]["input"])
    return files


def _beside(directory: str, order: Dict[str, Any]) -> bytes:
    """Return the line that starts the program beside the main process: its child, since the shell becomes that one."""
    if not order.get("beside"):
        return b""
    program = _words([sys.executable, *order["beside"]["argv"]])
    given, said = (_quoted(encoded(os.path.join(directory, name))) for name in ("beside", "beside.log"))
    return b"%b < %b > %b 2>&1 &\n" % (program, given, said)


def _words(argv: List[str]) -> bytes:
    return b" ".join(_quoted(encoded(word)) for word in argv)


def _environment(order: Dict[str, Any]) -> bytes:
    """Return the whole environment as a shell file, with the marks that must not be lost."""
    variables = engine_variables(order["argv"][0], order["environment"])
    variables[b"VIGIL_LAUNCH_ID"] = order["launch"].encode("ascii")
    variables[b"SPT_NOENV"] = b"1"  # else setproctitle overwrites the environment, and with it the mark
    return b"".join(b"export %b=%b\n" % (name, _quoted(value)) for name, value in variables.items())


def _quoted(data: bytes) -> bytes:
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def _check_room() -> None:
    facts = os.statvfs(launches_directory())
    free_mib = facts.f_bavail * facts.f_frsize // 2**20
    if free_mib < ROOM_MIB or (facts.f_files and facts.f_favail == 0):
        raise Refused("no_room", "%s has %d MiB free and %d inodes" % (root(), free_mib, facts.f_favail))
