"""What an exception means with which an engine refuses its arguments, and what mends it."""

import re
from collections.abc import Mapping

from service.sglang.arguments import ArgumentValue
from service.sglang.checks import Finding, Outcome, fail
from service.sglang.failures import Circumstances, Code, Confidence, diagnose
from service.sglang.judgement import ResolutionError
from service.sglang.serving_arguments import serving_arguments
from service.sglang.speculative.arguments import check_speculative_arguments
from service.sglang.startup_log import StartupLog

SPECULATIVE_NUMBERS = ("speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens")
_TELLS_NOTHING = frozenset({Code.UNKNOWN, Code.INVALID_ARGUMENT, Code.SOFTWARE_BUG})
_WANTS = re.compile(r"(?:requires?|needs?|set|use|specify) (--[a-z][\w-]*)", re.IGNORECASE)


def explained(error: ResolutionError, arguments: Mapping[str, ArgumentValue], *, engine_version: str | None) -> Finding:
    """Return what a start with these arguments ends with, in words, and what mends it."""
    shown = f"{error.kind}: {error.message}" if error.message else f"a bare {error.kind} at {error.place}"
    if error.source and not error.message:
        shown += f" ({error.source})"
    engine = f"SGLang {engine_version}" if engine_version else "the engine"
    found = f"{engine} ends with {shown}"
    if not _is_of_speculation(error):
        return fail(found, _remedy(error, engine_version))
    given = [name for name in SPECULATIVE_NUMBERS if serving_arguments(arguments).is_set(name)]
    missing = [name for name in SPECULATIVE_NUMBERS if name not in given]
    if given and missing and (not error.message or "NoneType" in error.message):
        why = f"of the three speculative numbers only {_listed(given)} {'is' if len(given) == 1 else 'are'} given"
        return fail(f"{why}: {found}", f"add {_listed(missing)}, or give none of the three")
    rules = check_speculative_arguments(arguments, target=None, engine_version=engine_version)
    known = rules.remedy if rules.outcome in {Outcome.FAIL, Outcome.WARN} else None
    return fail(found, known or _remedy(error, engine_version))


def _listed(names: list[str]) -> str:
    return " and ".join(f"--{name}" for name in names)


def _is_of_speculation(error: ResolutionError) -> bool:
    return any("speculative" in str(text) for text in (error.file, error.function, error.source, error.message))


def _remedy(error: ResolutionError, engine_version: str | None) -> str:
    """Return what the message itself asks for, else what a failed start with this exception would be told."""
    wanted = _WANTS.search(error.message)
    if wanted:
        return f"give {wanted[1]}, or drop what needs it"
    lines = ["Traceback (most recent call last):"]
    if error.file:
        lines += [f'  File "{error.file}", line {error.line}, in {error.function}', f"    {error.source or 'pass'}"]
    lines += [f"{error.kind}: {error.message}" if error.message else error.kind, ""]
    log = StartupLog().feed("\n".join(lines).encode("utf-8", "replace"))
    told = diagnose(log, Circumstances(has_exited=True, exit_code=1, engine_version=engine_version))
    if told is None or told.code in _TELLS_NOTHING or told.confidence is Confidence.LOW:
        return "correct what the message names"
    return told.remedy
