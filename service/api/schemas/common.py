"""Shapes that several resources share."""

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.config import JsonDict

from service.ids import NAME_PATTERN

Item = TypeVar("Item")
MOST = 2**31 - 1
"""The largest whole number that is taken where nothing narrower is meant: every database has room for it."""
MOST_BYTES = 2**63 - 1
"""The same for a place in a file."""
Name = Annotated[
    str,
    StringConstraints(pattern=NAME_PATTERN),
    Field(description="Lower case letters, digits, '.', '_' and '-'; at most 63.", examples=["atlas"]),
]


class Request(BaseModel):
    """The base of what is sent: a field that is not known is refused, so that no misspelling is lost."""

    model_config = ConfigDict(extra="forbid")


def shown(*examples: JsonDict) -> ConfigDict:
    """Return the configuration of a shape that the OpenAPI document shows with these examples."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class Page(BaseModel, Generic[Item]):
    """One page of a list, newest first."""

    items: list[Item]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null at the end.")


class FieldProblem(BaseModel):
    """One field that breaks a rule."""

    place: str = Field(description="Where it is, such as body.server_args.")
    message: str


class Problem(BaseModel):
    """What went wrong (RFC 9457), with a stable code and what to do about it."""

    type: str = Field(examples=["urn:vigil:problem:gpu_taken"])
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable: programs may rely on it.", examples=["gpu_taken"])
    remedy: str
    errors: list[FieldProblem] | None = None
    context: dict[str, object] | None = Field(default=None, description="Further facts, such as the holder of a GPU.")


class OperationProblem(BaseModel):
    """Why an operation failed, or what stands in its way."""

    code: str
    detail: str
    remedy: str
