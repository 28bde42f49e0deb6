"""Talks to a running service, as the operators' commands do."""

from typing import Any

from service.cli.credentials import headers
from service.remote.http import RequestFailed, open_client

SLACK_S = 15
"""How much longer than the question itself an answer may take."""


_REDIRECTS, _HTTP_ERRORS, _SERVER_ERRORS = 300, 400, 500


class Unreachable(Exception):
    """The service does not answer at its address."""


class NotVigil(Unreachable):
    """Something else answers there; nothing of what was asked was done."""


async def get_json(
    url: str, path: str, *, params: dict[str, Any] | None = None, timeout_s: float = 0
) -> tuple[int, Any]:
    """Return status and document of one GET; Unreachable if the service cannot be reached."""
    return await ask("GET", url, path, timeout_s=timeout_s, params=params)


async def post_json(url: str, path: str, body: dict[str, Any], *, timeout_s: float) -> tuple[int, Any]:
    """Return status and document of one POST; Unreachable if the service cannot be reached or is lost meanwhile."""
    return await ask("POST", url, path, timeout_s=timeout_s, json=body)


async def ask(method: str, url: str, path: str, *, timeout_s: float = 0, **request: Any) -> tuple[int, Any]:
    """Return status and document of one request; Unreachable if the service cannot be reached.

    It carries the token of `credentials`; redirects are not followed, so nobody else gets that.
    """
    try:
        async with open_client(url, headers=headers(), timeout_s=timeout_s + SLACK_S) as client:
            response = await client.request(method, f"/api/v1{path}", **request)
            document = response.json() if response.content else None
    except RequestFailed as error:
        raise Unreachable(f"{url} does not answer: {type(error).__name__}") from error
    except ValueError as error:
        raise Unreachable(f"{url} answers, but not as Vigil does") from error
    check_origin(url, response.status_code, document)
    return response.status_code, document


def check_origin(url: str, status: int, document: Any) -> None:
    """Raise Unreachable for an answer that Vigil never gives: a redirect, or an error that is no problem document.

    An engine's "not found" must not pass for that of a server, nor a redirect for done. What a proxy says while the
    service is restarted (502, 503) is worth asking again.
    """
    is_problem = isinstance(document, dict) and "code" in document
    if status >= _SERVER_ERRORS and not is_problem:
        raise Unreachable(f"{url} answers {status}, but not as Vigil does")
    if (status >= _HTTP_ERRORS and not is_problem) or _REDIRECTS <= status < _HTTP_ERRORS:
        raise NotVigil(f"{url} answers {status}, but not as Vigil does")
