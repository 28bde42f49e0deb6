"""One command's conversation with the service: what is refused or unanswered ends it with the exit code for that."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.cli.client import NotVigil, Unreachable, ask
from service.cli.output import ExitCode, exit_code_of, note, problem_line
from service.remote.http import NotConnected

PAGE = 200
PATIENCE_S = 150
"""How long a change may take that looks at a node first, as the checks before a launch do."""
RESEND_FOR_S = 30.0
"""A change whose answer was lost is sent again for so long, under the same key: it is carried out once."""
RESEND_EVERY_S = 0.5
_HTTP_ERRORS = 400


class Refused(Exception):
    """The service answered with a problem."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(problem_line(problem))
        self.status = status
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Api:
    """The service at one address. Every method raises Refused for a problem and Unreachable for no answer."""

    url: str

    async def get(self, path: str, **params: Any) -> Any:
        """Return the document of a GET; parameters that are None are left out."""
        return await self._ask("GET", path, params=_given(params))

    async def collect(
        self, path: str, *, filters: Mapping[str, Any] | None = None, limit: int | None = None
    ) -> dict[str, Any]:
        """Return a list as one page with all of its items, or the newest `limit`."""
        items: list[Any] = []
        cursor: str | None = None
        while True:
            size = PAGE if limit is None else min(PAGE, limit - len(items))
            page = await self.get(path, limit=size, cursor=cursor, **(filters or {}))
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None or (limit is not None and len(items) >= limit):
                return {"items": items, "next_cursor": cursor}

    async def change(self, method: str, path: str, body: Any = None, **request: Any) -> Any:
        """Return the document of a change, which is carried out once even if the service is restarted meanwhile.

        `request` may hold `content`, bytes in the place of a JSON body, and `params`.
        """
        request["headers"] = {"Idempotency-Key": f"cli-{uuid.uuid4()}"}
        if body is not None:
            request["json"] = body
        deadline: float | None = None
        while True:
            try:
                return await self._ask(method, path, timeout_s=PATIENCE_S, **request)
            except NotVigil:
                raise
            except Unreachable as error:
                if deadline is None and isinstance(error.__cause__, NotConnected):
                    raise
                deadline = deadline or time.monotonic() + RESEND_FOR_S
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(RESEND_EVERY_S)

    async def _ask(self, method: str, path: str, *, timeout_s: float = 0, **request: Any) -> Any:
        status, document = await ask(method, self.url, path, timeout_s=timeout_s, **request)
        if status >= _HTTP_ERRORS:
            raise Refused(status, document)
        return document


def run(url: str, work: Callable[[Api], Awaitable[int]]) -> int:
    """Do a command's work and return its exit code; a problem is told in one line on standard error."""
    try:
        return asyncio.run(_awaited(work(Api(url))))
    except Refused as refusal:
        note(str(refusal))
        return exit_code_of(refusal.status)
    except Unreachable as error:
        note(f"{error}. Check --url or VIGIL_URL, and that the service runs")
        return ExitCode.NO_ANSWER


async def _awaited(work: Awaitable[int]) -> int:
    return await work


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}
