"""A JSON object read member by member, so that a hostile file costs little more memory than its own text."""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it; every Python 3 has it
from typing import Any, Iterator

_BLANK = re.compile(r"[ \t\r\n]*")


class Garbled(ValueError):
    """The text is not the JSON that was expected."""


class Reader:
    """One text. A value is parsed from a window of it: what a lie can make us build is as small as the window."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._decoder = json.JSONDecoder(parse_constant=_no_constant)

    def members(self) -> Iterator[str]:
        """Yield the names of an object's members; whoever takes a name must read its value before the next."""
        self._expect("{")
        if self._takes("}"):
            return
        while True:
            yield self._name()
            if self._takes("}"):
                return
            self._expect(",")

    def value(self, limit: int) -> Any:
        """Return the value that comes next, which must fit so many characters; NaN and Infinity are refused."""
        start = self._past_blanks()
        try:
            value, length = self._decoder.raw_decode(self._text[start : start + limit])
        except RecursionError as error:
            raise Garbled("the value at character %d is nested too deep" % start) from error
        except Garbled:
            raise
        except ValueError as error:
            raise Garbled("the value at character %d is no JSON, or longer than %d" % (start, limit)) from error
        self._at = start + length
        return value

    def end(self) -> None:
        """Make sure that nothing follows but blanks."""
        if self._past_blanks() != len(self._text):
            raise Garbled("something follows at character %d" % self._past_blanks())

    def _name(self) -> str:
        start = self._past_blanks()
        if self._text[start : start + 1] != '"':
            raise Garbled("a name was expected at character %d" % start)
        try:
            name, self._at = scanstring(self._text, start + 1, True)
        except ValueError as error:
            raise Garbled("the name at character %d cannot be read" % start) from error
        self._expect(":")
        return str(name)

    def _expect(self, mark: str) -> None:
        if not self._takes(mark):
            raise Garbled("%r was expected at character %d" % (mark, self._past_blanks()))

    def _takes(self, mark: str) -> bool:
        start = self._past_blanks()
        if self._text[start : start + 1] != mark:
            return False
        self._at = start + 1
        return True

    def _past_blanks(self) -> int:
        match = _BLANK.match(self._text, self._at)
        return match.end() if match else self._at


def _no_constant(word: str) -> Any:
    raise Garbled("%s is no JSON number" % word)
