"""The OpenAPI document: as FastAPI makes it, with problem documents in the place of FastAPI's own errors."""

import json
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.api.access import SCHEME
from service.api.idempotency import REPLAYED
from service.api.limits import EVENT_STREAM
from service.api.problems import MEDIA_TYPE, example
from service.api.schemas.common import Problem
from service.errors import VigilError

DESCRIPTION = (
    "Vigil launches, stops and restarts SGLang servers on GPU nodes over SSH, watches them, and says what each is "
    "doing and why. Things with a name are addressed by it or by their id. Lists are paged: newest first, `limit` up "
    "to 200, `cursor` from the page before. Requests that take time answer 202 with an operation. Errors are RFC 9457 "
    "problem documents with a stable `code`. New fields may come in answers, and new values of enumerations there: "
    "pass over what you do not know. Every request carries a token, `Authorization: Bearer vgl_…`; each route names "
    "the role that it needs: `viewer`, `operator` or `admin`, each of which may do what the one before it may."
)
SERVERS = [{"url": "/", "description": "The service that this document comes from."}]
TAGS = {
    "nodes": "GPU hosts that are reached over SSH, with their GPUs and who holds them.",
    "profiles": "Named, versioned recipes for servers, and how long their starts took.",
    "preflights": "Checks before a launch; nothing is launched.",
    "servers": "Profiles placed on nodes: launch, stop, restart, adopt, and wait for a state.",
    "launches": "Single attempts to bring a server up: phases, diagnosis, log, acceptance of speculation.",
    "operations": "Accepted requests that take time.",
    "history": "What happened: transitions, findings, and the stream of events.",
    "webhooks": "Addresses that are told what happens, and the log of what they were sent.",
    "access": "Tokens and their roles.",
    "benchmarks": "Workloads, their runs, baselines, comparisons, histories and schedules.",
    "operational": "Whether the service lives and does its work, and its metrics.",
}
HEADERS: dict[str, Any] = {
    "Location": {
        "description": "Where the thing that was made is, or the one to follow.",
        "required": True,
        "schema": {"type": "string"},
    },
    "IdempotencyReplayed": {
        "description": "`true` when this is the recorded answer to an earlier request with the same key.",
        "schema": {"type": "string", "const": "true"},
    },
}
TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of POST /tokens or `vigil token create`. A service that runs with open access needs none.",
}


def install(app: FastAPI) -> None:
    """Let the application give the document that `document` makes."""
    app.openapi = lambda: document(app)  # type: ignore[method-assign]


def document(app: FastAPI) -> dict[str, Any]:
    """Return the document; it is the same whatever the settings."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            description=DESCRIPTION,
            routes=app.routes,
            webhooks=app.webhooks.routes,
        )
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        for name, schema in problem.pop("$defs", {}).items():
            schemas.setdefault(name, schema)
        schemas["Problem"] = problem
        for path in made["paths"].values():
            for operation in path.values():
                _use_problems(operation)
                _use_events(operation)
                _tell_headers(operation)
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        made["components"]["schemas"] = dict(sorted(schemas.items()))
        examples = {error.code: {"value": example(error)} for error in _leaves(VigilError)}
        made["components"]["examples"] = dict(sorted(examples.items()))
        made["components"]["headers"] = HEADERS
        made["components"]["securitySchemes"] = {SCHEME: TOKEN}
        made["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
        made["servers"] = SERVERS
        app.openapi_schema = made
    return app.openapi_schema


def as_text(app: FastAPI) -> str:
    """Return the document as the committed file holds it."""
    return json.dumps(document(app), indent=2, ensure_ascii=False) + "\n"


def _leaves(error: type[VigilError]) -> Iterator[type[VigilError]]:
    """Yield the errors that have a code of their own."""
    if "code" in vars(error):
        yield error
    for child in error.__subclasses__():
        yield from _leaves(child)


def _use_problems(operation: dict[str, Any]) -> None:
    answer = operation["responses"].get("422")
    if answer and "application/json" in answer.get("content", {}):
        answer["content"].pop("application/json")
        answer["content"].setdefault(MEDIA_TYPE, {"schema": {"$ref": "#/components/schemas/Problem"}})


def _use_events(operation: dict[str, Any]) -> None:
    """Let a stream of events be described by its model alone; FastAPI calls it a string besides."""
    stream = operation["responses"].get("200", {}).get("content", {}).get(EVENT_STREAM)
    if stream and "$ref" in stream["schema"]:
        stream["schema"].pop("type")


def _tell_headers(operation: dict[str, Any]) -> None:
    """Name the headers of an answer to a request that was carried out."""
    may_replay = any(parameter["name"] == "Idempotency-Key" for parameter in operation.get("parameters", ()))
    for status, response in operation["responses"].items():
        headers = {
            **({"Location": _header("Location")} if status in {"201", "202"} else {}),
            **({REPLAYED: _header("IdempotencyReplayed")} if may_replay and status.startswith("2") else {}),
        }
        if headers:
            response["headers"] = headers


def _header(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{name}"}
