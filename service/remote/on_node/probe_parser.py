"""Asks the engine's own parser, inside its process: which options it has, and everything that it complains of."""

from __future__ import annotations

import argparse
import re
from typing import Any, Iterator, List

ERRORS_LIMIT = 20
TEXT_LIMIT = 2000
DEPRECATED = re.compile(r"\W*deprecated|note: .* is deprecated", re.IGNORECASE)
NAMED_ARGUMENT = re.compile(r"argument (-[^:]*): ")
AMBIGUOUS_OPTION = re.compile(r"ambiguous option: (\S+) could match")
UNRECOGNIZED = "unrecognized arguments: "


class ParseError(Exception):
    """What the parser would have said before it ended the process."""


def options(parser: argparse.ArgumentParser) -> List[List[Any]]:
    """Return each option's spellings, and what its help says of its end, None for one that stays."""
    found = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        help_text = str(action.help or "")
        successor = getattr(action, "new_flag", None)
        kind = type(action).__name__
        old = None
        if kind.startswith("Deprecated") or successor:
            old = getattr(action, "error_message", None) or help_text
        elif DEPRECATED.match(help_text):
            old = help_text
        if old in ("", argparse.SUPPRESS):
            old = "deprecated"
        if action.option_strings:
            names = [name for name in action.option_strings if name.startswith("--")]
            found.append([names, old and old[:300], None if successor is None else str(successor)[:200]])
    return found


def raise_parse_error(_: argparse.ArgumentParser, message: str) -> None:
    """Stand in for the parser's `error`, which would end the process."""
    raise ParseError(message)


def parse_errors(parser: argparse.ArgumentParser, argv: List[str]) -> Iterator[str]:
    """Yield every error of the parser: what it complains of is left out, and the rest is given to it again."""
    groups = _groups(argv)
    for _ in range(ERRORS_LIMIT):
        try:
            parser.parse_args([word for group in groups for word in group])
        except ParseError as error:
            yield str(error)[:TEXT_LIMIT]
            left = [group for group in groups if not _is_meant(group[0], str(error), parser)]
        except (Exception, SystemExit) as error:
            yield "%s: %s" % (type(error).__name__, str(error)[:TEXT_LIMIT])
            return
        else:
            return
        if len(left) == len(groups):
            return
        groups = left


def _groups(argv: List[str]) -> List[List[str]]:
    """Return the words of a command line, each option with its values."""
    groups: List[List[str]] = []
    for word in argv:
        if word.startswith("--") or not groups:
            groups.append([])
        groups[-1].append(word)
    return groups


def _is_meant(word: str, message: str, parser: argparse.ArgumentParser) -> bool:
    """Tell whether a complaint is of the option that a word names."""
    name = word.partition("=")[0]
    known = [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001
    fits = [name] if name in known else [option for option in known if option.startswith(name)]
    ambiguous = AMBIGUOUS_OPTION.match(message)
    if ambiguous:
        return name == ambiguous.group(1).partition("=")[0]
    if message.startswith(UNRECOGNIZED):
        return not fits or word in message[len(UNRECOGNIZED) :].split(" ")
    named = NAMED_ARGUMENT.match(message)
    return named is not None and any(option in named.group(1).split("/") for option in fits)
