"""Regular expressions written as lists: of alternatives, one a line, so that rules can be read; of words, made fast."""

import re
from typing import TypeAlias

_Trie: TypeAlias = "dict[int, _Trie]"

_END = -1


def any_of(*alternatives: str) -> re.Pattern[str]:
    """Return a pattern that matches where any of the alternatives does."""
    return re.compile("|".join(alternatives))


def any_word(*words: bytes) -> re.Pattern[bytes]:
    """Return a pattern that matches where any of the words stands.

    Common beginnings are shared, so that a place in the text is given up after one or two comparisons.
    """
    trie: _Trie = {}
    for word in words:
        node = trie
        for letter in word:
            node = node.setdefault(letter, {})
        node[_END] = {}
    return re.compile(_spelt(trie))


def _spelt(node: _Trie) -> bytes:
    if _END in node:
        return b""
    branches = [re.escape(bytes([letter])) + _spelt(below) for letter, below in sorted(node.items())]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"
