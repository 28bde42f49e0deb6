"""Talks to a running service, as the operators' commands do."""

from typing import Any

from service.remote.http import RequestFailed, open_client

SLACK_S = 15
"""How much longer than the question itself an answer may take."""


class Unreachable(Exception):
    """The service does not answer at its address."""


async def get_json(
    url: str, path: str, *, params: dict[str, Any] | None = None, timeout_s: float = 0
) -> tuple[int, Any]:
    """Return status and document of one GET; Unreachable if the service cannot be reached."""
    try:
        async with open_client(url, headers={}, timeout_s=timeout_s + SLACK_S) as client:
            response = await client.get(f"/api/v1{path}", params=params)
            return response.status_code, response.json()
    except RequestFailed as error:
        raise Unreachable(f"{url} does not answer: {type(error).__name__}") from error
