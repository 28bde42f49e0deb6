"""Tells what a program that knows a JSON schema would stumble over in its next version; `openapi_changes` rests on it.

Schemas are those of OpenAPI 3.1 documents. What cannot be compared is a fault: a keyword that is not known here and is
not the same in both versions counts as a change.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
Faults: TypeAlias = tuple[str, ...]

UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
CHOICES = ("anyOf", "oneOf")
TEXTS = frozenset({"title", "description", "default", "examples", "example", "deprecated", "discriminator", "$comment"})
"""What says nothing about which values there are."""
UNDERSTOOD = frozenset(
    {"$ref", "type", "const", "enum", "pattern", "allOf", "properties", "required", "additionalProperties", "items"}
    | {*CHOICES, *UPPER_BOUNDS, *LOWER_BOUNDS, *TEXTS}
)
_ANY: Schema = {}


@dataclass(frozen=True, slots=True)
class Side:
    """A document whose components its schemas refer to."""

    document: Mapping[str, Any]

    def resolve(self, thing: Any) -> Schema:
        """Return what a schema, or any other part, says itself: references followed, the parts of allOf in one."""
        if isinstance(thing, bool):
            return _ANY if thing else {"enum": []}
        merged = dict(thing)
        parts = [self.resolve(part) for part in merged.pop("allOf", ())]
        if "$ref" in merged:
            parts.append(self.resolve(self.follow(merged.pop("$ref"))))
        for part in parts:
            merged = _both(merged, part)
        return merged

    def follow(self, reference: str) -> Any:
        """Return what a reference within the document stands for."""
        found: Any = self.document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step.replace("~1", "/").replace("~0", "~")]
        return found

    def choices(self, schema: Any) -> Iterator[Schema]:
        """Yield the schemas that are together this one, each without a choice and with at most one type."""
        resolved = self.resolve(schema)
        for keyword in CHOICES:
            if keyword in resolved:
                rest = {key: value for key, value in resolved.items() if key != keyword}
                for choice in resolved[keyword]:
                    yield from self.choices({**rest, "allOf": [choice]})
                return
        types = resolved.get("type")
        for one in types if isinstance(types, list) else [types]:
            yield resolved if one is None else {**resolved, "type": one}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares the schemas of two versions for one direction.

    Of a request every old value must be a new one: what was taken is taken. Of an answer every new value must be an
    old one, for its readers; but enumerations and kinds may grow there and fields may be added, since readers are told
    to pass over what they do not know.
    """

    old: Side
    new: Side
    is_answer: bool
    _under_way: frozenset[tuple[int, int]] = field(default=frozenset())

    def faults(self, old: Any, new: Any, place: str = "") -> Faults:
        """Return what breaks between two versions of a schema, each with its place; empty when nothing does."""
        pair = (id(old), id(new))
        if pair in self._under_way:
            return ()
        deeper = replace(self, _under_way=self._under_way | {pair})
        olds, news = list(self.old.choices(old)), list(self.new.choices(new))
        inner, outer = (news, olds) if self.is_answer else (olds, news)
        found = [deeper.faults_of_choice(choice, outer, place) for choice in inner]
        gone = [f"{place or '.'}: never {tag}" for tag in _tags(olds) - _tags(news)] if self.is_answer else []
        return tuple(dict.fromkeys([*(fault for faults in found for fault in faults), *gone]))

    def faults_of_choice(self, inner: Schema, outers: list[Schema], place: str) -> Faults:
        """Return why no outer schema covers the inner one, by the one that is most like it."""
        alike = [outer for outer in outers if _fits_type(inner, outer)]
        if not alike:
            return (self._loss(place, _kind(inner)),)
        tagged = [outer for outer in alike if _tag(outer) == _tag(inner)]
        if self.is_answer and not tagged and _tag(inner) and len(_tags(alike)) > 1:
            return ()
        return min((self._faults_of_pair(inner, outer, place) for outer in tagged or alike), key=len)

    def _faults_of_pair(self, inner: Schema, outer: Schema, place: str) -> Faults:
        is_object = "object" in {inner.get("type"), outer.get("type")}
        return (
            *self._value_faults(inner, outer, place),
            *self._bound_faults(inner, outer, place),
            *self._other_faults(inner, outer, place),
            *self._part_faults(inner.get("items", _ANY), outer.get("items", _ANY), f"{place}[]"),
            *(self._object_faults(inner, outer, place) if is_object else ()),
        )

    def _part_faults(self, inner: Any, outer: Any, place: str) -> Faults:
        return self.faults(outer, inner, place) if self.is_answer else self.faults(inner, outer, place)

    def _object_faults(self, inner: Schema, outer: Schema, place: str) -> Faults:
        mine, theirs = inner.get("properties", {}), outer.get("properties", {})
        old, new = (theirs, mine) if self.is_answer else (mine, theirs)
        lack = "may be left out" if self.is_answer else "must be given"
        loose = [name for name in outer.get("required", ()) if name not in inner.get("required", ())]
        return (
            *(f"{_at(place, name)}: gone" for name in old if name not in new),
            *(f"{_at(place, name)}: {lack}" for name in loose if name in new),
            *(
                fault
                for name in old
                if name in new
                for fault in self._part_faults(mine[name], theirs[name], _at(place, name))
            ),
            *self._map_faults(inner, outer, place),
        )

    def _map_faults(self, inner: Schema, outer: Schema, place: str) -> Faults:
        """Compare what fields without a name of their own hold."""
        mine, theirs = inner.get("additionalProperties", True), outer.get("additionalProperties", True)
        if mine is False or theirs is True or (self.is_answer and theirs is False):
            return ()
        if theirs is False:
            return (self._loss(place, "fields of any name"),)
        return self._part_faults(mine, theirs, f"{place}{{}}")

    def _value_faults(self, inner: Schema, outer: Schema, place: str) -> Faults:
        mine, theirs = _values(inner), _values(outer)
        if theirs is None or (self.is_answer and mine is not None and "enum" in outer):
            return ()
        if mine is None:
            return (self._loss(place, f"any {_kind(inner)}"),)
        return tuple(self._loss(place, repr(value)) for value in mine if value not in theirs)

    def _bound_faults(self, inner: Schema, outer: Schema, place: str) -> Faults:
        if _values(inner) is not None:
            return ()
        upper = [word for word in UPPER_BOUNDS if word in outer and inner.get(word, float("inf")) > outer[word]]
        lower = [word for word in LOWER_BOUNDS if word in outer and inner.get(word, float("-inf")) < outer[word]]
        return tuple(self._loss(place, f"beyond {word} {outer[word]}") for word in (*upper, *lower))

    def _other_faults(self, inner: Schema, outer: Schema, place: str) -> Faults:
        """Compare what can only be the same or not."""
        words = sorted((set(inner) | set(outer)) - UNDERSTOOD)
        differing = [word for word in words if inner.get(word) != outer.get(word)]
        if "pattern" in outer and _values(inner) is None and inner.get("pattern") != outer["pattern"]:
            differing.append("pattern")
        return tuple(f"{place or '.'}: another {word}" for word in differing)

    def _loss(self, place: str, what: str) -> str:
        return f"{place or '.'}: {'now also' if self.is_answer else 'no longer'} {what}"


