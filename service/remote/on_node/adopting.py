"""How a process that Vigil did not start becomes a launch: a directory is written for it, it itself is left alone.

Such a launch carries no mark, and its session and process group may be the shell's that somebody started it from: only
the process and its descendants belong to it. Nobody waits for it, so its end has no exit code.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from typing import Any, Dict, Iterator, List

from . import proc
from .answering import Refused
from .engines import (
    engine_arguments,
    living,
    log_path_of,
    main_processes,
    settings_of,
    started_at,
)
from .launching import machine_id
from .main_process import MainProcess
from .masking import SHORTEST_BYTES
from .members import Identity, find_members, record_members
from .ownership import adopted_launches
from .places import (
    ADOPTED,
    is_adopted,
    launch_directory,
    launches_directory,
    make_private_directory,
    read_file,
    root,
    write_private_file,
)
from .proc import Stat
from .shared_memory import record_shared_memory

SHORTEST_VARIABLE_BYTES = 8
"""Shorter values of variables with secret-looking names are switches and the like, and would be found everywhere."""


def adopt(request: Dict[str, Any]) -> Dict[str, Any]:
    """Write a launch's directory for a running engine, whole or not at all, and say where its log is.

    Asked again for the same process, the answer is the same.
    """
    directory = launch_directory(request["launch"])
    identity = (int(request["pid"]), int(request["start_ticks"]))
    if os.path.lexists(directory):
        main = MainProcess(directory)
        if not is_adopted(directory) or main.identity != identity or main.boot_id != proc.boot_id():
            raise Refused("launch_taken", "launch %s is another one's on this node" % request["launch"])
    else:
        _write(directory, _checked(identity), request)
    members = find_members(request["launch"], identity)
    with suppress(OSError):
        record_members(directory, members)
        record_shared_memory(directory, [stat.pid for stat in members])
    log = os.path.join(directory, "log")
    return {"log_path": os.readlink(log) if os.path.islink(log) else None, "boot_id": proc.boot_id()}


def _checked(identity: Identity) -> Stat:
    """Return the process; Refused when it is not a running engine of this user that nobody has claimed."""
    pid = identity[0]
    stats = living()
    stat = stats.get(pid)
    if stat is None or stat.start_ticks != identity[1]:
        raise Refused("process_absent", "the process %d is not there, or is another one by now" % pid)
    try:
        owner = os.stat("/proc/%d" % pid).st_uid
    except OSError as error:
        raise Refused("process_absent", "the process %d has just ended" % pid) from error
    if owner != os.geteuid():
        raise Refused("process_foreign", "the process %d belongs to %s" % (pid, proc.user_of(pid) or owner))
    launch_id = proc.mark_of(pid)[0] or adopted_launches().get(identity)
    if launch_id is not None:
        raise Refused("process_claimed", "the process %d belongs to launch %s" % (pid, launch_id))
    if stat not in main_processes(stats):
        raise Refused("process_not_engine", "the process %d is not the main process of an SGLang server" % pid)
    return stat


def _write(directory: str, main: Stat, request: Dict[str, Any]) -> None:
    make_private_directory(root())
    make_private_directory(launches_directory())
    staging = "%s.staging-%d" % (directory, os.getpid())
    log_path = log_path_of(main.pid)
    secrets = sorted(set(_secrets(main.pid)))
    facts = {
        "launch_id": request["launch"],
        "server": None,
        "port": request["port"],
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine_id": machine_id(),
        "adopted": True,
    }
    files = {
        ADOPTED: b"",
        "boot_id": proc.boot_id().encode("ascii") + b"\n",
        "pid": b"%d %d\n" % (main.pid, main.start_ticks),
        "secrets": "".join(json.dumps(secret) + "\n" for secret in secrets).encode("ascii"),
        "launch.json": json.dumps(facts).encode("ascii"),
    }
    try:
        os.mkdir(staging, 0o700)
        lock = os.path.join(staging, "lock")
        os.mkdir(lock, 0o700)
        os.utime(lock, (started_at(main), started_at(main)))  # what it shares in memory may be as old
        for name, data in files.items():
            write_private_file(os.path.join(staging, name), data)
        if log_path is None:
            write_private_file(os.path.join(staging, "log"), b"")
        else:
            os.symlink(log_path, os.path.join(staging, "log"))
        os.rename(staging, directory)
    except OSError as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise Refused("directory_unusable", "%s: %s" % (directory, error.strerror)) from error


def _secrets(pid: int) -> Iterator[str]:
    """Yield what must not leave the node: from the command line, the engine's config file and the environment."""
    words = proc.words(pid) or []
    values: List[str] = proc.secrets_in(words)
    settings = settings_of(pid, engine_arguments(words) or [])
    values += [value for name, value in settings.items() if proc.is_secret_name("--" + name)]
    for value in values:
        if len(value.encode("utf-8", "surrogatepass")) >= SHORTEST_BYTES:
            yield value
    environment = (read_file("/proc/%d/environ" % pid) or b"").split(b"\0")
    for name, _, secret in (line.partition(b"=") for line in environment):
        if len(secret) >= SHORTEST_VARIABLE_BYTES and proc.is_secret_name(name.decode("utf-8", "replace")):
            with suppress(UnicodeDecodeError):
                yield secret.decode("utf-8")
