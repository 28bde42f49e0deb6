"""What breaks programs that live on the last release's document is found; what does not is let pass."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.node import ROOT
from tests.clients.shop import document
from tools.openapi_changes import breaking_changes, main

RELEASES = ROOT / "docs" / "releases"
Change = Callable[[Any], object]


class Parts:
    """A document by the names that the tables below use."""

    def __init__(self, made: Any) -> None:
        self.document = made
        self.paths = made["paths"]
        self.schemas = made["components"]["schemas"]
        self.list = made["paths"]["/things"]["get"]
        self.make = made["paths"]["/things"]["post"]
        self.item = made["paths"]["/things/{thing}"]
        self.sold = made["webhooks"]["sold"]["post"]
        self.thing = self.schemas["Thing"]["properties"]
        self.wish = self.schemas["ThingCreate"]["properties"]


def put(place: Any, **values: object) -> object:
    """Set keys of a part, or with None remove them; return the part."""
    for name, value in values.items():
        if value is None:
            del place[name]
        else:
            place[name] = value
    return place


BREAKING: dict[str, tuple[Change, str]] = {
    "path removed": (lambda d: d.paths.pop("/things/{thing}"), "GET /things/{thing}: gone"),
    "path parameter renamed": (
        lambda d: d.paths.update({"/things/{id}": d.paths.pop("/things/{thing}")}),
        "GET /things/{thing}: gone",
    ),
    "method removed": (lambda d: d.paths["/things"].pop("post"), "POST /things: gone"),
    "operationId changed": (lambda d: put(d.list, operationId="all"), "operationId was list_things, is all"),
    "operationId removed": (lambda d: put(d.list, operationId=None), "operationId was list_things, is None"),
    "role changed": (lambda d: put(d.list, security=[{"token": ["admin"]}]), "security was"),
    "security by default": (lambda d: put(d.list, security=None), "security was"),
    "scheme changed": (
        lambda d: put(d.document["components"]["securitySchemes"]["token"], scheme="basic"),
        "security scheme token: gone, or another one",
    ),
    "base address moved": (lambda d: put(d.document, servers=[{"url": "/v2"}]), "servers: / is gone"),
    "answer removed": (lambda d: d.make["responses"].pop("409"), "POST /things: answer 409: gone"),
    "media type of an answer removed": (
        lambda d: d.list["responses"]["200"]["content"].pop("text/csv"),
        "GET /things: answer 200: text/csv: gone",
    ),
    "header of an answer removed": (lambda d: put(d.make["responses"]["201"], headers={}), "header Location: gone"),
    "header of an answer optional": (
        lambda d: put(d.document["components"]["headers"]["Location"], required=False),
        "header Location: may be left out",
    ),
    "field of an answer removed": (lambda d: put(d.thing, price=None), "[].price: gone"),
    "optional field of an answer removed": (lambda d: put(d.thing, note=None), "[].note: gone"),
    "field of an answer renamed": (lambda d: put(d.thing, cost=d.thing.pop("price")), "[].price: gone"),
    "field of a part removed": (lambda d: put(d.schemas["Named"]["properties"], name=None), "[].name: gone"),
    "field of an answer optional": (lambda d: d.schemas["Thing"]["required"].remove("price"), "price: may be left out"),
    "field of a part optional": (lambda d: d.schemas["Named"]["required"].remove("name"), "name: may be left out"),
    "field of an answer nullable": (
        lambda d: put(d.thing, price={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        "price: now also null",
    ),
    "field of an answer nullable by its types": (
        lambda d: put(d.thing, price={"type": ["integer", "null"]}),
        "price: now also null",
    ),
    "field of an answer of a wider type": (lambda d: put(d.thing, price={"type": "number"}), "price: now also number"),
    "field of an answer of any type": (lambda d: put(d.thing, price={}), "price: now also anything"),
    "field of an answer of another type": (lambda d: put(d.thing, price={"type": "string"}), "now also string"),
    "enumeration of an answer opened": (lambda d: put(d.thing, colour={"type": "string"}), "now also any string"),
    "format of an answer dropped": (lambda d: put(d.thing["made_at"], format=None), "made_at: another format"),
    "values of a map in an answer": (
        lambda d: put(d.thing["labels"], additionalProperties={"type": "integer"}),
        "labels{}: now also integer",
    ),
    "field of a recursive shape": (lambda d: put(d.thing["parts"], items={"type": "string"}), "parts[]: now also"),
    "kind of an answer removed": (
        lambda d: put(d.thing, drive={"oneOf": [{"$ref": "#/components/schemas/Motor"}]}),
        "drive: never kind spring",
    ),
    "field of one kind removed": (lambda d: put(d.schemas["Motor"]["properties"], watts=None), "drive.watts: gone"),
    "all fields of one kind removed": (
        lambda d: put(d.schemas["Motor"]["properties"], watts=None, volts=None, phases=None),
        "answer 200: application/json drive.volts: gone",
    ),
    "parameter removed": (lambda d: d.list["parameters"].pop(0), "query limit: gone"),
    "parameter newly required": (lambda d: put(d.list["parameters"][0], required=True), "query limit: must be given"),
    "required parameter added": (
        lambda d: d.item["parameters"].append({"name": "by", "in": "query", "required": True, "schema": {}}),
        "GET /things/{thing}: query by: must be given",
    ),
    "bound of a parameter narrowed": (
        lambda d: put(d.list["parameters"][0]["schema"], maximum=100),
        "query limit .: no longer beyond maximum 100",
    ),
    "pattern of a parameter changed": (
        lambda d: put(d.item["parameters"][0]["schema"], pattern="^[a-f]+$"),
        "path thing .: another pattern",
    ),
    "parameter not nullable": (
        lambda d: put(d.list["parameters"][1], schema={"$ref": "#/components/schemas/Colour"}),
        "query colour .: no longer null",
    ),
    "parameter written otherwise": (lambda d: put(d.list["parameters"][0], style="deepObject"), "in another way"),
    "body removed": (lambda d: put(d.make, requestBody=None), "POST /things: body: gone"),
    "body added": (
        lambda d: put(d.list, requestBody={"required": True, "content": {}}),
        "GET /things: body: must be given",
    ),
    "media type of a body removed": (
        lambda d: put(d.make["requestBody"], content={"text/plain": {}}),
        "body application/json: gone",
    ),
    "field of a request removed": (lambda d: put(d.wish, size=None), "application/json size: gone"),
    "field of a request newly required": (
        lambda d: d.schemas["ThingCreate"]["required"].append("colour"),
        "colour: must be given",
    ),
    "required field of a request added": (
        lambda d: (put(d.wish, owner={"type": "string"}), d.schemas["ThingCreate"]["required"].append("owner")),
        "owner: must be given",
    ),
    "enumeration of a request narrowed": (
        lambda d: put(d.schemas["Colour"], enum=["red"]),
        "application/json colour: no longer 'blue'",
    ),
    "field of a request not nullable": (lambda d: put(d.wish, size={"type": "number"}), "size: no longer null"),
    "field of a request of a narrower type": (
        lambda d: put(d.wish, size={"type": ["integer", "null"]}),
        "size: no longer number",
    ),
    "shorter text in a request": (lambda d: put(d.wish["name"], maxLength=20), "name: no longer beyond maxLength 20"),
    "fewer items in a request": (lambda d: put(d.wish["tags"], maxItems=2), "tags: no longer beyond maxItems 2"),
    "at least so many items": (lambda d: put(d.wish["tags"], minItems=1), "tags: no longer beyond minItems 1"),
    "items of a request": (lambda d: put(d.wish["tags"], items={"type": "integer"}), "tags[]: no longer string"),
    "constant of a request": (lambda d: put(d.wish, version={"const": 2}), "version: no longer 1"),
    "kind of a request removed": (
        lambda d: put(d.wish, drive={"$ref": "#/components/schemas/Motor"}),
        "body application/json drive",
    ),
    "shape of a request closed": (
        lambda d: put(d.schemas["Motor"], additionalProperties=False),
        "drive: no longer fields of any name",
    ),
    "webhook removed": (lambda d: put(d.document, webhooks={}), "webhook POST sold: gone"),
    "header of a webhook removed": (lambda d: put(d.sold, parameters=[]), "header webhook-timestamp: gone"),
    "header of a webhook optional": (lambda d: put(d.sold["parameters"][0], required=False), "may be left out"),
    "body of a webhook optional": (lambda d: put(d.sold["requestBody"], required=False), "body: may be left out"),
    "field of a webhook removed": (
        lambda d: put(d.schemas["Sold"]["properties"], id=None),
        "webhook POST sold: body application/json id: gone",
    ),
    "answer to a webhook removed": (lambda d: d.sold["responses"].pop("410"), "webhook POST sold: answer 410: gone"),
    "keyword that is not understood": (lambda d: put(d.thing["price"], multipleOf=5), "price: another multipleOf"),
}

HARMLESS: dict[str, Change] = {
    "nothing": lambda _: None,
    "route added": lambda d: put(d.paths, **{"/more": {"get": d.list}}),
    "method added": lambda d: put(d.item, delete=d.list),
    "texts": lambda d: (put(d.list, description="Other words.", summary="x"), put(d.thing["price"], title="Price")),
    "default and example": lambda d: put(d.wish["size"], default=1, examples=[2]),
    "optional field of a request": lambda d: put(d.wish, owner={"type": "string"}),
    "field of an answer": lambda d: put(d.thing, owner={"type": "string"}),
    "required field of an answer": lambda d: d.schemas["Thing"]["required"].append("note"),
    "field of a closed shape in an answer": lambda d: put(d.schemas["Problem"]["properties"], more={"type": "string"}),
    "closed shape opened in an answer": lambda d: put(d.schemas["Problem"], additionalProperties=None),
    "security said for all": lambda d: (
        put(d.document, security=[{"token": ["viewer"]}]),
        put(d.list, security=None),
    ),
    "optional parameter": lambda d: d.list["parameters"].append({"name": "by", "in": "query", "schema": {}}),
    "parameter no longer required": lambda d: put(d.item["parameters"][0], schema={"type": "string"}),
    "header in other letters": lambda d: put(d.make["parameters"][0], name="idempotency-key"),
    "body no longer required": lambda d: put(d.make["requestBody"], required=False),
    "field of a request no longer required": lambda d: put(d.schemas["ThingCreate"], required=[]),
    "media type of a body": lambda d: put(d.make["requestBody"]["content"], **{"text/plain": {}}),
    "media type of an answer": lambda d: put(d.item["get"]["responses"]["200"]["content"], **{"text/plain": {}}),
    "error answer": lambda d: put(d.list["responses"], **{"429": {"description": ""}}),
    "header of an answer": lambda d: put(d.list["responses"]["200"], headers={"X": {"schema": {}}}),
    "value of an enumeration": lambda d: d.schemas["Colour"]["enum"].append("green"),
    "kind of an answer": lambda d: (
        put(d.schemas, Wind={**d.schemas["Motor"], "properties": {"kind": {"const": "wind"}}}),
        d.thing["drive"]["oneOf"].append({"$ref": "#/components/schemas/Wind"}),
    ),
    "kind of a request": lambda d: d.wish["drive"]["oneOf"].append({"type": "string"}),
    "wider bound of a request": lambda d: put(d.wish["name"], maxLength=100),
    "no pattern in a request": lambda d: put(d.wish["name"], pattern=None),
    "wider type in a request": lambda d: put(d.wish, size={"type": ["number", "null", "string"]}),
    "number for an integer in a request": lambda d: put(d.wish, count={"type": "number"}),
    "any type in a request": lambda d: put(d.wish, size={}),
    "narrower type in an answer": lambda d: put(d.thing, note={"type": "string"}),
    "bound in an answer": lambda d: put(d.thing["price"], minimum=0),
    "null written otherwise": lambda d: put(d.thing, note={"type": ["string", "null"]}),
    "reference written out": lambda d: put(d.thing, colour=dict(d.schemas["Colour"])),
    "part written out": lambda d: (
        put(d.schemas["Thing"], allOf=None),
        put(d.thing, name={"type": "string"}),
        d.schemas["Thing"]["required"].append("name"),
    ),
    "shape renamed": lambda d: (
        put(d.schemas, Other=d.schemas["Colour"]),
        put(d.thing, colour={"$ref": "#/components/schemas/Other"}),
    ),
    "header of a webhook": lambda d: d.sold["parameters"].append({"name": "x", "in": "header", "required": True}),
    "answer to a webhook": lambda d: put(d.sold["responses"], default={"description": ""}),
}


@pytest.mark.parametrize("name", BREAKING)
def test_what_breaks_is_found(name: str) -> None:
    change, expected = BREAKING[name]
    new = document()
    change(Parts(new))
    found = breaking_changes(document(), new)
    assert any(expected in line for line in found), found


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_harmless_passes(name: str) -> None:
    new = document()
    HARMLESS[name](Parts(new))
    assert breaking_changes(document(), new) == []


def test_each_is_told_once_and_its_place(tmp_path: Path) -> None:
    old, new = document(), document()
    put(Parts(new).wish, size=None)
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, made in zip(files, (old, new), strict=True):
        path.write_text(json.dumps(made))
    said: list[str] = []
    assert main([str(path) for path in files], said.append) == 1
    assert said == ["POST /things: body application/json size: gone"]
    assert main([str(files[0]), str(files[0])], said.append) == 0
    assert main([], said.append) == 2


def last_release() -> Path:
    """Return the document of the newest release."""
    return max(RELEASES.glob("openapi-*.json"), key=lambda path: [int(part) for part in re.findall(r"\d+", path.stem)])


def test_today_breaks_nothing_of_the_last_release() -> None:
    """A change that must break something comes with a new release: CONTRIBUTING.md says how."""
    today = json.loads((ROOT / "openapi.json").read_text())
    assert breaking_changes(json.loads(last_release().read_text()), today) == []


def test_a_field_taken_from_the_real_document_is_missed() -> None:
    old = json.loads(last_release().read_text())
    new = copy.deepcopy(old)
    del new["components"]["schemas"]["ServerPublic"]["properties"]["state"]
    assert "GET /api/v1/servers/{server}: answer 200: application/json state: gone" in breaking_changes(old, new)
