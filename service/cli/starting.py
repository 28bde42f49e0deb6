"""`vigil launch`, `stop` and `restart`: accepted by the service at once, and waited for on request."""

from dataclasses import dataclass

from rich.console import Console

from service.cli import waiting
from service.cli.asking import Api, Refused, run
from service.cli.output import ExitCode, print_json, say
from service.cli.preflight import tell_refusal


@dataclass(frozen=True, slots=True)
class Wish:
    """Which server, by which version of its profile, and which checks may fail."""

    server: str
    version: int | None = None
    override: tuple[str, ...] = ()


def begin(url: str, action: str, wish: Wish, *, wait_s: float | None, as_json: bool) -> int:
    """Ask for the action and say which operation carries it out; `wait_s` None does not wait for it."""

    async def work(api: Api) -> int:
        try:
            operation = await api.change("POST", f"/servers/{wish.server}/{action}", _body(wish))
        except Refused as refusal:
            again = f"vigil {action} {wish.server}" + (f" --version {wish.version}" if wish.version else "")
            return tell_refusal(refusal, again, overridden=wish.override)
        if wait_s is None:
            if as_json:
                print_json(operation)
            else:
                say(f"operation {operation['id']}: {operation['kind']} of {operation['server']}")
            return ExitCode.OK
        until = "stopped" if action == "stop" else "ready"
        console = Console(stderr=True)
        code = await waiting.wait(console, url=url, server=wish.server, until=until, timeout_s=wait_s)
        if as_json:
            print_json(await api.get(f"/operations/{operation['id']}"))
        return code

    return run(url, work)


def _body(wish: Wish) -> dict[str, object] | None:
    body = {"version": wish.version, "override": list(wish.override) or None}
    return {name: value for name, value in body.items() if value is not None} or None
