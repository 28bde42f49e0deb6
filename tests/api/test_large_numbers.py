"""Numbers that no database has room for are refused like any other bad input, wherever one is sent."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import RECIPE, Api

HUGE = 10**30
REQUESTS: list[tuple[str, str, object]] = [
    ("GET", f"/profiles/p/versions/{HUGE}", None),
    ("POST", "/servers", {"name": "two", "profile": "p", "node": "atlas", "version": HUGE}),
    ("POST", "/servers", {"name": "two", "profile": "p", "node": "atlas", "gpus": [HUGE]}),
    ("POST", "/servers/adopt", {"name": "two", "node": "atlas", "pid": HUGE}),
    ("POST", "/servers/one/launch", {"version": HUGE}),
    ("POST", "/servers/one/restart", {"version": HUGE}),
    ("POST", "/preflights", {"profile": "p", "node": "atlas", "version": HUGE}),
    ("POST", "/preflights", {"profile": "p", "node": "atlas", "gpus": [HUGE]}),
    ("POST", f"/benchmark-runs/import?profile=p&profile_version={HUGE}", {}),
    ("GET", f"/benchmark-runs/br_1/log?point={HUGE}", None),
    ("GET", f"/benchmark-runs/br_1/log?repeat={HUGE}", None),
    ("GET", f"/benchmark-runs/br_1/log?offset={HUGE}", None),
    ("GET", f"/benchmark-runs/br_1/raw?point={HUGE}", None),
    ("GET", f"/benchmark-runs/br_1/raw?repeat={HUGE}", None),
    ("GET", f"/launches/ln_1/log?offset={HUGE}", None),
]


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS, ids=lambda value: str(value)[:60])
async def test_a_number_without_measure_is_refused(api: Api, method: str, path: str, body: object) -> None:
    await api.add_node()
    await api.add_server()
    status, problem = await api.call(method, path, body)
    assert (status, problem["code"]) == (422, "invalid_input"), problem


async def test_every_whole_number_that_is_sent_has_a_bound(api: Api) -> None:
    """Those of `server_args` have none: they are the engine's."""
    document = (await api.http.get("/openapi.json")).json()
    shapes = document["components"]["schemas"]
    calls = [operation for path in document["paths"].values() for operation in path.values()]
    asked = [unbounded(shapes, one["schema"], one["name"]) for call in calls for one in call.get("parameters", ())]
    sent = [
        unbounded(shapes, part["schema"], call["operationId"])
        for call in calls
        for part in call.get("requestBody", {}).get("content", {}).values()
    ]
    assert {place for places in (*asked, *sent) for place in places} == set()


async def test_arguments_of_the_engine_may_be_large(api: Api) -> None:
    recipe = {**RECIPE, "server_args": {"random-seed": HUGE}}
    status, made = await api.call("POST", "/profiles", {"name": "large", "recipe": recipe})
    assert (status, made["recipe"]["server_args"]) == (201, {"random-seed": HUGE})


def unbounded(shapes: Any, schema: Any, place: str) -> Iterator[str]:
    """Yield where in a schema a whole number has no largest value."""
    if "$ref" in schema:
        schema = shapes[schema["$ref"].rsplit("/", 1)[1]]
    if schema.get("type") == "integer" and "maximum" not in schema:
        yield place
    items = [schema["items"]] if "items" in schema else []
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *items):
        yield from unbounded(shapes, part, place)
    for name, part in schema.get("properties", {}).items():
        yield from unbounded(shapes, part, f"{place}.{name}")
