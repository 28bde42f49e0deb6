"""A small OpenAPI document with all that the comparison must follow, to be changed by its tests."""

from typing import Any


def document() -> dict[str, Any]:
    """Return the document, a new one each time."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "/"}],
        "paths": {
            "/things": {"get": _listing(), "post": _making()},
            "/things/{thing}": {"parameters": [_path_parameter()], "get": _showing()},
        },
        "webhooks": {"sold": {"post": _telling()}},
        "components": {
            "schemas": _schemas(),
            "headers": {"Location": {"required": True, "schema": {"type": "string"}}},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _path_parameter() -> dict[str, Any]:
    return {"name": "thing", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[a-z]+$"}}


def _listing() -> dict[str, Any]:
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 200}}
    colour = {"name": "colour", "in": "query", "schema": {"anyOf": [_ref("Colour"), {"type": "null"}]}}
    things = {"type": "array", "items": _ref("Thing")}
    return {
        "operationId": "list_things",
        "security": [{"token": ["viewer"]}],
        "parameters": [limit, colour],
        "responses": {"200": {"description": "", "content": {**_json(things), "text/csv": {}}}},
    }


def _making() -> dict[str, Any]:
    key = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}
    return {
        "operationId": "make_thing",
        "security": [{"token": ["operator"]}],
        "parameters": [key],
        "requestBody": {"required": True, "content": _json(_ref("ThingCreate"))},
        "responses": {
            "201": {
                "description": "",
                "headers": {"Location": {"$ref": "#/components/headers/Location"}},
                "content": _json(_ref("Thing")),
            },
            "409": {"description": "", "content": {"application/problem+json": {"schema": _ref("Problem")}}},
        },
    }


def _showing() -> dict[str, Any]:
    return {
        "operationId": "get_thing",
        "security": [{"token": ["viewer"]}],
        "responses": {"200": {"description": "", "content": _json(_ref("Thing"))}},
    }


def _telling() -> dict[str, Any]:
    stamp = {"name": "webhook-timestamp", "in": "header", "required": True, "schema": {"type": "string"}}
    return {
        "operationId": "receive_sold",
        "parameters": [stamp],
        "requestBody": {"required": True, "content": _json(_ref("Sold"))},
        "responses": {"204": {"description": ""}, "410": {"description": ""}},
    }


def _schemas() -> dict[str, Any]:
    return {
        "Colour": {"type": "string", "enum": ["red", "blue"]},
        "Named": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "Thing": {
            "allOf": [_ref("Named")],
            "type": "object",
            "properties": {
                "colour": _ref("Colour"),
                "price": {"type": "integer"},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "parts": {"type": "array", "items": _ref("Thing")},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "made_at": {"type": "string", "format": "date-time"},
                "drive": {
                    "oneOf": [_ref("Motor"), _ref("Spring")],
                    "discriminator": {"propertyName": "kind"},
                },
            },
            "required": ["colour", "price", "parts"],
        },
        "Motor": _drive("motor", "watts", "volts", "phases"),
        "Spring": _drive("spring", "turns"),
        "ThingCreate": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z]+$"},
                "colour": _ref("Colour"),
                "size": {"type": ["number", "null"]},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
                "drive": {"oneOf": [_ref("Motor"), _ref("Spring")]},
                "version": {"const": 1},
                "count": {"type": "integer"},
                "code": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "string", "pattern": "^x"}]},
            },
            "required": ["name"],
        },
        "Problem": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
        },
        "Sold": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "thing": _ref("Thing")},
            "required": ["id", "thing"],
        },
    }


def _drive(kind: str, *amounts: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **{amount: {"type": "integer"} for amount in amounts}},
        "required": ["kind", *amounts],
    }
