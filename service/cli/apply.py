"""`vigil apply`: makes the fleet as a file says, or prints what it would do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from service.cli import waiting
from service.cli.asking import Api, run
from service.cli.files import FileWrong, Parsed, read_file
from service.cli.fleet.applying import Applying, Fate, Outcome
from service.cli.fleet.plan import Present, plan
from service.cli.fleet.schema import FleetFile, fleet_of
from service.cli.fleet.steps import Action, Plan, Step
from service.cli.output import ExitCode, note, print_json, printable, say


@dataclass(frozen=True, slots=True)
class Options:
    """How far it may go; `wait_s` None does not wait for what is launched."""

    is_dry: bool
    prunes: bool
    restarts: bool
    wait_s: float | None
    as_json: bool


def apply(url: str, path: str, options: Options) -> int:
    """Return 0 if the fleet is, or with a dry run could be made, as the file says; 1 if not; 3 if the file is wrong."""
    try:
        parsed = read_file(path)
        file = fleet_of(parsed)
    except FileWrong as error:
        note(str(error))
        return ExitCode.USAGE

    async def work(api: Api) -> int:
        planned = plan(file, await _present(api, file), restarts=options.restarts, prunes=options.prunes)
        if options.is_dry:
            outcomes = [Outcome(step, Fate.PLANNED if step.is_possible else Fate.NOT_DONE) for step in planned.steps]
            for outcome in () if options.as_json else outcomes:
                _tell(parsed, outcome)
        else:
            applying = Applying(api, tell=lambda outcome: None if options.as_json else _tell(parsed, outcome))
            outcomes = await applying.carry_out(planned)
        if options.as_json:
            print_json({"steps": [outcome.document() for outcome in outcomes], "same": planned.same})
        else:
            say(_summary(planned, outcomes))
        code = _code(outcomes)
        return code if options.wait_s is None else max(code, await _wait(api, outcomes, options.wait_s))

    return run(url, work)


async def _present(api: Api, file: FleetFile) -> Present:
    """Return what the service has of the kinds that the file speaks of, and what its servers may refer to."""
    return Present(
        nodes=await _by_name(api, "/nodes"),
        profiles=await _by_name(api, "/profiles"),
        benchmarks=await _by_name(api, "/benchmarks") if file.benchmarks is not None else {},
        servers=await _by_name(api, "/servers") if file.servers is not None else {},
    )


async def _by_name(api: Api, path: str) -> dict[str, Any]:
    return {item["name"]: item for item in (await api.collect(path))["items"]}


def _tell(parsed: Parsed, outcome: Outcome) -> None:
    """Print a step with its fate; one that is not possible with the line of the file that asks for it."""
    step, fate = outcome.step, outcome.fate
    first, *fields = step.lines()
    prefix = "" if fate is Fate.PLANNED or not step.is_possible else f"{fate}: "
    say(printable("\n".join([f"{prefix}{first}", *fields])))
    if step.action is Action.REFUSED:
        note(parsed.message(step.place, step.words))
    elif outcome.why:
        note(f"{step.kind} {step.name}: {outcome.why}")


def _summary(planned: Plan, outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return f"nothing to do: all {planned.same} are as the file says"
    counts = [(fate, sum(outcome.fate is fate for outcome in outcomes)) for fate in Fate]
    parts = [f"{count} {'to do' if fate is Fate.PLANNED else fate}" for fate, count in counts if count]
    return ", ".join([*parts, f"{planned.same} as the file says"])


def _code(outcomes: Sequence[Outcome]) -> int:
    is_well = all(outcome.fate in {Fate.DONE, Fate.PLANNED} for outcome in outcomes)
    return ExitCode.OK if is_well else ExitCode.REFUSED


async def _wait(api: Api, outcomes: Sequence[Outcome], timeout_s: float) -> int:
    """Wait for all that was launched, one after the other: they start at the same time."""
    launched = [outcome.step for outcome in outcomes if outcome.fate is Fate.DONE and outcome.step.launches]
    code = int(ExitCode.OK)
    for step in launched:
        code = max(code, await _wait_for(api, step, timeout_s))
    return code


async def _wait_for(api: Api, step: Step, timeout_s: float) -> int:
    console = Console(stderr=True)
    return await waiting.wait(console, url=api.url, server=step.name, until="ready", timeout_s=timeout_s)
