"""The OpenAPI document is one that others can build on: a linter finds nothing, and nothing is left unsaid."""

import importlib
import json
from collections.abc import Iterator
from pkgutil import iter_modules
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from service.api import routes
from tests.clients.node import ROOT, NodePrograms

ANY_MAY_ANSWER = {"401", "403", "500"}
"""What each operation that needs a token may answer, whatever it does."""


@pytest.fixture(scope="module")
def document() -> Any:
    return json.loads((ROOT / "openapi.json").read_text())


def test_the_linter_finds_nothing(node: NodePrograms) -> None:
    """Rules and exceptions, with their reasons, are in `redocly.yaml` and `.redocly.lint-ignore.yaml` here."""
    config = ROOT / "tests" / "clients" / "redocly.yaml"
    options = ("--config", config, "--format", "stylish", "--max-problems", "1000")
    done = node.run("redocly", "lint", "openapi.json", *options)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_body_has_examples_that_the_service_takes(document: Any) -> None:
    readers = body_readers()
    schemas = {name: schema for name, schema in json_bodies(document) if name in readers}
    assert set(schemas) == set(readers)
    faults = {name: fault for name, schema in schemas.items() if (fault := fault_of(document, schema, readers[name]))}
    assert faults == {}


def fault_of(document: Any, schema: Any, reader: "TypeAdapter[Any]") -> str | None:
    """Return what is wrong with the examples of a body."""
    examples = list(examples_of(document, schema))
    try:
        for example in examples:
            reader.validate_python(example)
    except ValidationError as error:
        return str(error)
    return None if examples else "there is none"


def test_every_guarded_operation_declares_what_any_may_answer(document: Any) -> None:
    guarded = [operation for operation in operations(document) if operation["security"]]
    assert guarded
    assert [item["operationId"] for item in guarded if not set(item["responses"]) >= ANY_MAY_ANSWER] == []


def test_every_refusal_is_a_problem_document(document: Any) -> None:
    refusals = {
        (operation["operationId"], status): set(response["content"])
        for operation in operations(document)
        for status, response in operation["responses"].items()
        if int(status) >= 400
    }
    strange = {place: types for place, types in refusals.items() if types != {"application/problem+json"}}
    assert strange == {("get_readiness", "503"): {"application/json"}}, "a readiness that is not so good is no error"


def test_what_is_made_or_begun_says_where_it_is(document: Any) -> None:
    silent = [
        operation["operationId"]
        for operation in operations(document)
        for status, response in operation["responses"].items()
        if status in {"201", "202"} and "Location" not in response.get("headers", {})
    ]
    assert silent == []


def test_instants_say_that_they_are_instants(document: Any) -> None:
    """Generators make a date of a string only if its format says so."""
    unsaid = [
        f"{owner}.{name}"
        for owner, schema in document["components"]["schemas"].items()
        for name, value in schema.get("properties", {}).items()
        if (name.endswith("_at") or name == "at") and '"format": "date-time"' not in json.dumps(value)
    ]
    assert unsaid == []


def operations(document: Any) -> Iterator[Any]:
    """Yield the operations of the document."""
    for path in document["paths"].values():
        yield from path.values()


def json_bodies(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield each operation that takes JSON, with the schema of it."""
    for operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            yield operation["operationId"], content["application/json"]["schema"]


def examples_of(document: Any, schema: Any) -> Iterator[Any]:
    """Yield the examples of a schema and of what it refers to."""
    yield from schema.get("examples", ())
    if "$ref" in schema:
        yield from examples_of(document, document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    for choice in schema.get("anyOf", ()):
        yield from examples_of(document, choice)


def body_readers() -> "dict[str, TypeAdapter[Any]]":
    """Return what reads the body of each operation in the service itself."""
    modules = [importlib.import_module(f"{routes.__name__}.{found.name}") for found in iter_modules(routes.__path__)]
    return {
        route.name: TypeAdapter(route.body_field.field_info.annotation)
        for module in modules
        for route in module.router.routes
        if route.body_field is not None
    }
