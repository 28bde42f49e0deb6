"""`vigil draft-rename`: has a running service write a draft anew under the names that an engine loads."""

import asyncio
import json
import sys
from typing import Any

from rich.console import Console

from service.cli.client import Unreachable, post_json

DONE, REFUSED, NO_ANSWER, USAGE = 0, 1, 2, 3
COPY_DEADLINE_S = 960
"""A little more than the service gives the node for the copy."""
_HTTP_OK, _HTTP_NOT_FOUND, _HTTP_INVALID = 200, 404, 422
_MIB = 2**20


def run(*, url: str, node: str, body: dict[str, Any], as_json: bool) -> int:
    """Ask for the rename and print what came of it; exit code 0: done, 1: refused, 2: no answer, 3: a wrong request."""
    errors = Console(stderr=True)
    try:
        question = post_json(url, f"/nodes/{node}/draft-renames", body, timeout_s=COPY_DEADLINE_S)
        status, document = asyncio.run(question)
    except Unreachable as error:
        _say(errors, str(error))
        return NO_ANSWER
    if status != _HTTP_OK:
        _say(errors, f"{document['code']}: {document['detail']}. {document['remedy']}")
        return USAGE if status in {_HTTP_NOT_FOUND, _HTTP_INVALID} else REFUSED
    if as_json:
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        _print(Console(), document)
    return DONE


def _print(console: Console, renamed: dict[str, Any]) -> None:
    for pattern in renamed["patterns"]:
        _say(console, pattern)
    if renamed["still_missing"]:
        _say(console, f"still without weights, export the draft again: {', '.join(renamed['still_missing'])}")
    if renamed["note"]:
        _say(console, renamed["note"])
    if not renamed["is_written"]:
        _say(console, f"a dry run: {renamed['destination']} was not written")
        return
    size_mib = renamed["weight_bytes"] // _MIB
    files = len(renamed["weight_files"])
    _say(console, f"written to {renamed['destination']} on {renamed['node']}: {files} weight files, {size_mib} MiB")
    if renamed["left_out"]:
        _say(console, f"not copied: {', '.join(renamed['left_out'])}")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
