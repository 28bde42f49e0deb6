"""Errors as RFC 9457 problem documents, and how they stand in the OpenAPI document."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from service.api.schemas.common import FieldProblem, Problem
from service.errors import InvalidInput, VigilError
from service.logs import EventLog

MEDIA_TYPE = "application/problem+json"
_events = EventLog("api")


def problem_response(error: VigilError, *, errors: Sequence[FieldProblem] | None = None) -> JSONResponse:
    """Return an error as a problem document."""
    problem = Problem(
        type=f"urn:vigil:problem:{error.code}",
        title=error.title,
        status=error.status,
        detail=error.detail,
        code=error.code,
        remedy=error.remedy_text,
        errors=list(errors) if errors else None,
        context=error.context or None,
    )
    body = problem.model_dump(mode="json", exclude_none=True)
    return JSONResponse(body, status_code=error.status, media_type=MEDIA_TYPE, headers=dict(error.headers))


def problems(*errors: type[VigilError]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route for the errors that it may give, grouped by status."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for error in errors:
        entry = by_status.setdefault(
            error.status, {"description": "", "content": {MEDIA_TYPE: {"schema": _reference(), "examples": {}}}}
        )
        entry["description"] = "; ".join(filter(None, [entry["description"], f"`{error.code}`: {error.title}"]))
        entry["content"][MEDIA_TYPE]["examples"][error.code] = {"$ref": f"#/components/examples/{error.code}"}
    return by_status


def with_problems(
    responses: Mapping[int | str, dict[str, Any]], *errors: type[VigilError]
) -> dict[int | str, dict[str, Any]]:
    """Return a route's `responses` with further errors that it may give."""
    merged = dict(responses)
    for code, entry in problems(*errors).items():
        if code not in merged:
            merged[code] = entry
            continue
        examples = {**merged[code]["content"][MEDIA_TYPE]["examples"], **entry["content"][MEDIA_TYPE]["examples"]}
        content = {**merged[code]["content"], MEDIA_TYPE: {"schema": _reference(), "examples": examples}}
        merged[code] = {"description": f"{merged[code]['description']}; {entry['description']}", "content": content}
    return merged


def install(app: FastAPI) -> None:
    """Make every error of the application a problem document."""
    app.add_exception_handler(VigilError, _vigil_error)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _validation_error)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _http_exception)  # type: ignore[arg-type]
    app.add_exception_handler(Exception, _unexpected)


async def _vigil_error(_request: Request, error: VigilError) -> JSONResponse:
    errors = error.context.pop("errors", None)
    return problem_response(error, errors=errors if isinstance(errors, list) else None)


async def _validation_error(_request: Request, error: RequestValidationError) -> JSONResponse:
    """Name each field and what is wrong with it; what was sent is not repeated, it may hold a secret."""
    places = [
        FieldProblem(place=".".join(str(part) for part in item["loc"]), message=_plain(item["msg"]))
        for item in error.errors()
    ]
    detail = "; ".join(f"{item.place}: {item.message}" for item in places)
    return problem_response(InvalidInput(detail), errors=places)


async def _http_exception(request: Request, error: HTTPException) -> JSONResponse:
    """Turn the framework's own errors into problems: a body that cannot be decoded, 404 and 405 with their headers."""
    if error.status_code == status.HTTP_400_BAD_REQUEST:
        return problem_response(InvalidInput("body: it is not JSON in UTF-8"))
    headers = dict(error.headers or {})
    if error.status_code == status.HTTP_405_METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_of(request)) or headers.get("Allow", "")
    problem = Problem(
        type="about:blank",
        title=str(error.detail),
        status=error.status_code,
        detail=str(error.detail),
        code={404: "no_such_route", 405: "method_not_allowed"}.get(error.status_code, "http_error"),
        remedy="Look at /docs for the routes and their methods.",
    )
    return JSONResponse(
        problem.model_dump(mode="json", exclude_none=True),
        status_code=error.status_code,
        media_type=MEDIA_TYPE,
        headers=headers,
    )


def _methods_of(request: Request) -> list[str]:
    """Return the methods that the document has for a path; the framework names those of one of its routes only."""
    paths = request.app.openapi()["paths"]
    found = [methods for path, methods in paths.items() if compile_path(path)[0].match(request.url.path)]
    return sorted({method.upper() for methods in found for method in methods})


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    _events.failure("request_failed", method=request.method, path=request.url.path, error=type(error).__name__)
    return problem_response(VigilError("an unexpected error; the service's log has the traceback"))


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")


def _reference() -> dict[str, str]:
    return {"$ref": "#/components/schemas/Problem"}


def example(error: type[VigilError]) -> dict[str, object]:
    """Return the problem document of an error as the OpenAPI document shows it."""
    return {
        "type": f"urn:vigil:problem:{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.title,
        "code": error.code,
        "remedy": error.remedy,
    }
