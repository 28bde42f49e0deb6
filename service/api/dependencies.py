"""What routes ask for: the control plane's parts, a page, the actor, the caller's idempotency key."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Header, Path, Query, Request

from service.api.access import Gate, caller_of
from service.api.schemas.common import MOST
from service.api.server_texts import ServerTexts
from service.db.paging import MAX_LIMIT, PageRequest
from service.db.recorded_servers import RecordedServers
from service.operations.control import Control
from service.operations.importing import FileReader
from service.operations.runner import OperationRunner


@dataclass(frozen=True, slots=True)
class Parts:
    """What the composition root hands to the routes."""

    control: Control
    runner: OperationRunner
    gate: Gate
    file_reader: FileReader = field(default_factory=FileReader)
    recorded_servers: RecordedServers = field(default_factory=RecordedServers)
    server_texts: ServerTexts = field(default_factory=ServerTexts)


async def get_parts(request: Request) -> Parts:
    """Return the parts that the application was made with."""
    parts = request.app.state.parts
    if not isinstance(parts, Parts):
        raise TypeError("the application was not started")
    return parts


async def get_page(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most.")] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="`next_cursor` of the page before.")] = None,
) -> PageRequest:
    """Return which page of a list is wanted."""
    return PageRequest(limit=limit, cursor=cursor)


async def get_actor(request: Request) -> str:
    """Return who makes the request, as transitions and operations name them."""
    return caller_of(request).actor


IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Any text of the caller's choice. The same request with the same key is carried out once; "
        "repeating it within a day gives the same answer again.",
    ),
]
Reference = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", description="A name or an id.", examples=["atlas"])
]
Id = Annotated[str, Path(pattern=r"^[a-z]{2}_[0-9a-z]{1,40}$", description="An id.")]
VersionNumber = Annotated[
    int, Path(ge=1, le=MOST, description="The number of a version; the first is 1.", examples=[1])
]
ActorNeeded = Annotated[str, Depends(get_actor)]
PartsNeeded = Annotated[Parts, Depends(get_parts)]
PageNeeded = Annotated[PageRequest, Depends(get_page)]
