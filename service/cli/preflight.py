"""`vigil preflight`: what a launch would run into, as a table and an exit code; and what refused one."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from service.cli.asking import Api, Refused, run
from service.cli.output import ExitCode, note, print_json, say
from service.cli.tables import Column, print_table

_STYLES = {"fail": "bold red", "warn": "yellow", "skipped": "dim", "pass": "green"}
Check = Mapping[str, Any]


def show(*, url: str, wish: dict[str, Any], as_json: bool, shows_all: bool) -> int:
    """Ask for a preflight and print it, the worst first; exit code 0 when a launch would be let through, else 1."""

    async def work(api: Api) -> int:
        document = await api.change("POST", "/preflights", wish)
        if as_json:
            print_json(document)
        else:
            _print(document, shows_all=shows_all)
        return ExitCode.REFUSED if document["outcome"] == "fail" else ExitCode.OK

    return run(url, work)


def tell_refusal(refusal: Refused, command: str, *, overridden: Collection[str]) -> ExitCode:
    """Say which checks refused a launch, what mends each, and the command that overrides them.

    A problem of another kind is raised again.
    """
    preflight = refusal.problem.get("context", {}).get("preflight")
    if preflight is None:
        raise refusal
    failed = [check for check in preflight["checks"] if check["outcome"] == "fail" and check["code"] not in overridden]
    note(str(refusal))
    for check in failed:
        note(f"  {check['code']}: {check['found']}" + (f"\n    remedy: {check['remedy']}" if check["remedy"] else ""))
    options = [f"--override {code}" for code in [*overridden, *(check["code"] for check in failed)]]
    note(f"if you know better: {command} {' '.join(options)}")
    return ExitCode.REFUSED


def _print(document: Mapping[str, Any], *, shows_all: bool) -> None:
    checks = sorted(document["checks"], key=lambda check: list(_STYLES).index(check["outcome"]))
    shown = [check for check in checks if shows_all or check["outcome"] in {"fail", "warn"}]
    if shown:
        print_table(COLUMNS, shown, empty="")
    counts = ", ".join(f"{_count(checks, outcome)} {outcome}" for outcome in _STYLES if _count(checks, outcome))
    version = document["engine_version"] or "of unknown version"
    say(f"{document['node']}:{document['port']}, SGLang {version}: {counts} in {document['took_s']:.1f} s")


def _count(checks: Sequence[Check], outcome: str) -> int:
    return sum(check["outcome"] == outcome for check in checks)


COLUMNS = (
    Column("outcome", lambda check: check["outcome"], styles=_STYLES),
    Column("check", lambda check: check["code"]),
    Column("found", lambda check: check["found"]),
    Column("remedy", lambda check: check["remedy"]),
)
