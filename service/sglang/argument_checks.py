"""What the engine's own judgement of a launch's arguments means for the launch: two checks of a preflight."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from service.sglang.arguments import RESERVED_ARGUMENTS, ArgumentValue, argument_tokens, plain_name
from service.sglang.checks import Check, CheckCode, Finding, Outcome, concluded, fail, skipped, warn
from service.sglang.flag_names import closest_flags, meant_among, remark
from service.sglang.judgement import EngineOption, EnvironmentFault, JudgedBy, Judgement
from service.sglang.resolution_errors import explained

OWN_FLAGS = frozenset({"port", "model-path"})
"""What Vigil itself puts on the command line; a profile may not."""
CHOICES_SHOWN = 8
_UNRECOGNIZED = "unrecognized arguments: "
_AMBIGUOUS = re.compile(r"ambiguous option: --([\w-]+)\S* could match (.+)")
_CHOICE = re.compile(r"argument (\S+): invalid choice: '?([^']*?)'? \(choose from (.*)\)")
_FLAG = re.compile(r"--[A-Za-z0-9][\w-]*(?:[= ]?[{<=][^\s,;]*)?")
_DEPRECATED = re.compile(r"deprecat", re.IGNORECASE)
_ENVIRONMENT_REMEDIES: Mapping[EnvironmentFault, str] = {
    EnvironmentFault.PYTHON_MISSING: "give the path of a Python on this node that has SGLang installed",
    EnvironmentFault.PYTHON_NOT_EXECUTABLE: "give the path of a Python that this login may execute",
    EnvironmentFault.ENGINE_MISSING: "install sglang into this environment, or name the Python of another one",
    EnvironmentFault.IMPORT_FAILED: "mend the environment: reinstall the packages that this SGLang release pins",
}


def check_arguments(
    judgement: Judgement, arguments: Mapping[str, ArgumentValue], *, engine_version: str | None
) -> tuple[Check, ...]:
    """Return ENGINE_ENVIRONMENT and ENGINE_ARGUMENTS: may this engine be started, and would it take these arguments.

    `arguments` are those of the profile, the names of its secret ones among them. All unknown names are told at once,
    each with the closest right ones. What nobody could judge is `skipped`, with the reason.
    """
    version = judgement.engine_version or engine_version
    return _environment(judgement, version), _arguments(judgement, arguments, version)


def _environment(judgement: Judgement, version: str | None) -> Check:
    code = CheckCode.ENGINE_ENVIRONMENT
    facts = {"engine_version": version, "seconds": judgement.times.imports_s}
    if judgement.environment_fault is not None:
        found = judgement.environment_detail or judgement.environment_fault.value
        return Check(code, Outcome.FAIL, found, _ENVIRONMENT_REMEDIES[judgement.environment_fault], facts)
    if judgement.times.imports_s is None:
        engine = f"SGLang {version} is installed" if version else "the engine's version is not known"
        return skipped(code, f"{engine}; whether it can be imported is not known: {judgement.unjudged}")
    return Check(code, Outcome.PASS, f"SGLang {version} imports in {judgement.times.imports_s:.1f} s", None, facts)


def _arguments(judgement: Judgement, arguments: Mapping[str, ArgumentValue], version: str | None) -> Check:
    code = CheckCode.ENGINE_ARGUMENTS
    names = [plain_name(name) for name, value in arguments.items() if argument_tokens(name, value)]
    places = [_place(name, judgement) for name in names]
    findings = [
        *(finding for place in places for finding in _of_name(place, version)),
        *_of_parser(judgement, {place.name for place in places if place.is_told}),
        *_of_warnings(judgement),
    ]
    if judgement.resolution_error is not None:
        findings.append(explained(judgement.resolution_error, arguments, engine_version=version))
    facts = {
        "judged_by": judgement.how.value,
        "stand_in": judgement.stand_in,
        "seconds": judgement.times.total_s,
        "resolved_in_s": judgement.times.resolve_s,
        "warnings": list(judgement.warnings),
        "unjudged": judgement.unjudged,
    }
    seen = _seen(judgement, len(names), version)
    if judgement.unjudged is not None and not any(finding.outcome is Outcome.FAIL for finding in findings):
        findings.append(Finding(Outcome.SKIPPED, seen))
    return concluded(code, findings, otherwise=seen, facts=facts)


def _seen(judgement: Judgement, count: int, version: str | None) -> str:
    """Return who judged how much of the arguments, and why not more."""
    engine = f"SGLang {version}" if version else "the engine"
    why = f": {judgement.unjudged}" if judgement.unjudged else ""
    match judgement.how:
        case JudgedBy.ENGINE_RESOLVED:
            return f"{engine} itself parsed and resolved {count} arguments in {judgement.times.total_s:.1f} s"
        case JudgedBy.ENGINE_PARSED_ONLY:
            return f"{engine} itself parsed {count} arguments; what it makes of them was not judged{why}"
        case JudgedBy.HELP_TEXT:
            return f"{count} arguments were compared with what --help of {engine} names; values were not judged{why}"
        case JudgedBy.RULES:
            return f"{engine} could not be asked about {count} arguments{why}"


@dataclass(frozen=True, slots=True)
class _Place:
    """What the engine's parser makes of one name: options that it begins, one that it is; both empty: unknown."""

    name: str
    options: tuple[EngineOption, ...]
    spellings: tuple[str, ...]
    """The names that it begins; itself alone when it is complete."""
    known: frozenset[str]

    @property
    def is_told(self) -> bool:
        """Tell whether a finding of its own says what is wrong, so that the parser's need not be repeated."""
        return bool(self.known) and len(self.options) != 1


