"""Which SGLang servers run on this node, whoever started them: told by their command lines (facts: SGLang 6)."""

from __future__ import annotations

import os
import re
import shutil
import stat as modes
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional, Tuple

from . import gpu, proc
from .answering import Refused
from .members import Identity, is_descendant
from .ownership import adopted_launches
from .places import read_file
from .proc import Stat

GPU_PATIENCE_S = 25.0
ENGINES_LIMIT = 64
WORDS_LIMIT = 400
WORD_LIMIT = 2000
CONFIG_LIMIT = 1 << 18
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 30000
_PYTHON = re.compile(r"python[0-9.]*")
_MODULE = re.compile(r"-[bBdEhiIOPqRsSuvVx]*m(.*)")
_CODE = re.compile(r"-[bBdEhiIOPqRsSuvVx]*c")
_TAKES_A_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_ENTRY_MODULE = "sglang.launch_server"
_ENTRY_SCRIPT = "/sglang/launch_server.py"
_CONSOLE = "sglang"
_SETTING = re.compile(r"([A-Za-z][\w-]*)\s*:\s+(.*?)\s*(?:\s#.*)?")
_QUOTES = ("''", '""')


def find_engines(_: Dict[str, Any]) -> Dict[str, Any]:
    """Answer with every SGLang server of this node, as far as this user may look into it."""
    stats = living()
    mains = main_processes(stats)
    rows, gpu_error = _holders() if mains else ([], None)
    adopted = adopted_launches()
    described = [_described(main, stats, adopted) for main in mains[:ENGINES_LIMIT]]
    for engine in described:
        ours = set(engine["member_pids"])
        engine["gpu_uuids"] = sorted({row["uuid"] for row in rows if row["pid"] in ours})
        engine["gpu_error"] = gpu_error
    return {"engines": described}


def living() -> Dict[int, Stat]:
    """Return every living process by its pid."""
    found = {pid: proc.read_stat(pid) for pid in proc.pids()}
    return {pid: stat for pid, stat in found.items() if stat and stat.is_alive}


def main_processes(stats: Dict[int, Stat]) -> List[Stat]:
    """Return the engines' main processes. A child that was forked has its parent's command line and is left out."""
    named = {stat.pid: stat for stat in stats.values() if engine_arguments(proc.words(stat.pid) or []) is not None}
    identities = {(stat.pid, stat.start_ticks) for stat in named.values()}
    mains = []
    for pid in sorted(named):
        parent = stats.get(named[pid].parent)
        if parent is None or not is_descendant(parent, identities, read=stats.get):
            mains.append(named[pid])
    return mains


def engine_arguments(words: List[str]) -> Optional[List[str]]:
    """Return the engine's own arguments, None when this is not the command line of an SGLang server.

    It is `python -m sglang.launch_server …`, that module by its path, or `sglang serve …`; a shell or another program
    that has this within one of its words is not.
    """
    if not words or os.path.basename(words[0]) == _CONSOLE:
        return _after_serve(words[1:])
    if not _PYTHON.fullmatch(os.path.basename(words[0])):
        return None
    place = 1
    while place < len(words) and words[place].startswith("-"):
        module = _MODULE.fullmatch(words[place])
        if module:
            name, rest = module.group(1), words[place + 1 :]
            if not name:
                name, rest = (rest[0], rest[1:]) if rest else ("", [])
            return rest if name == _ENTRY_MODULE else None
        place += 2 if words[place] in _TAKES_A_VALUE else 1
    if place == len(words) or _CODE.fullmatch(words[place - 1]):
        return None
    script = words[place]
    if os.path.basename(script) == _CONSOLE:
        return _after_serve(words[place + 1 :])
    return words[place + 1 :] if ("/" + script).endswith(_ENTRY_SCRIPT) else None


def settings_of(pid: int, arguments: List[str]) -> Dict[str, str]:
    """Return what the engine was told, by option name without dashes; the command line goes before its config file."""
    settings = _config(pid, arguments)
    if arguments and not arguments[0].startswith("-"):
        settings["model-path"] = arguments[0]
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            follows = arguments[place + 1] if place + 1 < len(arguments) else ""
            settings[_key(name)] = value if equals else "" if follows.startswith("--") else follows
    return settings


