"""What differs between two documents, field by field."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

NOTHING = object()
"""The value of a field that is not there; unlike null, which somebody may have written."""


@dataclass(frozen=True, slots=True)
class Change:
    """One field, before and after; NOTHING where it was not or will not be there."""

    field: str
    before: object
    after: object

    def __str__(self) -> str:
        return f"{self.field}: {_spoken(self.before)} -> {_spoken(self.after)}"

    def document(self) -> dict[str, object]:
        """Return it for programs; a value that is not there is left out."""
        values = {"before": self.before, "after": self.after}
        return {"field": self.field, **{name: value for name, value in values.items() if value is not NOTHING}}


def changes_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return what differs, objects being compared field by field and lists as a whole; in the order of `before`."""
    return tuple(_changes((), before, after))


def _changes(place: tuple[str, ...], before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name, NOTHING), after.get(name, NOTHING)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _changes((*place, name), old, new)
        elif old is NOTHING or new is NOTHING or not _is_same(old, new):
            yield Change(".".join((*place, name)), old, new)


def _is_same(old: object, new: object) -> bool:
    """Tell whether two JSON values are the same: 1 and 1.0 are, 1 and true are not."""
    return old == new and isinstance(old, bool) == isinstance(new, bool)


def _spoken(value: object) -> str:
    if value is NOTHING:
        return "(nothing)"
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
