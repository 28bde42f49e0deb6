"""Reads YAML and JSON files that people write, and remembers on which line each field stands, for errors."""

import json
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

STDIN = "-"
MAX_BYTES = 2**22
MAX_FIELDS = 100_000
"""More than a file of that size can name, unless its aliases multiply."""
_MISSING = "Field required"
"""What pydantic says of a field that is not there, here as in the answers of the service."""
Place = tuple[Hashable, ...]


class _Loader(yaml.SafeLoader):
    """Plain values only, without dates: an API speaks JSON, and a version such as 2026-11-29 is text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class FileWrong(Exception):
    """A file cannot be used; each message names file, line and field."""

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__("\n".join(messages))
        self.messages = tuple(messages)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file says, and on which line (from 1) each of its fields begins."""

    name: str
    value: Any
    lines: Mapping[Place, int]

    def message(self, place: Sequence[Hashable], text: str) -> str:
        """Return `text` with the file, the line and the field that it is about.

        Parts of `place` that the file does not have are left out, so the line is that of what surrounds them; a field
        that is missing is named nevertheless.
        """
        known: Place = ()
        for part in place:
            if (*known, part) in self.lines:
                known = (*known, part)
        named = (*known, *place[-1:]) if text == _MISSING else known
        field = ".".join(str(part) for part in named)
        return f"{self.name}:{self.lines[known]}: {field + ': ' if field else ''}{text}"


def read_file(path: str) -> Parsed:
    """Read a YAML or JSON file, `-` being standard input; FileWrong when it cannot be read or is neither."""
    name = "standard input" if path == STDIN else path
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1) if path == STDIN else _bytes_of(Path(path))
        if len(data) > MAX_BYTES:
            raise FileWrong([f"{name}: it is larger than {MAX_BYTES // 2**20} MiB"])
        return _parse(name, data.decode("utf-8"))
    except OSError as error:
        raise FileWrong([f"{name}: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise FileWrong([f"{name}: it is not UTF-8 text"]) from error


def _bytes_of(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _parse(name: str, text: str) -> Parsed:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            raise FileWrong([f"{name}:1: it is empty"])
        lines: dict[Place, int] = {(): root.start_mark.line + 1}
        _note_lines(name, root, (), lines)
        value = json.loads(json.dumps(loader.construct_document(root), allow_nan=False))
        return Parsed(name, value, lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise FileWrong([f"{name}:{mark.line + 1 if mark else 1}: {error.problem or error.context}"]) from error
    except yaml.YAMLError as error:
        raise FileWrong([f"{name}: {str(error).splitlines()[0]}"]) from error
    except (TypeError, ValueError) as error:
        raise FileWrong([f"{name}: it holds what JSON has no word for: {error}"]) from error
    except RecursionError as error:
        raise FileWrong([f"{name}: it is nested too deeply"]) from error
    finally:
        loader.dispose()


def _note_lines(name: str, node: yaml.Node, place: Place, lines: dict[Place, int]) -> None:
    """Keep the line of everything below `node`; FileWrong for a key that stands twice, of which YAML keeps one."""
    if len(lines) > MAX_FIELDS:
        raise FileWrong([f"{name}: it has more than {MAX_FIELDS} fields"])
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[*place, index] = item.start_mark.line + 1
            _note_lines(name, item, (*place, index), lines)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*place, key.value)
            line = key.start_mark.line + 1
            if below in lines:
                field = ".".join(str(part) for part in below)
                raise FileWrong([f"{name}:{line}: {field}: it stands on line {lines[below]} already"])
            lines[below] = line
            _note_lines(name, value, below, lines)
