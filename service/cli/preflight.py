"""`vigil preflight`: what a launch would run into, as a table and an exit code."""

import asyncio
import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.cli.client import Unreachable, post_json

CLEAR, REFUSED, USAGE = 0, 1, 3
PATIENCE_S = 120
_HTTP_OK = 200
_STYLES = {"fail": "bold red", "warn": "yellow", "skipped": "dim", "pass": "green"}


def run(*, url: str, wish: dict[str, Any], as_json: bool, shows_all: bool) -> int:
    """Ask for a preflight and print it, the worst first; exit code 0 when a launch would be let through, else 1."""
    console = Console()
    try:
        status, document = asyncio.run(post_json(url, "/preflights", wish, timeout_s=PATIENCE_S))
    except Unreachable as error:
        console.print(str(error), highlight=False)
        return USAGE
    if status != _HTTP_OK:
        console.print(f"{document['detail']}. {document['remedy']}", highlight=False, soft_wrap=True)
        return USAGE
    if as_json:
        console.print_json(json.dumps(document))
    else:
        _print(console, document, shows_all=shows_all)
    return REFUSED if document["outcome"] == "fail" else CLEAR


def _print(console: Console, document: dict[str, Any], *, shows_all: bool) -> None:
    checks = sorted(document["checks"], key=lambda check: list(_STYLES).index(check["outcome"]))
    shown = [check for check in checks if shows_all or check["outcome"] in {"fail", "warn"}]
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("outcome", "check", "found", "remedy"):
        table.add_column(heading, overflow="fold")
    for check in shown:
        cells = check["outcome"], check["code"], check["found"], check["remedy"] or ""
        table.add_row(Text(cells[0], style=_STYLES[cells[0]]), *(Text(cell) for cell in cells[1:]))
    if shown:
        console.print(table)
    counts = ", ".join(f"{_count(checks, outcome)} {outcome}" for outcome in _STYLES if _count(checks, outcome))
    version = document["engine_version"] or "of unknown version"
    console.print(
        f"{document['node']}:{document['port']}, SGLang {version}: {counts} in {document['took_s']:.1f} s",
        highlight=False,
    )


def _count(checks: list[dict[str, Any]], outcome: str) -> int:
    return sum(check["outcome"] == outcome for check in checks)
