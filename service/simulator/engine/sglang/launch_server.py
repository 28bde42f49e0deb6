"""`python -m sglang.launch_server ARGUMENTS`: the parent process from its first line to its exit code."""

from __future__ import annotations

import os
import sys
from typing import List

from .arguments import parse_arguments
from .console import Console, write
from .parent import Parent
from .resolution import Plan, resolve
from .script import Script, ScriptError, load_script
from .steps import pass_phase
from .tracebacks import POST_INIT_FRAMES, RESOLVE_FRAMES, EngineError, traceback_text
from .versions import Version, site_packages, this_version

VALIDATION_EXIT = 1


def main(argv: List[str]) -> None:
    """Run an engine; ends the process with the engine's exit code."""
    version = this_version()
    _say_recommendation(version)
    try:
        script = load_script(_model_of(argv))
    except ScriptError as error:
        write(f"sglang stand-in: {error}\n")
        os._exit(VALIDATION_EXIT)
    pass_phase("parsing_arguments", script, Console())
    try:
        plan = _resolved(argv, version, script)
    except EngineError as error:
        console = Console()
        if version.has_new_texts:
            pid = os.getpid()
            console.info(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}")
        frames = RESOLVE_FRAMES if version.is_newest else POST_INIT_FRAMES
        write(traceback_text((*frames, *error.frames), error.exception) + "\n")
        os._exit(VALIDATION_EXIT)
    Parent(plan, script, Console(level=plan.arguments.log_level)).run(" ".join(argv))


def _resolved(argv: List[str], version: Version, script: Script) -> Plan:
    arguments = parse_arguments(argv, version)
    if arguments.log_level.lower() not in ("debug", "info", "warning", "error", "critical"):
        name = arguments.log_level.upper()
        raise EngineError(f"AttributeError: module 'logging' has no attribute '{name}'")
    console = Console(level=arguments.log_level)
    pass_phase("resolving_config", script, console)
    plan = resolve(arguments, version, console)
    values = {name: value for name, value in vars(arguments).items() if name != "config"}
    if version.is_newest:
        console.info(f"server_args={values!r}")
    else:
        fields = ", ".join(f"{name}={value!r}" for name, value in values.items())
        console.info(f"server_args=ServerArgs({fields})")
    return plan


def _say_recommendation(version: Version) -> None:
    line = 71 if version.is_newest else 51
    write(
        f"{site_packages()}/sglang/launch_server.py:{line}: UserWarning: 'python -m sglang.launch_server' is still "
        "supported, but 'sglang serve' is the recommended entrypoint.\n"
        "  Example: sglang serve --model-path <model> [options]\n  warnings.warn(\n"
    )


def _model_of(argv: List[str]) -> str:
    """Return the model path that the arguments name, before they are judged: the script may lie there."""
    for position, word in enumerate(argv):
        if word in ("--model-path", "--model") and position + 1 < len(argv):
            return argv[position + 1]
        if word.startswith(("--model-path=", "--model=")):
            return word.partition("=")[2]
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
