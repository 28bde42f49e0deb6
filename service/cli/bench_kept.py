"""`vigil bench import`, `runs`, `baseline`: what is kept of benchmarks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.benchmarks.importing import DEFAULT_LIMITS
from service.benchmarks.svg import number
from service.cli.asking import Api, run
from service.cli.output import ExitCode, note, print_json, say
from service.cli.tables import STATE_STYLES, Column, age, print_page

MAX_BYTES = DEFAULT_LIMITS.max_bytes


def import_file(url: str, file: Path, *, about: Mapping[str, Any], as_json: bool) -> int:
    """Import a result file as a run and print what was found in it."""
    try:
        if file.stat().st_size > MAX_BYTES:
            note(f"{file} is larger than {MAX_BYTES // 2**20} MiB: write the result without per-request details")
            return ExitCode.USAGE
        content = file.read_bytes()
    except OSError as error:
        note(f"{file} cannot be read: {error.strerror}")
        return ExitCode.USAGE
    given = {name: value for name, value in about.items() if value is not None}

    async def work(api: Api) -> int:
        made = await api.change("POST", "/benchmark-runs/import", content=content, params=given)
        if as_json:
            print_json(made)
        else:
            say(f"run {made['id']}: {made['state']}")
            for point in made["points"]:
                say(f"  {point['load']}: {_headline(point)}, mean of {point['repeats']}")
        return ExitCode.OK

    return run(url, work)


def show_runs(url: str, wanted: Mapping[str, str | None], *, limit: int, as_json: bool) -> int:
    """Print the newest runs that are wanted."""

    async def work(api: Api) -> int:
        page = await api.collect("/benchmark-runs", limit=limit, filters=wanted)
        print_page(COLUMNS, page, empty="there are no such runs; begin one with vigil bench run", as_json=as_json)
        return ExitCode.OK

    return run(url, work)


def pin(url: str, profile: str, run_id: str, *, as_json: bool) -> int:
    """Make a run the baseline of its profile and benchmark."""

    async def work(api: Api) -> int:
        made = await api.change("PUT", f"/profiles/{profile}/baseline", {"run": run_id})
        if as_json:
            print_json(made)
        else:
            of = f" for {made['benchmark']}" if made["benchmark"] else ""
            say(f"the baseline of {made['profile']}{of} is {made['run']}")
        return ExitCode.OK

    return run(url, work)


def _headline(point: Mapping[str, Any]) -> str:
    value = point["metrics"].get("output_throughput_tps")
    return "no sound numbers" if value is None else f"{number(value)} tok/s"


def _loads(row: Mapping[str, Any]) -> str:
    return "; ".join(f"{point['load']}: {_headline(point)}" for point in row["points"])


def _verdict(row: Mapping[str, Any]) -> object:
    return row["baseline"] and row["baseline"]["verdict"]


COLUMNS = (
    Column("run", lambda row: row["id"]),
    Column("state", lambda row: row["state"], styles={**STATE_STYLES, "degraded": "yellow"}),
    Column("benchmark", lambda row: row["benchmark"]),
    Column("profile", lambda row: row["profile"], rank=1),
    Column("server", lambda row: row["server"], rank=4),
    Column("baseline", _verdict, rank=2, styles={"regressed": "bold red", "improved": "green"}),
    Column("age", lambda row: age(row["created_at"]), rank=5),
    Column("numbers", _loads, rank=3),
)
