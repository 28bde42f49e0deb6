"""The tables of events and of their way to webhooks."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, UniqueConstraint, text
from sqlmodel import Field

from service.db.columns import enum_text
from service.db.fields import Table, count_field, instant_field, json_field, key_field, reference_field, text_field
from service.servers.event import DeliveryState, EventKind

_EVENT_ID = BigInteger().with_variant(Integer, "sqlite")


class Event(Table, table=True):
    """What happened, for those who listen: written with the change that it tells, in the order of the commits."""

    __tablename__ = "event"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012  SQLAlchemy's own shape

    id: int | None = Field(default=None, sa_column=Column(_EVENT_ID, primary_key=True))
    """Never given twice, even when all rows were deleted."""
    kind: EventKind = Field(sa_column=Column(enum_text(EventKind), nullable=False))
    node_id: str = text_field()
    server_id: str | None = text_field(nullable=True)
    launch_id: str | None = text_field(nullable=True)
    document: dict[str, Any] = json_field()
    at: datetime = instant_field(index=True)


class Webhook(Table, table=True):
    """An address that is told of events."""

    __tablename__ = "webhook"

    id: str = key_field()
    url: str
    kinds: list[str] | None = json_field(nullable=True)
    """Only these; None means all."""
    node_id: str | None = text_field(nullable=True)
    server_id: str | None = text_field(nullable=True)
    secret: dict[str, str] | None = json_field(nullable=True)
    """Where the secret lies; None for one that is derived from the key file of the service."""
    secret_hash: str | None = text_field(nullable=True)
    """SHA-256 of a derived secret: it shows when the key file is another one."""
    event_id: int = count_field()
    """Up to this event deliveries were made."""
    actor: str = text_field()
    created_at: datetime = instant_field()
    deleted_at: datetime | None = instant_field(nullable=True)


class WebhookDelivery(Table, table=True):
    """One event on its way to one address, with what came of it."""

    __tablename__ = "webhook_delivery"
    __table_args__ = (
        UniqueConstraint("webhook_id", "event_id"),
        Index(
            "ix_webhook_delivery_pending",
            "webhook_id",
            "next_at",
            sqlite_where=text("state = 'pending'"),
            postgresql_where=text("state = 'pending'"),
        ),
    )

    id: str = key_field()
    webhook_id: str = reference_field("webhook.id")
    event_id: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    """None for a test and for a gap."""
    kind: str = text_field()
    body: str
    """What is sent, byte for byte the same at every attempt."""
    state: DeliveryState = Field(sa_column=Column(enum_text(DeliveryState), nullable=False))
    attempts: int = 0
    status: int | None = None
    """What the receiver answered to the last attempt; None when it did not."""
    duration_ms: int | None = None
    error: str | None = None
    next_at: datetime = instant_field()
    """When the next attempt is due."""
    give_up_at: datetime = instant_field()
    created_at: datetime = instant_field(index=True)
    ended_at: datetime | None = instant_field(nullable=True)
