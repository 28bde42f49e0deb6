"""How the node's answer about a launch's arguments becomes a judgement."""

from collections.abc import Mapping, Sequence
from typing import Any

from service.sglang.help_text import options_from_help
from service.sglang.judgement import (
    EngineOption,
    EnvironmentFault,
    GpuStandIn,
    JudgedBy,
    Judgement,
    JudgementStamps,
    JudgementTimes,
    ResolutionError,
)

Plain = Mapping[str, Any]
SHOWN_OUTPUT = 300


def gpu_rows(gpus: Sequence[GpuStandIn]) -> list[dict[str, object]]:
    """Return the facts of GPUs as they are sent to the node."""
    return [
        {"name": gpu.name, "memory_mib": gpu.memory_mib, "compute_capability": gpu.compute_capability} for gpu in gpus
    ]


def stamps(answer: Plain) -> JudgementStamps:
    """Return what a judgement depends on."""
    version = answer["version"]
    return JudgementStamps(
        engine_version=None if version is None else str(version),
        engine=str(answer["engine"]),
        login=str(answer["login"]),
        models=tuple(str(model) for model in answer["models"]),
    )


def judgement(answer: Plain) -> Judgement:
    """Return what the engine said, or the best that could be had in its place."""
    seconds = float(answer["seconds"])
    if answer["fault"] is not None:
        return _unusable(EnvironmentFault(answer["fault"]), str(answer["detail"]), None, seconds)
    parts: Plain = answer["parts"]
    if "version" not in parts:
        return _without_word(answer, seconds)
    if parts["version"] is None:
        return _unusable(EnvironmentFault.ENGINE_MISSING, "this Python has no SGLang installed", None, seconds)
    version = str(parts["version"])
    if "import_error" in parts:
        return _not_imported(answer, version, seconds)
    if "options" not in parts:
        return Judgement(JudgedBy.RULES, version, JudgementTimes(seconds), unjudged=_how_it_ended(answer))
    return _judged(answer, version, seconds)


def _without_word(answer: Plain, seconds: float) -> Judgement:
    """Judge a program that did not even say which SGLang it has: when it ended by itself it is no Python."""
    ended = _how_it_ended(answer)
    if answer["exit"] is not None and int(answer["exit"]) >= 0:
        return _unusable(EnvironmentFault.PYTHON_NOT_EXECUTABLE, f"it is no Python that runs: {ended}", None, seconds)
    return Judgement(JudgedBy.RULES, None, JudgementTimes(seconds), unjudged=ended)


def _judged(answer: Plain, version: str, seconds: float) -> Judgement:
    parts: Plain = answer["parts"]
    errors = tuple(str(text) for text in parts.get("parse_errors", ()))
    unjudged, error = parts.get("unjudged"), parts.get("error")
    if "is_resolved" not in parts and not errors:
        unjudged = _how_it_ended(answer)
    is_resolved = "is_resolved" in parts and unjudged is None
    stand_in = parts.get("stand_in")
    return Judgement(
        how=JudgedBy.ENGINE_RESOLVED if is_resolved else JudgedBy.ENGINE_PARSED_ONLY,
        engine_version=version,
        times=JudgementTimes(seconds, *(_seconds(parts, name) for name in ("imports_s", "parse_s", "resolve_s"))),
        options=tuple(_option(row) for row in parts["options"]),
        parse_errors=errors,
        resolution_error=_error(error) if error is not None and is_resolved else None,
        warnings=tuple(str(text) for text in parts.get("warnings", ())),
        unjudged=None if unjudged is None else str(unjudged),
        stand_in=None if stand_in is None else str(stand_in),
    )


def _not_imported(answer: Plain, version: str, seconds: float) -> Judgement:
    parts: Plain = answer["parts"]
    error, unjudged = _error(parts["import_error"]), parts["unjudged"]
    said = f"{error.kind}: {error.message}" if error.message else error.kind
    if parts["is_interface"]:
        why = f"this release has no such interface to its arguments as is known ({said})"
        options = options_from_help(str(answer["help"] or ""))
        how = JudgedBy.HELP_TEXT if options else JudgedBy.RULES
        return Judgement(how, version, JudgementTimes(seconds), options=options, unjudged=why)
    if unjudged is not None:
        return Judgement(JudgedBy.RULES, version, JudgementTimes(seconds), unjudged=str(unjudged))
    return _unusable(EnvironmentFault.IMPORT_FAILED, f"{said} ({error.place})", version, seconds)


def _unusable(fault: EnvironmentFault, detail: str, version: str | None, seconds: float) -> Judgement:
    return Judgement(
        how=JudgedBy.RULES,
        engine_version=version,
        times=JudgementTimes(seconds),
        unjudged="the engine's environment cannot be used",
        environment_fault=fault,
        environment_detail=detail,
    )


def _how_it_ended(answer: Plain) -> str:
    """Return why there is no more of an answer: the time was over, or the engine's process ended by itself."""
    output = str(answer["output"]).strip()[-SHOWN_OUTPUT:]
    behind = f"; it said last: {output}" if output else ""
    if answer["exit"] is None:
        return f"the engine was not done within {float(answer['seconds']):.0f} s{behind}"
    return f"the engine's process ended with status {int(answer['exit'])} while it was asked{behind}"


def _option(row: Sequence[Any]) -> EngineOption:
    names, deprecated, successor = row
    return EngineOption(
        names=tuple(str(name) for name in names),
        deprecated=None if deprecated is None else str(deprecated),
        successor=None if successor is None else str(successor),
    )


def _error(row: Plain) -> ResolutionError:
    texts = {name: None if row[name] is None else str(row[name]) for name in ("file", "function", "source")}
    line = row["line"]
    return ResolutionError(
        kind=str(row["kind"]), message=str(row["message"]), line=None if line is None else int(line), **texts
    )


def _seconds(parts: Plain, name: str) -> float | None:
    value = parts.get(name)
    return None if value is None else float(value)