def _both(first: Schema, second: Schema) -> dict[str, Any]:
    """Return the schema of what obeys both; where they contradict each other, the first is taken at its word."""
    merged = {**second, **first}
    if "properties" in first and "properties" in second:
        merged["properties"] = {**second["properties"], **first["properties"]}
    if "required" in first and "required" in second:
        merged["required"] = [*first["required"], *second["required"]]
    return merged


def _fits_type(inner: Schema, outer: Schema) -> bool:
    mine, theirs = _type(inner), _type(outer)
    return theirs in {None, mine} or (mine, theirs) == ("integer", "number")


def _type(schema: Schema) -> str | None:
    """Return the type of a schema, or that of its values; None when there may be several."""
    if "type" in schema:
        return str(schema["type"])
    names = {_type_of(value) for value in _values(schema) or ()}
    return names.pop() if len(names) == 1 else None


def _type_of(value: object) -> str:
    kinds = (("null", type(None)), ("boolean", bool), ("integer", int), ("number", float), ("string", str))
    return next(
        (name for name, kind in kinds if isinstance(value, kind)), "array" if isinstance(value, list) else "object"
    )


def _values(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _kind(schema: Schema) -> str:
    return _tag(schema) or _type(schema) or "anything"


def _tags(schemas: list[Schema]) -> set[str]:
    return {tag for schema in schemas if (tag := _tag(schema))}


def _tag(schema: Schema) -> str:
    """Return the fields of one value by which an object is told from the others of a choice; empty without such."""
    fields = schema.get("properties", {})
    tags = {name: part["const"] for name, part in fields.items() if isinstance(part, Mapping) and "const" in part}
    return ", ".join(f"{name} {value}" for name, value in sorted(tags.items()))


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
