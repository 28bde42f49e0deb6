"""How container runtimes and log collectors wrap a line in a JSON object, and what is inside."""

import json
import re

_KEYS = ("log", "message", "msg", "MESSAGE", "textPayload", "text", "line")
_ENVELOPE = re.compile(rb'^\s{0,8}\{[^{}]{0,2000}?"(?:log|message|msg|MESSAGE|textPayload|text|line)"\s?:\s?"')


def is_envelope(raw: bytes) -> bool:
    """Return whether a line looks like a JSON object that holds a log line."""
    return raw[:1] in {b"{", b" "} and _ENVELOPE.match(raw) is not None


def unwrapped(raw: bytes) -> list[str]:
    """Return the lines inside an envelope; the line itself when it is none after all."""
    text = raw.decode("utf-8", "replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    if not isinstance(parsed, dict):
        return [text]
    for key in _KEYS:
        inner = parsed.get(key)
        if isinstance(inner, str):
            return [part for part in re.split(r"[\r\n]", inner) if part]
    return [text]
