"""`vigil compare`: two benchmark runs as a table, what was changed between them first."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from service.benchmarks.svg import number
from service.cli.asking import Api, run
from service.cli.output import ExitCode, note, print_json, say
from service.cli.tables import Column, print_table

Document = Mapping[str, Any]
SHOWN_DIFFERENCES = 12
_STYLES = {"improved": "green", "regressed": "bold red", "not_comparable": "yellow"}


def show(url: str, baseline: str, candidates: Sequence[str], *, wanted: Mapping[str, Any], as_json: bool) -> int:
    """Print a comparison; exit code 1 when the candidate regressed."""

    async def work(api: Api) -> int:
        made = await api.get(
            "/benchmark-comparisons", baseline=baseline.split(","), candidate=list(candidates), **wanted
        )
        if as_json:
            print_json(made)
        else:
            _print(made)
        return ExitCode.REFUSED if made["verdict"] == "regressed" else ExitCode.OK

    return run(url, work)


def _print(made: Document) -> None:
    say(f"{', '.join(made['candidate_runs'])} against {', '.join(made['baseline_runs'])}: {made['verdict']}")
    for point in made["points"]:
        say("")
        _print_point(point)
    for side in ("baseline", "candidate"):
        if made[f"only_{side}"]:
            note(f"only the {side} was measured at {', '.join(made[f'only_{side}'])}")


def _print_point(point: Document) -> None:
    say(f"{point['load']}: {point['verdict']} by {point['primary']}")
    for line in _headline(point["setup_differences"]):
        say(f"  {line}")
    print_table(COLUMNS, [*point["metrics"], *point["context"]], empty="neither side has numbers")
    for line in (*point["reasons"], *point["cautions"]):
        note(f"  {line}")


def _headline(differences: Sequence[Document]) -> Iterator[str]:
    """Yield what was changed, one field a line."""
    for item in differences[:SHOWN_DIFFERENCES]:
        yield f"{item['field']}: {_value(item['baseline'])} -> {_value(item['candidate'])}"
    if len(differences) > SHOWN_DIFFERENCES:
        yield f"and {len(differences) - SHOWN_DIFFERENCES} more; --json has them all"


def _value(value: object) -> str:
    return "unknown" if value is None else str(value)


def _side(name: str, row: Document) -> str:
    """Return a side's mean; a metric that is judged and one that only explains name it differently."""
    value = row[f"{name}_mean"] if f"{name}_mean" in row else row[name]
    return "" if value is None else number(value)


def _change(row: Document) -> str:
    change = row.get("change_percent")
    return "" if change is None else f"{change:+.1f} %"


def _interval(row: Document) -> str:
    if row.get("ratio_low") is None:
        return ""
    low, high = (100 * (row[name] - 1) for name in ("ratio_low", "ratio_high"))
    return f"{low:+.1f} to {high:+.1f} %"


def _runs(row: Document) -> str:
    return f"{len(row['baseline_values'])}, {len(row['candidate_values'])}" if "baseline_values" in row else ""


def _verdict(row: Document) -> str:
    if "verdict" not in row:
        return ""
    more = f", {row['more_repeats']} more repeats" if row["more_repeats"] else ""
    return f"{row['verdict']}{more}"


COLUMNS = (
    Column("metric", lambda row: row["metric"]),
    Column("unit", lambda row: row["unit"], rank=3),
    Column("baseline", lambda row: _side("baseline", row)),
    Column("candidate", lambda row: _side("candidate", row)),
    Column("change", _change),
    Column("95 %", _interval, rank=1),
    Column("repeats", _runs, rank=2),
    Column("verdict", _verdict, styles=_STYLES),
)
