"""Events as readers and webhooks get them: one model a kind, told apart by `kind`."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, RootModel

from service.api.schemas.common import shown
from service.clock import Instant
from service.operations import event_documents as documents
from service.servers.event import EventKind


class _Event(BaseModel):
    """What every event says: where and when."""

    id: int = Field(description="Grows with every event; give it as `Last-Event-ID` to go on behind it.")
    at: Instant
    node_id: str = Field(description="Empty for an imported result that was told of no server.")
    node: str | None = Field(description="The name of the node; null when it is not known any more.")
    server_id: str | None = Field(description="null for what concerns a node alone.")
    server: str | None
    launch_id: str | None


class ServerMovedEvent(_Event):
    """A server went from one state to another."""

    kind: Literal[EventKind.SERVER_MOVED]
    document: documents.ServerMoved


class ContactChangedEvent(_Event):
    """A node was reached, or lost, or is lost for another cause."""

    kind: Literal[EventKind.CONTACT_CHANGED]
    document: documents.ContactChanged


class VerdictChangedEvent(_Event):
    """What is thought of a launch has changed."""

    kind: Literal[EventKind.VERDICT_CHANGED]
    document: documents.VerdictChanged


class PolicyDecidedEvent(_Event):
    """A policy answered a crash or a suspected hang."""

    kind: Literal[EventKind.POLICY_DECIDED]
    document: documents.PolicyDecided


class PhaseChangedEvent(_Event):
    """A start entered a phase."""

    kind: Literal[EventKind.PHASE_CHANGED]
    document: documents.PhaseChanged


class FindingBeganEvent(_Event):
    """Something is wrong from now on."""

    kind: Literal[EventKind.FINDING_BEGAN]
    document: documents.FindingTold


class FindingEndedEvent(_Event):
    """Something that was wrong is over."""

    kind: Literal[EventKind.FINDING_ENDED]
    document: documents.FindingTold


class OperationBeganEvent(_Event):
    """A request that takes time was accepted, or Vigil began one of its own."""

    kind: Literal[EventKind.OPERATION_BEGAN]
    document: documents.OperationTold


class OperationAdvancedEvent(_Event):
    """An operation has come to its next step."""

    kind: Literal[EventKind.OPERATION_ADVANCED]
    document: documents.OperationTold


class OperationEndedEvent(_Event):
    """An operation has ended."""

    kind: Literal[EventKind.OPERATION_ENDED]
    document: documents.OperationTold


class BenchmarkRegressedEvent(_Event):
    """A run is worse than the baseline of its profile."""

    kind: Literal[EventKind.BENCHMARK_REGRESSED]
    document: documents.BenchmarkRegressed


class GapEvent(BaseModel):
    """Events are missing here: they are not kept any more. It is made for its reader and is no event of the list."""

    kind: Literal["gap"]
    at: Instant
    after: int = Field(description="The id that the reader had.")
    resume_after: int = Field(description="The id behind which it goes on.")
    detail: str


class WebhookTest(BaseModel):
    """What `POST /webhooks/{webhook}/test` sends; no stream has it."""

    kind: Literal["test"]
    at: Instant
    webhook_id: str


AnyEvent = (
    ServerMovedEvent
    | ContactChangedEvent
    | VerdictChangedEvent
    | PolicyDecidedEvent
    | PhaseChangedEvent
    | FindingBeganEvent
    | FindingEndedEvent
    | OperationBeganEvent
    | OperationAdvancedEvent
    | OperationEndedEvent
    | BenchmarkRegressedEvent
)


class DeliveredEvent(RootModel[Annotated[AnyEvent | GapEvent | WebhookTest, Field(discriminator="kind")]]):
    """The body of one request to a webhook."""

    model_config = shown(
        {
            "id": 1042,
            "kind": "phase_changed",
            "at": "2026-11-29T16:04:05.123Z",
            "node_id": "nd_01k0c8m2q4",
            "node": "atlas",
            "server_id": "sv_01k0c8m9x2",
            "server": "llama",
            "launch_id": "ln_01k0c8md7r",
            "document": {
                "before": "loading_weights",
                "after": "capturing_graphs",
                "position": 6,
                "started_at": "2026-11-29T16:04:05.000Z",
            },
        }
    )


class StreamedEvent(RootModel[Annotated[AnyEvent | GapEvent, Field(discriminator="kind")]]):
    """The `data` of one server-sent event."""
