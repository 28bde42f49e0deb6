"""Webhooks and their deliveries as the API shows them."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, Field

from service.api.schemas.common import Name, Request, shown
from service.clock import Instant
from service.db.event_tables import Webhook, WebhookDelivery
from service.operations.webhook_targets import URL_LENGTH
from service.profiles.profile import SecretReference
from service.servers.event import DeliveryState, EventKind


class WebhookCreate(Request):
    """Where to tell what."""

    model_config = shown(
        {
            "url": "https://ops.example/vigil",
            "kinds": ["server_moved", "contact_changed", "finding_began"],
            "secret": {"file": "/etc/vigil/webhook"},
        }
    )

    url: Annotated[str, Field(min_length=1, max_length=URL_LENGTH, examples=["https://ops.example/vigil"])] = Field(
        description="https, or http where nobody listens in between. It is shown to admins: put no secret into it."
    )
    kinds: Annotated[list[EventKind], Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="Only events of these kinds; all by default."
    )
    server: Name | None = Field(default=None, description="Only events of this server.")
    node: Name | None = Field(default=None, description="Only events of this node and its servers.")
    secret: SecretReference | None = Field(
        default=None,
        description="Where the secret lies that deliveries are signed with: 24 bytes or more. Without one Vigil makes "
        "it, and shows it once in the answer.",
    )


class WebhookPublic(BaseModel):
    """An address that is told of events."""

    id: str
    url: str
    kinds: list[EventKind] | None
    server_id: str | None
    server: str | None
    node_id: str | None
    node: str | None
    secret: SecretReference | None = Field(description="null when Vigil made it.")
    pending: int = Field(description="How many deliveries wait.")
    actor: str
    created_at: Instant


class WebhookCreated(BaseModel):
    """A new webhook, and the secret that Vigil made for it."""

    webhook: WebhookPublic
    secret: str | None = Field(
        description="Shown this once; null when it was given by reference, and when the request is repeated."
    )
    warnings: list[str]


class DeliveryPublic(BaseModel):
    """One event on its way to one webhook."""

    id: str = Field(description="The `webhook-id` that the receiver gets, the same at every attempt.")
    webhook_id: str
    event_id: int | None = Field(description="null for a test and for a gap.")
    kind: str = Field(description="The kind of the event, or `test`, or `gap`.")
    state: DeliveryState
    attempts: int
    status: int | None = Field(description="What the receiver answered to the last attempt; null when it did not.")
    duration_ms: int | None
    error: str | None
    created_at: Instant
    next_at: Instant | None = Field(description="When the next attempt is due; null when there is none.")
    ended_at: Instant | None


def webhook_public(row: Webhook, names: Mapping[str, str], pending: int) -> WebhookPublic:
    """Return a webhook as the API shows it."""
    return WebhookPublic.model_validate(
        {
            **row.model_dump(),
            "server": names.get(row.server_id or ""),
            "node": names.get(row.node_id or ""),
            "pending": pending,
        }
    )


def delivery_public(row: WebhookDelivery) -> DeliveryPublic:
    """Return a delivery as the API shows it."""
    is_pending = row.state is DeliveryState.PENDING
    return DeliveryPublic.model_validate({**row.model_dump(), "next_at": row.next_at if is_pending else None})