def log_path_of(pid: int) -> Optional[str]:
    """Return the regular file that a process logs to, if this user may read it under a name that is still its own.

    The engine logs to the error stream, and the requests to the output; mostly both are one file.
    """
    for descriptor in ("/proc/%d/fd/2" % pid, "/proc/%d/fd/1" % pid):
        with suppress(OSError):
            path = os.readlink(descriptor)
            facts = os.stat(descriptor)
            if modes.S_ISREG(facts.st_mode) and os.path.samestat(facts, os.stat(path)) and os.access(path, os.R_OK):
                return path
    return None


def started_at(main: Stat) -> float:
    """Return when a process was started, in seconds since the epoch."""
    ticks_a_second = os.sysconf("SC_CLK_TCK")
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - main.start_ticks / ticks_a_second)


def _after_serve(words: List[str]) -> Optional[List[str]]:
    return words[1:] if words[:1] == ["serve"] else None


def _described(main: Stat, stats: Dict[int, Stat], adopted: Dict[Identity, str]) -> Dict[str, Any]:
    words = proc.words(main.pid) or []
    settings = settings_of(main.pid, engine_arguments(words) or [])
    port = settings.get("port", str(DEFAULT_PORT))
    identity = (main.pid, main.start_ticks)
    return {
        "pid": main.pid,
        "start_ticks": main.start_ticks,
        "user": proc.user_of(main.pid),
        "command": [word[:WORD_LIMIT] for word in proc.without_secrets(words)[:WORDS_LIMIT]],
        "python": _python(main.pid, words),
        "model_path": _model(main.pid, settings),
        "port": int(port) if port.isdecimal() else None,
        "host": settings.get("host") or DEFAULT_HOST,
        "launch": proc.mark_of(main.pid)[0] or adopted.get(identity),
        "started_at": started_at(main),
        "log_path": log_path_of(main.pid),
        "member_pids": sorted(stat.pid for stat in stats.values() if is_descendant(stat, {identity}, read=stats.get)),
    }


def _holders() -> Tuple[List[Dict[str, Any]], Optional[str]]:
    try:
        apps = gpu.ask("compute-apps", gpu.APPS_FIELDS, GPU_PATIENCE_S)
    except Refused as refused:
        return [], refused.detail
    if apps["exit"] == 0:
        return gpu.holders(apps), None
    if apps["exit"] == gpu.NOT_FOUND:
        return [], "there is no nvidia-smi"
    return [], "nvidia-smi: %s" % (apps["text"].strip()[:300] or "status %s" % apps["exit"])


def _key(name: str) -> str:
    key = name.lstrip("-").replace("_", "-")
    return "model-path" if key == "model" else key


def _config(pid: int, arguments: List[str]) -> Dict[str, str]:
    """Return the plain settings of the engine's `--config FILE`, whose keys are names of options.

    Of a file that cannot be read it is known that the port may be in it.
    """
    if "--config" not in arguments[:-1]:
        return {}
    path = os.path.join(_directory(pid), arguments[arguments.index("--config") + 1])
    try:
        with open(path, "rb") as file:
            text = file.read(CONFIG_LIMIT).decode("utf-8", "replace")
    except OSError:
        return {"port": ""}
    settings: Dict[str, str] = {}
    for found in filter(None, map(_SETTING.fullmatch, text.splitlines())):
        value = found.group(2)
        is_quoted = len(value) > 1 and value[0] + value[-1] in _QUOTES
        settings[_key(found.group(1))] = value[1:-1] if is_quoted else value
    return settings


def _directory(pid: int) -> str:
    try:
        return os.readlink("/proc/%d/cwd" % pid)
    except OSError:
        return "/"


def _python(pid: int, words: List[str]) -> Optional[str]:
    """Return the engine's Python as it was called: what it leads to would be that outside the environment."""
    name = words[0] if words else ""
    if os.path.basename(name) == _CONSOLE:
        return None
    if "/" in name:
        return os.path.normpath(os.path.join(_directory(pid), name))
    environment = (read_file("/proc/%d/environ" % pid) or b"").decode("utf-8", "surrogateescape").split("\0")
    path = next((line[len("PATH=") :] for line in environment if line.startswith("PATH=")), None)
    return shutil.which(name, path=path) if path else None


def _model(pid: int, settings: Dict[str, str]) -> Optional[str]:
    """Return the model: a name of the hub, or an absolute path where the engine finds a directory of that name."""
    model = settings.get("model-path")
    if not model:
        return None
    path = os.path.normpath(os.path.join(_directory(pid), model))
    return path if os.path.isdir(path) else model
