"""Reads the command line of a running engine back into the arguments of a recipe."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.sglang.arguments import RESERVED_ARGUMENTS, SECRET_ARGUMENTS, ArgumentValue, plain_name

_MODULES = ("sglang.launch_server", "serve")


@dataclass(frozen=True, slots=True)
class ReadCommand:
    """What a command line says, without what a recipe keeps elsewhere; `secrets` are the names of those it holds.

    `is_of_several_nodes`: the engine is one node's part of a server.
    """

    server_args: dict[str, ArgumentValue]
    secrets: tuple[str, ...]
    is_of_several_nodes: bool = False


def read_command(command: Sequence[str]) -> ReadCommand:
    """Return the arguments of `python -m sglang.launch_server …` or `sglang serve …`.

    A flag without a value is true, with several it is a list. Values stay text, as they were given; the engine reads
    them. Secrets are named and left out, and so is what belongs to the server: port, model path, config file.
    """
    start = next((index + 1 for index, word in enumerate(command) if word in _MODULES), len(command))
    arguments: dict[str, ArgumentValue] = {}
    secrets: list[str] = []
    flags = _flags(command[start:])
    for name, values in flags:
        if name in SECRET_ARGUMENTS:
            secrets.append(name)
        elif name not in RESERVED_ARGUMENTS:
            arguments[name] = True if not values else values[0] if len(values) == 1 else list(values)
    is_of_several = any(name == "nnodes" and values != ["1"] for name, values in flags)
    return ReadCommand(arguments, tuple(secrets), is_of_several)


def _flags(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return each flag with the values that follow it; words before the first flag are the model's path."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--") and len(word) > len("--"):
            name, has_value, value = word.partition("=")
            found.append((plain_name(name), [value] if has_value else []))
        elif found:
            found[-1][1].append(word)
    return found
