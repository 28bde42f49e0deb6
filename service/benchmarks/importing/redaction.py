"""Secrets in result files: clients write the server's arguments down, its API keys among them."""

import heapq
import re
from collections.abc import Iterator

from service.benchmarks.importing.rejection import RejectionReason, ResultFileRejected

MASK = b"***"
MAX_SECRETS = 10_000
_ANYWHERE = (b"api_key", b"api-key", b"apikey", b"password", b"passwd", b"secret", b"credential")
_LAST = (b"token", b"authorization", b"cookie")
"""Secrets only when they are the last word of a name: `token_ids` and `tokenizer` are none."""
_BEARER = b"bearer"
_LOOK_BACK = 70
_FIELD_BEFORE = re.compile(rb'"[\w-]{0,64}$')
_FIELD_AFTER = re.compile(rb'[\w-]{0,64}(?P<escape>\\{0,8})"\s{0,64}:\s{0,64}(?P=escape)"')
_ARGUMENT_BEFORE = re.compile(rb"(?<![\w-])--[\w-]{0,64}$")
_ARGUMENT_AFTER = re.compile(rb"""[\w-]{0,64}(?:=|\s{1,16}|\\{0,8}["']\s{0,16},\s{0,16}\\{0,8}["'])""")
_TEXT = re.compile(rb'(?:[^"\\]|\\.)++', re.DOTALL)
_PLAIN = re.compile(rb'[^"\\]++')
_WORD = re.compile(rb"""[^\s"'\\,\]]++""")
_BEARER_VALUE = re.compile(rb"\s{1,16}(?P<value>[\w.~+/=-]{4,}+)")


def redacted(content: bytes) -> bytes:
    """Return the file with the values of fields and arguments masked whose names say that they are secrets.

    `api_key`, `--admin-api-key`, `hf_token`, `Authorization: Bearer …`; `tokenizer_path` is none. What was JSON stays
    JSON. Takes time in proportion to the size, whatever the bytes are, and lets other threads run meanwhile. Raises
    ResultFileRejected for a file that seems to hold little but secrets.
    """
    pieces = []
    done = 0
    for start, end in _secrets(content):
        pieces += [content[done:start], MASK]
        done = end
    return b"".join([*pieces, content[done:]]) if pieces else content


def _secrets(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield where secrets lie, in order, none inside another."""
    lower = content.lower()
    end = count = 0
    for start, word in heapq.merge(*(_places(lower, word) for word in (*_ANYWHERE, *_LAST, _BEARER))):
        span = _span(content, start, word) if start >= end else None
        if span is None or content[slice(*span)] == MASK:
            continue
        count += 1
        if count > MAX_SECRETS:
            detail = f"the file holds more than {MAX_SECRETS} values that look like secrets"
            raise ResultFileRejected(RejectionReason.TOO_MANY_VALUES, detail)
        yield span
        end = span[1]


def _places(lower: bytes, word: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield where a word stands as it may in the name of a secret."""
    ends = b"\"\\= \t'" if word in _LAST else None
    start = lower.find(word)
    while start >= 0:
        after = start + len(word)
        if ends is None or lower[after : after + 1] in ends:
            yield start, word
        start = lower.find(word, after)


def _span(content: bytes, start: int, word: bytes) -> tuple[int, int] | None:
    end = start + len(word)
    before = content[max(start - _LOOK_BACK, 0) : start]
    if word == _BEARER:
        found = _BEARER_VALUE.match(content, end)
        return found.span("value") if found else None
    if word in _LAST and before[-1:] not in {b'"', b"_", b"-"}:
        return None
    after = _FIELD_AFTER.match(content, end)
    if after is not None and _FIELD_BEFORE.search(before):
        found = (_PLAIN if after["escape"] else _TEXT).match(content, after.end())
        return found.span() if found else None
    after = _ARGUMENT_AFTER.match(content, end)
    found = _WORD.match(content, after.end()) if after is not None and _ARGUMENT_BEFORE.search(before) else None
    return found.span() if found else None