def _place(name: str, judgement: Judgement) -> _Place:
    flag = f"--{name}"
    known = frozenset(spelling.removeprefix("--") for option in judgement.options for spelling in option.names)
    exact = tuple(option for option in judgement.options if flag in option.names)
    if exact:
        return _Place(name, exact[:1], (name,), known)
    options = tuple(
        option for option in judgement.options if any(spelling.startswith(flag) for spelling in option.names)
    )
    spellings = tuple(
        spelling.removeprefix("--") for option in options for spelling in option.names if spelling.startswith(flag)
    )
    return _Place(name, options, spellings, known)


def _of_name(place: _Place, version: str | None) -> Iterator[Finding]:
    """Yield what is wrong with a name: reserved, unknown, ambiguous, shortened, or at its end."""
    flag = f"--{place.name}"
    engine = f"SGLang {version}" if version else "the engine"
    reserved = _reserved(place)
    if reserved is not None:
        yield fail(f"{flag} stands for --{reserved}, which is refused: {RESERVED_ARGUMENTS[reserved]}", "drop the flag")
        return
    if not place.known:
        return
    if not place.options:
        yield fail(f"{engine} has no {flag}", _meant(place))
    elif len(place.options) > 1:
        likely = meant_among(place.name, place.spellings)
        text = f"{flag} is ambiguous for {engine}: it could be {_alternatives(place.spellings)}"
        yield fail(text, f"write --{likely}" if likely else f"write {_alternatives(place.spellings)}")
    elif place.spellings != (place.name,):
        text = f"{flag} is short for --{place.spellings[0]}; abbreviations break when a release adds a flag"
        yield warn(text, f"write --{place.spellings[0]}")
    if len(place.options) == 1 and place.options[0].deprecated is not None:
        option = place.options[0]
        successor = option.successor or _successor(option)
        text = f"{flag} is deprecated in {engine}" + (f": {option.deprecated}" if not successor else "")
        yield warn(text, f"write {successor}" if successor else None)


def _reserved(place: _Place) -> str | None:
    """Return the reserved argument that a name stands for, whole or shortened."""
    meant = place.spellings if len(place.options) == 1 else (place.name,)
    if not place.known:
        meant = tuple(name for name in RESERVED_ARGUMENTS if name.startswith(place.name)) or meant
        meant = meant if len(meant) == 1 or place.name in meant else (place.name,)
    return next((name for name in meant if name in RESERVED_ARGUMENTS), None)


def _meant(place: _Place) -> str | None:
    instead = remark(place.name)
    if instead is not None:
        return instead
    flags = closest_flags(place.name, place.known - OWN_FLAGS)
    return f"did you mean {_alternatives(flags)}?" if flags else None


def _successor(option: EngineOption) -> str | None:
    """Return the first other flag that the text about an option's end names."""
    for found in _FLAG.findall(option.deprecated or ""):
        flag = str(found).rstrip(".)")
        if flag.partition("=")[0] not in option.names:
            return flag
    return None


def _of_parser(judgement: Judgement, told: set[str]) -> Iterator[Finding]:
    """Yield the parser's errors, without those about names that were told already."""
    for text in judgement.parse_errors:
        ambiguous, choice = _AMBIGUOUS.match(text), _CHOICE.match(text)
        if text.startswith(_UNRECOGNIZED):
            flags = [word for word in text[len(_UNRECOGNIZED) :].split(" ") if word.startswith("--")]
            if not flags or any(flag[2:].partition("=")[0] not in told for flag in flags):
                yield fail(text)
        elif ambiguous:
            if ambiguous[1] not in told:
                yield fail(text, f"write one of {ambiguous[2]}")
        elif choice:
            yield _of_choice(choice[1], choice[2], choice[3])
        else:
            yield fail(text)


def _of_choice(names: str, value: str, listed: str) -> Finding:
    choices = [item.strip().strip("'\"") for item in listed.split(",")]
    flag = names.split("/", maxsplit=1)[0]
    close = get_close_matches(value, choices, n=1)
    shown = ", ".join(choices) if len(choices) <= CHOICES_SHOWN else f"one of {len(choices)} values"
    remedy = f"did you mean {flag} {close[0]}?" if close else f"give one of {', '.join(choices)}"
    return fail(f"{flag} takes {shown}, not {value}", remedy)


def _of_warnings(judgement: Judgement) -> Iterator[Finding]:
    """Yield what the engine warns of that will break: values that are going away. Of flags their own finding tells."""
    flags = [name for option in judgement.options if option.deprecated for name in option.names]
    for text in judgement.warnings:
        if _DEPRECATED.search(text) and not any(f"'{flag}'" in text for flag in flags):
            yield warn(text)


def _alternatives(names: tuple[str, ...]) -> str:
    return " or ".join(f"--{name}" for name in names)
