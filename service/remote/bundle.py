"""How the code of `on_node/` gets onto a node: as source text on standard input, in the order of its imports."""

import ast
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

BOOTSTRAP = (
    "import io,json,sys;"
    'sys.version_info<(3,8) and sys.exit("python3 is older than 3.8");'
    'channel=io.BufferedReader(io.FileIO(0,"rb",False),1);'
    "payload=json.loads(channel.read(int(channel.readline())).decode());"
    'exec(payload["loader"],{"payload":payload,"channel":channel})'
)
"""Reads the payload and not a byte more (a buffer of 1): what follows on the channel belongs to the verb."""

PYTHON_ARGV = ("python3", "-I", "-S", "-X", "utf8", "-c", BOOTSTRAP)
"""Isolated from the user's settings and site packages, which also starts it in half the time."""

_LOADER = """
import sys, types
package = types.ModuleType("vigil_node")
package.__path__ = []
sys.modules["vigil_node"] = package
for name, source in payload["modules"]:
    module = types.ModuleType("vigil_node." + name)
    module.__package__ = "vigil_node"
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(source, module.__name__, "exec"), module.__dict__)
verb = getattr(sys.modules["vigil_node." + payload["module"]], payload["verb"])
sys.modules["vigil_node.answering"].run(verb, payload["request"], payload["limit_s"], channel)
"""

VERB_MODULES: Mapping[str, str] = {
    "inventory": "inventory",
    "stage_and_start": "launching",
    "list_launches": "launching",
    "remove_launch": "launching",
    "signal": "signals",
    "verify": "verifying",
    "read_log": "log_file",
    "engine_version": "engine",
    "hang_evidence": "hang_evidence",
    "cached_share": "page_cache",
    "find_engines": "engines",
    "adopt": "adopting",
    "read_model_files": "model_files",
    "rename_draft": "draft_rename",
    "launch_conditions": "launch_conditions",
    "judge_arguments": "argument_judge",
    "judgement_stamps": "argument_judge",
    "look_at_client": "bench_client",
    "read_client_result": "bench_client",
    "hash_file": "bench_client",
    "sample_beside": "bench_sampler",
    "observe": "observer",
}


def payload(verb: str, request: Mapping[str, object], *, limit_s: int | None) -> bytes:
    """Return what goes to the channel: a length line, then the modules that the verb needs and its request.

    `limit_s` is the time after which the verb ends itself on the node, whatever became of us; None lets it live on.
    """
    body = json.dumps(
        {
            "loader": _LOADER,
            "modules": _modules(VERB_MODULES[verb]),
            "module": VERB_MODULES[verb],
            "verb": verb,
            "request": request,
            "limit_s": limit_s,
        }
    ).encode("ascii")
    return b"%d\n%b" % (len(body), body)


def supervisor_script() -> str:
    """Return the shell script that starts a launch and keeps its pid and exit code."""
    return _source("supervisor.sh")


def argument_probe() -> tuple[tuple[str, str], ...]:
    """Return the modules that run in an engine's own Python and judge arguments there, name and source, in order."""
    return _ordered("argument_probe")


@cache
def _modules(entry: str) -> tuple[tuple[str, str], ...]:
    """Return the modules that a verb needs; `answering` is needed by all of them."""
    return tuple(dict([*_ordered("answering"), *_ordered(entry)]).items())


def _ordered(entry: str) -> tuple[tuple[str, str], ...]:
    """Return a module behind those that it imports."""
    ordered: dict[str, str] = {}

    def add(name: str) -> None:
        source = _source(f"{name}.py")
        for needed in _siblings(source):
            if needed not in ordered:
                add(needed)
        ordered[name] = source

    add(entry)
    return tuple(ordered.items())


def _siblings(source: str) -> list[str]:
    """Return the modules of the same folder that a source imports, as `from . import a` or `from .a import b`."""
    found: list[str] = []
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom) and statement.level == 1:
            found += [statement.module] if statement.module else [alias.name for alias in statement.names]
    return found


@cache
def _source(name: str) -> str:
    return (files("service.remote.on_node") / name).read_text("utf-8")
