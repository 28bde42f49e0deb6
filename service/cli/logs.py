"""`vigil logs`: the log of a launch from its node, whole or from its end on, and as it grows."""

import json
import re
import sys
from contextlib import aclosing
from dataclasses import dataclass

from service.cli import streaming
from service.cli.asking import Api, run
from service.cli.output import ExitCode, note

_LAUNCH_ID = re.compile(r"ln_[0-9a-z]{17}")


@dataclass(frozen=True, slots=True)
class Wish:
    """Whose log, and how much of it. `name` is a server, whose newest launch counts, or the id of a launch."""

    name: str
    tail: int | None
    contains: str | None
    follows: bool


def show(url: str, wish: Wish) -> int:
    """Print the log; followed, it goes on until the launch has ended, through restarts of the service."""

    async def work(api: Api) -> int:
        launch = await _launch_of(api, wish.name)
        if launch is None:
            note(f"{wish.name} was never launched: there is no log")
            return ExitCode.REFUSED
        path = f"/launches/{launch}/log"
        if wish.follows:
            start = await _print_tail(url, path, wish.tail) if wish.tail is not None else 0
            await _follow(url, path, start)
        elif wish.tail is not None:
            await _print_part(url, path, {"tail": wish.tail, **_filter(wish)})
        else:
            await _print_whole(url, path, _filter(wish))
        return ExitCode.OK

    return run(url, work)


async def _launch_of(api: Api, name: str) -> str | None:
    if _LAUNCH_ID.fullmatch(name):
        return name
    launch = (await api.get(f"/servers/{name}"))["launch"]
    return str(launch["id"]) if launch else None


async def _print_whole(url: str, path: str, params: dict[str, object]) -> None:
    """Print part after part until the end that the log had at the last look."""
    offset, size = 0, 1
    while offset < size:
        before = offset
        offset, size = await _print_part(url, path, {**params, "offset": offset})
        if offset == before:
            break


async def _print_tail(url: str, path: str, lines: int) -> int:
    offset, _ = await _print_part(url, path, {"tail": lines})
    return offset


async def _print_part(url: str, path: str, params: dict[str, object]) -> tuple[int, int]:
    """Print one part; returns where the next begins, and how long the log is."""
    data, headers = await streaming.read_text(url, path, params=params)
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return int(headers["X-Log-Next-Offset"]), int(headers["X-Log-Size"])


async def _follow(url: str, path: str, start: int) -> None:
    async with aclosing(streaming.follow(url, path, params={}, after=str(start))) as events:
        async for event in events:
            if event.kind == "end":
                return
            sys.stdout.buffer.write(json.loads(event.data).encode("utf-8", "replace"))
            sys.stdout.buffer.flush()


def _filter(wish: Wish) -> dict[str, object]:
    return {"contains": wish.contains} if wish.contains else {}
