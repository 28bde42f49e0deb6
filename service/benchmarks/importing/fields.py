"""A JSON object of a result file, read field by field; what nobody read can be kept raw."""

from collections.abc import Mapping

from service.benchmarks.finite import count, finite, non_negative
from service.benchmarks.importing.documents import Json

MAX_TEXT = 500
MAX_ITEMS = 64
"""A longer array is per-request detail and is not kept; so are long texts."""


class Fields:
    """One JSON object and which of its fields were read."""

    def __init__(self, document: Json) -> None:
        self._document: Mapping[str, Json] = document if isinstance(document, Mapping) else {}
        self._read: set[str] = set()

    def raw(self, name: str) -> Json:
        """Return a field as it is."""
        self._read.add(name)
        return self._document.get(name)

    def number(self, name: str) -> float | None:
        """Return a finite number that is not negative, else None."""
        return non_negative(self.raw(name))

    def signed(self, name: str) -> float | None:
        """Return a finite number, else None."""
        return finite(self.raw(name))

    def whole(self, name: str) -> int | None:
        """Return a whole number that is not negative, else None."""
        return count(self.raw(name))

    def text(self, name: str) -> str | None:
        """Return a text, shortened and without NUL, else None."""
        value = self.raw(name)
        return clean_text(value) if isinstance(value, str) and value else None

    def object(self, name: str) -> "Fields":
        """Return an object; an empty one when the field is absent or something else."""
        return Fields(self.raw(name))

    def has(self, name: str) -> bool:
        """Tell whether the field is there and not null."""
        return self._document.get(name) is not None

    def unread(self) -> dict[str, Json]:
        """Return the fields that were not read, made small and safe to store."""
        return {
            clean_text(name): small(value)
            for name, value in self._document.items()
            if name not in self._read and value is not None
        }


def clean_text(text: str) -> str:
    """Return a text without NUL and lone surrogates, which PostgreSQL refuses, at most 500 characters long."""
    return text[:MAX_TEXT].replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def small(value: Json) -> Json:
    """Return a value without long arrays, long texts and numbers that are not finite."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(name): small(item) for name, item in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, list | tuple):
        return f"({len(value)} entries, not kept)" if len(value) > MAX_ITEMS else [small(item) for item in value]
    return value if value is None or isinstance(value, bool) else finite(value)
