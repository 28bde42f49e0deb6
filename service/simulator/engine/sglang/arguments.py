"""The engine's command line: its flags by version, abbreviations, and a config file whose entries come first."""

from __future__ import annotations

import argparse
import json
import os
import re
from typing import Any, Dict, List, Sequence

from .console import Console
from .tracebacks import EngineError
from .versions import Version

MULTIPLIERS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
USAGE_WIDTH = 78
"""What argparse takes without a terminal; to say it saves asking for it once a flag."""
HUMAN_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)")
PLAIN_KINDS = ("store", "true", "bool")
"""Flags that a config file may set; the others are argparse actions of the engine's own."""


def parse_arguments(argv: Sequence[str], version: Version) -> argparse.Namespace:
    """Return the arguments as given, defaults filled in.

    Exits with code 2 as argparse does: unknown or ambiguous flags, values outside the choices. Raises EngineError
    for a config file that the engine refuses. A config file counts only as two tokens, `--config FILE`.
    """
    flags = _flags(version)
    words = list(argv)
    if "--config" in words:
        words = _with_config_file(words, flags)
    parser = argparse.ArgumentParser(
        prog="sglang serve",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=USAGE_WIDTH),
    )
    _add_flags(parser, flags, version)
    return parser.parse_args(words)


def add_arguments(parser: argparse.ArgumentParser, version: Version) -> None:
    """Give a parser the flags of a version."""
    _add_flags(parser, _flags(version), version)


def _flags(version: Version) -> List[Dict[str, Any]]:
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), "flags", f"{version.text}.json")
    with open(path, encoding="utf-8") as file:
        flags: List[Dict[str, Any]] = json.load(file)
    return flags


def _add_flags(parser: argparse.ArgumentParser, flags: List[Dict[str, Any]], version: Version) -> None:
    warn = Console().warning if version.is_newest else _warn_plainly
    for flag in flags:
        kind = flag.get("kind", "store")
        options: Dict[str, Any] = {"default": flag.get("default"), "help": flag.get("help")}
        if "dest" in flag:
            options["dest"] = flag["dest"]
        if kind == "true":
            options.update(action="store_true", default=flag.get("default", False))
        elif kind == "bool":
            options.update(action=_YesNo, nargs=0)
        elif kind == "old_true":
            options.update(action=_deprecated(warn, flag.get("new"), value=True), nargs=0)
        elif kind == "old_ignored":
            options.update(action=_deprecated(warn, flag.get("new"), value=None), nargs=0)
        else:
            options.update({name: flag[name] for name in ("choices", "nargs", "required") if name in flag})
            options["type"] = TYPES.get(flag.get("type", "str"), str)
            if kind == "old_store":
                options["action"] = _deprecated(warn, flag.get("new"), value=...)
        parser.add_argument(*flag["names"].split(), **options)


class _YesNo(argparse.Action):
    """`--x` and `--no-x`."""

    def __call__(self, *call: Any) -> None:
        _, namespace, _, option = call
        setattr(namespace, self.dest, not option.startswith("--no-"))


def _deprecated(warn: Any, successor: Any, *, value: Any) -> Any:
    """Return an action that warns, then stores a value, what was given (`...`), or nothing (None)."""
    advice = " Use '%s' instead." % successor if successor else ""

    class Deprecated(argparse.Action):
        new_flag = successor

        def __call__(self, *call: Any) -> None:
            _, namespace, values, option = call
            warn(f"\033[1;33m'{option}' is deprecated and will be removed in a future release.{advice}\033[0m")
            if value is not None:
                setattr(namespace, self.dest, values if value is ... else value)

    return Deprecated


def _warn_plainly(message: str) -> None:
    """Warn as the versions do whose logging is not set up yet while arguments are parsed."""
    os.write(2, f"{message}\n".encode())


def _human_readable_int(text: str) -> int:
    match = HUMAN_NUMBER.fullmatch(text.strip())
    if match:
        return int(float(match.group(1)) * MULTIPLIERS[match.group(2)])
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"Invalid integer value: '{text}'.") from None


def _json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid JSON value: {text!r}") from None


TYPES = {"int": int, "float": float, "human": _human_readable_int, "json": _json_value, "str": str}


def _with_config_file(words: List[str], flags: List[Dict[str, Any]]) -> List[str]:
    """Return the words with the file's entries in front, so that the command line wins."""
    if words.count("--config") > 1:
        raise EngineError("ValueError: Multiple config files specified! Only one allowed.")
    position = words.index("--config")
    if position + 1 >= len(words):
        raise EngineError("ValueError: No config file specified!")
    path = words[position + 1]
    if not path.endswith((".yaml", ".yml")):
        raise EngineError(f"ValueError: Config file must be YAML format, got: {path}")
    if not os.path.exists(path):
        raise EngineError(f"ValueError: Config file not found: {path}")
    by_name = {name.lstrip("-"): flag for flag in flags for name in flag["names"].split()}
    rest = words[:position] + words[position + 2 :]
    entries = [_config_words(key, value, by_name) for key, value in _read_config(path)]
    return [word for entry in entries for word in entry] + rest


def _read_config(path: str) -> List[Any]:
    """Return the `key: value` lines of a simple YAML mapping; a value may be JSON, which is YAML as well."""
    entries = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            key, colon, value = text.partition(":")
            if not colon:
                raise EngineError("ValueError: Config file must contain a dictionary at root level")
            entries.append((key.strip(), _scalar(value.strip())))
    return entries


def _scalar(text: str) -> Any:
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return text[1:-1].replace("''", "'")
    try:
        return json.loads(text)
    except ValueError:
        return text or None


def _config_words(key: str, value: Any, by_name: Dict[str, Dict[str, Any]]) -> List[str]:
    name = key.replace("_", "-")
    kind = by_name.get(name, {}).get("kind", "store")
    if kind not in PLAIN_KINDS:
        action = {"old_true": "DeprecatedStoreTrueAction", "old_store": "DeprecatedAliasStoreAction"}.get(kind)
        action = action or "DeprecatedStoreConstAction"
        plain_key = key.replace("-", "_")
        raise EngineError(f"ValueError: Unsupported config option '{plain_key}' with action '{action}'")
    if value is True and kind != "store":
        return [f"--{name}"]
    if value is None or (value is False and kind != "store"):
        return []
    if isinstance(value, list):
        return [f"--{name}", *(str(item) for item in value)]
    return [f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value)]
