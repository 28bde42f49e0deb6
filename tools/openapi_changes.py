"""Finds what in an OpenAPI document breaks programs that live on an older one.

usage: python -m tools.openapi_changes OLD.json NEW.json    prints each breaking change; exit 1 when there is one

A route, an answer, an optional field or parameter that is new breaks nothing, nor does any text. Webhooks are looked at
from the receiver's side: what he is sent is an answer.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.openapi_schemas import Comparison, Side

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
Part = Mapping[str, Any]
_WORDING = ("style", "explode", "allowReserved", "allowEmptyValue")
_SCHEME = ("type", "scheme", "name", "in", "openIdConnectUrl")


def breaking_changes(old: Part, new: Part) -> list[str]:
    """Return what breaks between two documents, a line each; empty when programs may stay as they are."""
    documents = Documents(Side(old), Side(new))
    return [*documents.of_servers(), *documents.of_schemes(), *documents.of_routes(), *documents.of_webhooks()]


@dataclass(frozen=True, slots=True)
class Documents:
    """Two versions of a document."""

    old: Side
    new: Side

    def of_servers(self) -> Iterator[str]:
        """Yield base addresses that are gone."""
        new = [server["url"] for server in self.new.document.get("servers", ())]
        for server in self.old.document.get("servers", ()):
            if server["url"] not in new:
                yield f"servers: {server['url']} is gone"

    def of_schemes(self) -> Iterator[str]:
        """Yield ways to show who one is that are gone or are another way now."""
        new = self.new.document.get("components", {}).get("securitySchemes", {})
        for name, scheme in self.old.document.get("components", {}).get("securitySchemes", {}).items():
            if any(new.get(name, {}).get(key) != scheme.get(key) for key in _SCHEME):
                yield f"security scheme {name}: gone, or another one"

    def of_routes(self) -> Iterator[str]:
        """Yield what breaks for callers."""
        for name, old, new in self._calls("paths"):
            for fault in self._of_call(old, new) if new else ["gone"]:
                yield f"{name}: {fault}"

    def of_webhooks(self) -> Iterator[str]:
        """Yield what breaks for receivers."""
        for name, old, new in self._calls("webhooks"):
            for fault in self._of_told(old, new) if new else ["gone"]:
                yield f"webhook {name}: {fault}"

    def _calls(self, section: str) -> Iterator[tuple[str, Part, Part | None]]:
        """Yield each old operation with the new one of the same place."""
        news = self.new.document.get(section, {})
        for path, part in self.old.document.get(section, {}).items():
            item, other = self.old.resolve(part), self.new.resolve(news.get(path, {}))
            for method in METHODS:
                if method in item:
                    yield (
                        f"{method.upper()} {path}",
                        _whole(item, method, self.old),
                        _whole(other, method, self.new) if method in other else None,
                    )

    def _of_call(self, old: Part, new: Part) -> Iterator[str]:
        if old.get("operationId") != new.get("operationId"):
            yield f"operationId was {old.get('operationId')}, is {new.get('operationId')}"
        if old["security"] != new["security"]:
            yield f"security was {old['security']}, is {new['security']}"
        yield from self._of_parameters(old, new, is_answer=False)
        yield from self._of_body(old, new, is_answer=False)
        for status, answer in old.get("responses", {}).items():
            if status not in new.get("responses", {}):
                yield f"answer {status}: gone"
                continue
            was, now = self.old.resolve(answer), self.new.resolve(new["responses"][status])
            yield from (f"answer {status}: {fault}" for fault in self._of_answer(was, now))

    def _of_told(self, old: Part, new: Part) -> Iterator[str]:
        if old.get("operationId") != new.get("operationId"):
            yield f"operationId was {old.get('operationId')}, is {new.get('operationId')}"
        yield from self._of_parameters(old, new, is_answer=True)
        yield from self._of_body(old, new, is_answer=True)
        yield from (f"answer {status}: gone" for status in old.get("responses", {}) if status not in new["responses"])

    def _of_parameters(self, old: Part, new: Part, *, is_answer: bool) -> Iterator[str]:
        olds, news = old["parameters"], new["parameters"]
        for key, parameter in olds.items():
            if key not in news:
                yield f"{' '.join(key)}: gone"
            else:
                yield from self._of_value(" ".join(key), parameter, news[key], is_answer=is_answer)
        if not is_answer:
            yield from (f"{' '.join(key)}: must be given" for key in news if key not in olds and _is_needed(news[key]))

    def _of_body(self, old: Part, new: Part, *, is_answer: bool) -> Iterator[str]:
        was, now = self.old.resolve(old.get("requestBody", {})), self.new.resolve(new.get("requestBody", {}))
        if was and not now:
            yield "body: gone"
            return
        loose, strict = (now, was) if is_answer else (was, now)
        if _is_needed(strict) and not _is_needed(loose):
            yield f"body: {'may be left out' if is_answer else 'must be given'}"
        yield from (f"body {fault}" for fault in self._of_content(was, now, is_answer=is_answer))

    def _of_answer(self, old: Part, new: Part) -> Iterator[str]:
        yield from self._of_content(old, new, is_answer=True)
        headers = {name.lower(): self.new.resolve(header) for name, header in new.get("headers", {}).items()}
        for name, header in old.get("headers", {}).items():
            if name.lower() not in headers:
                yield f"header {name}: gone"
                continue
            yield from self._of_value(f"header {name}", self.old.resolve(header), headers[name.lower()], is_answer=True)

    def _of_value(self, name: str, old: Part, new: Part, *, is_answer: bool) -> Iterator[str]:
        """Yield what breaks of a parameter or header."""
        loose, strict = (new, old) if is_answer else (old, new)
        if _is_needed(strict) and not _is_needed(loose):
            yield f"{name}: {'may be left out' if is_answer else 'must be given'}"
        if any(old.get(word) != new.get(word) for word in _WORDING):
            yield f"{name}: written in another way"
        yield from (f"{name} {fault}" for fault in self._compare(old, new, is_answer=is_answer))
        yield from (f"{name} {fault}" for fault in self._of_content(old, new, is_answer=is_answer))

    def _of_content(self, old: Part, new: Part, *, is_answer: bool) -> Iterator[str]:
        for media_type, part in old.get("content", {}).items():
            if media_type not in new.get("content", {}):
                yield f"{media_type}: gone"
                continue
            faults = self._compare(part, new["content"][media_type], is_answer=is_answer)
            yield from (f"{media_type} {fault}" for fault in faults)

    def _compare(self, old: Part, new: Part, *, is_answer: bool) -> tuple[str, ...]:
        comparison = Comparison(self.old, self.new, is_answer)
        return comparison.faults(old.get("schema", True), new.get("schema", True))


def _whole(item: Part, method: str, side: Side) -> Part:
    """Return an operation with what it has from its path and from the document."""
    call = item[method]
    parameters = [side.resolve(one) for one in (*item.get("parameters", ()), *call.get("parameters", ()))]
    return {
        **call,
        "security": call.get("security", side.document.get("security", [])),
        "parameters": {(one["in"], _name(one)): one for one in parameters},
    }


def _name(parameter: Part) -> str:
    return str(parameter["name"].lower() if parameter["in"] == "header" else parameter["name"])


def _is_needed(part: Part) -> bool:
    return bool(part.get("required", False))


def main(arguments: list[str], say: Callable[[str], None] = print) -> int:
    """Compare two files; return 1 when something breaks, 2 when the command was not understood."""
    if len(arguments) != 2:  # noqa: PLR2004
        say("usage: python -m tools.openapi_changes OLD.json NEW.json")
        return 2
    old, new = (json.loads(Path(name).read_text()) for name in arguments)
    found = breaking_changes(old, new)
    for line in found:
        say(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
