"""Tables: what is left out where there is little room, and that a pipe gets whole lines and nothing else."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from service.cli import tables
from service.cli.tables import GAP, Column, age, fitting, print_facts, print_table

COLUMNS = (
    Column("name", lambda row: row["name"]),
    Column("state", lambda row: row["state"], rank=1),
    Column("message", lambda row: row.get("message"), rank=2),
)
ROWS = [{"name": "chat", "state": "ready"}, {"name": "große", "state": "failed", "message": "x" * 200}]
columns = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5)), min_size=1, max_size=8)


def used(widths: list[int], kept: list[int]) -> int:
    return sum(widths[place] for place in kept) + GAP * (len(kept) - 1)


@given(columns=columns, room=st.integers(10, 200))
def test_what_stays_fits_or_is_what_always_stays(columns: list[tuple[int, int]], room: int) -> None:
    widths, ranks = [width for width, _ in columns], [rank for _, rank in columns]
    kept = fitting(widths, ranks, room)
    assert kept == sorted(set(kept))
    assert {place for place, rank in enumerate(ranks) if rank == 0} <= set(kept)
    assert used(widths, kept) <= room or all(ranks[place] == 0 for place in kept)
    gone = [ranks[place] for place in range(len(widths)) if place not in kept]
    assert all(rank >= max((ranks[place] for place in kept), default=0) for rank in gone)


def test_in_a_pipe_nothing_goes() -> None:
    assert fitting([500, 500], [0, 9], None) == [0, 1]


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, ROWS, empty="")
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["name   state   message", "chat   ready   -", f"große  failed  {'x' * 200}"]


def test_no_rows_are_told_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [], empty="there are none; make one")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "there are none; make one\n")


@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_line_is_longer_than_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "terminal_width", lambda: width)
    print_table(COLUMNS, ROWS, empty="")
    print_facts([("state", "ready"), ("message", "y" * 100)])
    out = capsys.readouterr().out
    assert max(cell_len(line) for line in out.splitlines()) <= width
    assert "chat" in out


def test_what_a_node_says_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [{"name": "chat", "state": "\x1b[2Jfine\r\n"}], empty="")
    assert "\x1b" not in capsys.readouterr().out


def test_empty_facts_are_left_out_and_zero_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts([("exit code", 0), ("pid", None), ("cause", {}), ("message", "")])
    assert capsys.readouterr().out == "exit code  0\n"


@pytest.mark.parametrize(
    ("instant", "said"),
    [
        ("2026-11-29T12:00:00Z", "0s"),
        ("2026-11-29T11:59:01Z", "59s"),
        ("2026-11-29T11:01:00Z", "59m"),
        ("2026-11-28T13:00:00Z", "23h"),
        ("2026-11-20T12:00:00Z", "9d"),
        ("2026-11-29T12:00:07Z", "0s"),
        (None, "-"),
    ],
)
def test_ages_are_in_their_largest_unit(instant: str | None, said: str) -> None:
    assert age(instant, now=datetime(2026, 11, 29, 12, tzinfo=UTC)) == said
