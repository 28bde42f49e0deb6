"""How long a start may still take, as the command line says it."""

from typing import Any

from service.cli.servers import COLUMNS
from service.cli.waiting import describe


def starting(**eta: Any) -> dict[str, Any]:
    return {
        "name": "llama",
        "state": "starting",
        "state_since_at": "2026-11-29T12:00:00Z",
        "node": "atlas",
        "contact": {"state": "ok"},
        "launch": {"phase": "loading_weights", "progress": None, "phase_started_at": "2026-11-29T12:00:00Z"},
        "verdict": None,
        "eta": {"remaining_p50_s": 37.4, "remaining_p90_s": 46.0, "is_overdue": False, **eta},
    }


def listed(server: dict[str, Any]) -> str:
    (column,) = (column for column in COLUMNS if column.heading == "ready in")
    return str(column.cell(server))


def test_the_time_that_is_left_is_said() -> None:
    assert "ready in 37 to 46 s" in describe(starting())
    assert listed(starting()) == "37-46s"


def test_a_start_that_takes_longer_than_any_before_has_no_time_left_to_be_said() -> None:
    """The numbers come from starts that were ready by now: the page has long said so."""
    overdue = starting(is_overdue=True)
    assert "longer than ever before" in describe(overdue)
    assert "ready in" not in describe(overdue)
    assert listed(overdue) == "longer than ever"
