"""Reads the names that a PromQL expression refers to: as much of the language as alerts and dashboards here use."""

import re
from dataclasses import dataclass

_STRING = r'"(?:[^"\\]|\\.)*"'
_SELECTOR = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*\{{((?:{_STRING}|[^}}\"])*)\}}")
_MATCHER = re.compile(rf"([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)\s*({_STRING})")
_CLAUSE = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_WINDOW = re.compile(r"\[[^\]]*\]")
_NUMBER = re.compile(r"\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b", re.IGNORECASE)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_VALUES = re.compile(r"label_values\((.*),\s*([a-zA-Z_][a-zA-Z0-9_]*)\)")
_WORDS = frozenset(
    {
        "and", "or", "unless", "bool", "offset", "sum", "min", "max", "avg", "count", "quantile", "topk", "rate",
        "increase", "histogram_quantile", "time", "vector", "absent", "clamp_min", "changes",
    }
)  # fmt: skip
"""Operators and functions; whatever else stands alone must be a metric."""


@dataclass(frozen=True, slots=True)
class Used:
    """A metric that an expression reads, the labels that it asks for, and the values that it compares them with."""

    name: str
    matchers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """All that an expression refers to; `grouping` are labels that some metric in it must have."""

    used: tuple[Used, ...]
    grouping: frozenset[str]


def read(text: str) -> Expression:
    """Return what an expression refers to; ValueError where a selector has no metric before it."""
    asked = _LABEL_VALUES.fullmatch(text.strip())
    if asked:
        inner = read(asked[1])
        return Expression(inner.used, inner.grouping | {asked[2]})
    used: list[Used] = []

    def take(found: re.Match[str]) -> str:
        if not found[1]:
            raise ValueError(f"a selector without a metric in {text!r}")
        matchers = tuple((name, value[1:-1]) for name, value in _MATCHER.findall(found[2]))
        rest = _MATCHER.sub("", found[2]).replace(",", "").strip()
        if rest:
            raise ValueError(f"{rest!r} is no matcher in {text!r}")
        used.append(Used(found[1], matchers))
        return " "

    rest = _SELECTOR.sub(take, text)
    grouping = {name.strip() for found in _CLAUSE.findall(rest) for name in found.split(",") if name.strip()}
    rest = _NUMBER.sub(" ", _WINDOW.sub(" ", _CLAUSE.sub(" ", rest)))
    used += [Used(name) for name in _NAME.findall(rest) if name not in _WORDS]
    return Expression(tuple(used), frozenset(grouping))
