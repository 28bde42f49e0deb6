"""How every command of an operator speaks: exit codes, JSON and words on standard output, errors on standard error."""

import json
import sys
from enum import IntEnum
from typing import Any

from rich.console import Console


class ExitCode(IntEnum):
    """What a script may rely on; docs/cli.md explains each."""

    OK = 0
    REFUSED = 1
    """The service refused it, or what was waited for failed."""
    NO_ANSWER = 2
    """Nobody answers, or the time was up."""
    USAGE = 3
    """The command itself is wrong: an option, a field, or the name of something that is not there."""


def say(text: str) -> None:
    """Print a line of the result at once and as it is: no wrapping, no colour."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a line beside the result, on standard error."""
    Console(stderr=True).print(printable(text), markup=False, highlight=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """Print one JSON document, indented, with no colour, whatever it is printed to."""
    say(json.dumps(document, indent=2, ensure_ascii=False))


def print_json_line(document: Any) -> None:
    """Print one JSON document on a line, at once: somebody reads along."""
    say(json.dumps(document, ensure_ascii=False))


def problem_line(problem: dict[str, Any]) -> str:
    """Return a problem document in one line: code, what happened, and what to do about it."""
    detail = str(problem.get("detail", "the service gave no reason")).rstrip(".")
    return f"{problem.get('code', 'http_error')}: {detail}. {problem.get('remedy', '')}".rstrip()


def exit_code_of(status: int) -> ExitCode:
    """Return the exit code that goes with an HTTP status that is an error."""
    match status:
        case 404 | 422:
            return ExitCode.USAGE
        case 504:
            return ExitCode.NO_ANSWER
        case _:
            return ExitCode.REFUSED


def printable(text: str) -> str:
    """Return text that moves no cursor: what a node or a log says is not to be trusted with a terminal."""
    return "".join(character if character.isprintable() or character == "\n" else " " for character in text)
