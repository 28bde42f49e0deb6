"""Tables for people: on a narrow terminal the lesser columns go, in a pipe every line stays whole."""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.cli.output import note, print_json, printable, say

GAP = 2
NONE = "-"
STATE_STYLES: Mapping[str, str] = {
    "ready": "green",
    "ok": "green",
    "succeeded": "green",
    "starting": "cyan",
    "running": "cyan",
    "stopping": "cyan",
    "unready": "yellow",
    "slow": "yellow",
    "suspected_hung": "bold red",
    "lost": "bold red",
    "failed": "bold red",
}
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, the text of a row's cell, and how soon it goes when there is no room.

    Rank 0 stays always; of the others the highest rank goes first. `styles` colours a cell by its whole text.
    """

    heading: str
    cell: Callable[[Mapping[str, Any]], object]
    rank: int = 0
    styles: Mapping[str, str] | None = None


def print_page(columns: Sequence[Column], page: Mapping[str, Any], *, empty: str, as_json: bool) -> None:
    """Print a page of a list: as the API gives it, or as a table of its items."""
    if as_json:
        print_json(page)
    else:
        print_table(columns, page["items"], empty=empty)


def print_table(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], *, empty: str) -> None:
    """Print rows on standard output; `empty`, on standard error, says what to do when there are none."""
    if not rows:
        note(empty)
        return
    cells = [[_text(column, row) for column in columns] for row in rows]
    widths = [
        max(cell_len(column.heading), *(cell_len(line[place]) for line in cells))
        for place, column in enumerate(columns)
    ]
    room = terminal_width()
    kept = fitting(widths, [column.rank for column in columns], room)
    if room is None:
        for line in ([column.heading for column in columns], *cells):
            padded = (cell + " " * (width - cell_len(cell) + GAP) for cell, width in zip(line, widths, strict=True))
            say("".join(padded).rstrip())
        return
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    for place in kept:
        table.add_column(columns[place].heading, overflow="fold")
    for line in cells:
        table.add_row(*(_styled(columns[place], line[place]) for place in kept))
    Console(width=room, highlight=False).print(table)


def fitting(widths: Sequence[int], ranks: Sequence[int], room: int | None) -> list[int]:
    """Return which columns are shown: all if they fit or there is no limit, else without those of the highest rank."""
    kept = list(range(len(widths)))
    while room is not None and sum(widths[place] + GAP for place in kept) - GAP > room:
        rank = max(ranks[place] for place in kept)
        if rank == 0:
            break
        kept.remove(next(place for place in reversed(kept) if ranks[place] == rank))
    return kept


def print_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Print names and values, a line each; what is empty is left out."""
    shown = [(name, printable(str(value))) for name, value in facts if value or value == 0]
    width = max(len(name) for name, _ in shown)
    room = terminal_width()
    if room is None:
        for name, value in shown:
            say(f"{name:<{width}}{' ' * GAP}{value}")
        return
    table = Table(box=None, show_header=False, padding=(0, GAP, 0, 0), pad_edge=False)
    table.add_column(min_width=width, no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in shown:
        table.add_row(Text(name, style="dim"), Text(value, style=STATE_STYLES.get(value, "")))
    Console(width=room, highlight=False).print(table)


def terminal_width() -> int | None:
    """Return how many characters a line has; None in a pipe or a file, where a line is as long as it is."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def age(instant: str | None, *, now: datetime | None = None) -> str:
    """Return how long ago an instant was, in its largest unit: 12s, 5m, 3h, 2d."""
    if instant is None:
        return NONE
    passed_s = max(0, int(((now or datetime.now(UTC)) - datetime.fromisoformat(instant)).total_seconds()))
    for unit_s, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m")):
        if passed_s >= unit_s:
            return f"{passed_s // unit_s}{unit}"
    return f"{passed_s}s"


def _text(column: Column, row: Mapping[str, Any]) -> str:
    value = column.cell(row)
    return NONE if value is None or value == "" else printable(str(value)).replace("\n", " ")


def _styled(column: Column, text: str) -> Text:
    return Text(text, style=(column.styles or {}).get(text, ""))
