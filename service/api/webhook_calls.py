"""What Vigil sends to webhooks, for the OpenAPI document: these are requests of the service, not routes of it."""

from typing import Annotated

from fastapi import APIRouter, Header, status

from service.api.schemas.events import DeliveredEvent

router = APIRouter(tags=["webhooks"])


@router.post(
    "event",
    operation_id="receive_event",
    status_code=status.HTTP_204_NO_CONTENT,
    response_description="Taken, as with any other 2xx.",
    responses={
        status.HTTP_410_GONE: {"description": "Never to be sent: the delivery has failed, and is not tried again."},
        "default": {"description": "Not taken: sent again for a day, with pauses that grow."},
    },
    openapi_extra={"security": []},
)
async def receive_event(
    body: DeliveredEvent,
    webhook_id: Annotated[
        str,
        Header(
            pattern=r"^wd_[0-9a-z]{1,40}$",
            description="The id of the delivery, the same at every attempt: do nothing when you had it before.",
        ),
    ],
    webhook_timestamp: Annotated[
        str,
        Header(
            pattern=r"^[0-9]{1,12}$",
            description="When this attempt was signed, in seconds since 1970: refuse what is older than 300 s.",
        ),
    ],
    webhook_signature: Annotated[
        str,
        Header(
            pattern=r"^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)*$",
            description="`v1,` and the base64 of HMAC-SHA256 over id, dot, timestamp, dot and the body byte for byte, "
            "as the Standard Webhooks say; one of several, with a space between them, must be right.",
        ),
    ],
) -> None:
    """Take an event, a gap or a test.

    Sent to the address of a webhook (POST /webhooks), at least once; `docs/events.md` says how to verify the signature.
    """
