"""Which options an engine's `--help` names: what is left to judge by where its parser cannot be asked."""

import re
from collections.abc import Iterator

from service.sglang.judgement import EngineOption

_HEADS = re.compile(r"^ {2}(-[^\n]*)\n?((?: {6,}[^\n]*\n?)*)", re.MULTILINE)
"""An option begins two columns in; what is said of it stands further in, below it or behind it."""
_NAME = re.compile(r"(?:^|, )(--[A-Za-z0-9][\w-]*)")
_DEPRECATED = re.compile(r"^\W*(?:note: .* is )?deprecated", re.IGNORECASE)


def options_from_help(text: str) -> tuple[EngineOption, ...]:
    """Return the options of argparse's help, each with all its names, and what the help says of its end."""
    return tuple(_options(text.replace("\r\n", "\n")))


def _options(text: str) -> Iterator[EngineOption]:
    for head in _HEADS.finditer(text):
        spelled, _, beside = head[1].partition("  ")
        names = tuple(_NAME.findall(re.sub(r" \{[^}]*\}| [^-,][^,]*", "", spelled)))
        said = " ".join(f"{beside} {head[2]}".split())
        if names:
            yield EngineOption(names, said[:300] if _DEPRECATED.match(said) else None)
