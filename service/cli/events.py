"""`vigil events`: everything that happens, a line each, through restarts of the service."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from service.cli import streaming
from service.cli.asking import Api, run
from service.cli.output import ExitCode, note, print_json_line, printable, say

Document = Mapping[str, Any]


def follow(url: str, wanted: Mapping[str, Any], *, after: int | None, as_json: bool) -> int:
    """Print events until it is interrupted; what is missing because it is not kept any more is told."""
    params = {name: value for name, value in wanted.items() if value}

    async def work(_: Api) -> int:
        start = None if after is None else str(after)
        async with aclosing(streaming.follow(url, "/events", params=params, after=start)) as events:
            async for event in events:
                _print(json.loads(event.data), as_json=as_json)
        return ExitCode.OK

    return run(url, work)


def line_of(event: Document) -> str:
    """Return an event in one line: when, about what, what kind, what it says."""
    about = event["server"] or event["server_id"] or event["node"] or event["node_id"] or "-"
    return printable(f"{event['at']} {about} {event['kind']}: {_words(event['document'])}").replace("\n", " ")


def _print(event: Document, *, as_json: bool) -> None:
    if as_json:
        print_json_line(event)
    elif event["kind"] == "gap":
        note(f"({event['detail']})")
    else:
        say(line_of(event))


def _words(document: Document) -> str:
    """Return what a document says: from what to what, and the reason in words, as far as its kind has them."""
    move = f"{document.get('before') or '-'} -> {document['after']}" if "after" in document else ""
    operation = f"{document['operation']} {document['state']}, {document['step']}" if "operation" in document else ""
    code = document.get("code") or ""
    words = document.get("message") or document.get("summary") or document.get("detail") or ""
    return ", ".join(filter(None, [move, operation, code, words]))
